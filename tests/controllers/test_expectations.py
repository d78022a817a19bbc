"""A controller waits until it has seen what it did."""

from __future__ import annotations

import pytest

from bayplan.controllers.expectations import TIMEOUT, Expectations
from bayplan.testing.clock import ManualClock

KEY = "default/web"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def expectations(clock: ManualClock) -> Expectations:
    return Expectations(clock)


def test_nothing_is_expected_at_first(expectations: Expectations) -> None:
    assert expectations.satisfied(KEY)


def test_creations_are_waited_for_one_by_one(expectations: Expectations) -> None:
    expectations.expect_creations(KEY, 2)
    expectations.creation_observed(KEY)
    assert not expectations.satisfied(KEY)
    expectations.creation_observed(KEY)
    assert expectations.satisfied(KEY)


def test_more_creations_than_expected_do_no_harm(expectations: Expectations) -> None:
    expectations.expect_creations(KEY, 1)
    expectations.creation_observed(KEY)
    expectations.creation_observed(KEY)
    assert expectations.satisfied(KEY)


def test_deletions_are_waited_for_by_uid(expectations: Expectations) -> None:
    expectations.expect_deletions(KEY, {"a", "b"})
    expectations.deletion_observed(KEY, "a")
    expectations.deletion_observed(KEY, "a")
    expectations.deletion_observed(KEY, "foreign")
    assert not expectations.satisfied(KEY)
    expectations.deletion_observed(KEY, "b")
    assert expectations.satisfied(KEY)


def test_keys_do_not_mix(expectations: Expectations) -> None:
    expectations.expect_creations(KEY, 1)
    assert expectations.satisfied("default/other")


def test_an_event_that_never_comes_is_not_waited_for_for_ever(expectations: Expectations, clock: ManualClock) -> None:
    expectations.expect_creations(KEY, 1)
    clock.advance(TIMEOUT)
    assert not expectations.satisfied(KEY)
    clock.advance(1)
    assert expectations.satisfied(KEY)


def test_a_forgotten_key_starts_anew(expectations: Expectations) -> None:
    expectations.expect_creations(KEY, 5)
    expectations.forget(KEY)
    assert expectations.satisfied(KEY)


def test_surplus_observations_do_not_hide_later_expectations(expectations: Expectations) -> None:
    expectations.expect_creations(KEY, 1)
    for _ in range(3):
        expectations.creation_observed(KEY)
    expectations.expect_creations(KEY, 1)
    assert not expectations.satisfied(KEY)
