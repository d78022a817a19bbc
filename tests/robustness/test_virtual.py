"""A few seeds of the runs in virtual time; `make robustness` plays as many as one likes."""

from __future__ import annotations

import pytest

from tests.robustness.virtual import outcome_of


@pytest.mark.parametrize("seed", range(1, 9))
def test_clients_are_told_what_happened_whatever_fails(seed: int) -> None:
    outcome = outcome_of(seed, seconds=25.0)
    assert outcome.problems == []
    assert outcome.faults
    assert outcome.writes > 50
    assert outcome.events > 50


def test_equal_seeds_are_equal_runs() -> None:
    assert outcome_of(3, seconds=10.0) == outcome_of(3, seconds=10.0)


def test_without_faults_every_request_is_answered() -> None:
    outcome = outcome_of(1, seconds=10.0, faulty=False)
    assert (outcome.problems, outcome.unknown, outcome.relists) == ([], 0, 0)
