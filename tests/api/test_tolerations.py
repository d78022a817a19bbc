"""Tolerations that include others."""

from __future__ import annotations

import pytest

from bayplan.api.pods.tolerations import includes, merged, within
from bayplan.api.types.core_v1 import Toleration

ALL = Toleration(operator="Exists")
KEY = Toleration(key="a", operator="Exists")
VALUE = Toleration(key="a", value="v", effect="NoSchedule")
BRIEF = Toleration(key="a", operator="Exists", effect="NoExecute", toleration_seconds=5)
LONG = Toleration(key="a", operator="Exists", effect="NoExecute", toleration_seconds=50)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [(ALL, KEY, True), (KEY, VALUE, True), (VALUE, KEY, False), (LONG, BRIEF, True), (BRIEF, LONG, False)],
)
def test_what_includes_what(one: Toleration, other: Toleration, expected: bool) -> None:
    assert includes(one, other) is expected


def test_a_merged_list_has_nothing_that_another_one_includes() -> None:
    assert merged((VALUE, BRIEF), (KEY, LONG)) == (KEY,)
    assert merged((VALUE,), (VALUE,)) == (VALUE,)


def test_an_empty_list_of_allowed_ones_allows_everything() -> None:
    assert within((ALL,), ())
    assert within((VALUE,), (KEY,))
    assert not within((KEY,), (VALUE,))
