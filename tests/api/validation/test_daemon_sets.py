"""The annotation that counts the templates of a daemon set."""

from __future__ import annotations

import pytest

from bayplan.api.codec import DecodeError
from bayplan.api.strategies.apps.daemonsets import STRATEGY
from bayplan.api.types import apps_v1, meta_v1

KEY = "deprecated.daemonset.template.generation"


def counted(**annotations: str) -> dict[str, str]:
    """The annotations of a new daemon set."""
    obj = apps_v1.DaemonSet(metadata=meta_v1.ObjectMeta(name="d", annotations=annotations))
    STRATEGY.default(obj)
    STRATEGY.prepare_create(obj)
    return obj.metadata.annotations


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("7", "7"),
        ("007", "7"),
        ("+5", "5"),
        ("-3", "1"),
        ("0", "1"),
        ("0" * 5000 + "2", "2"),
        ("-9223372036854775808", "1"),
        ("9223372036854775807", "9223372036854775807"),
    ],
)
def test_it_is_kept_as_a_number_of_at_least_one(given: str, kept: str) -> None:
    assert counted(**{KEY: given}) == {KEY: kept}


def test_it_is_added_to_others() -> None:
    assert counted(a="b") == {"a": "b", KEY: "1"}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("", "invalid syntax"),
        ("x", "invalid syntax"),
        ("+", "invalid syntax"),
        ("1.0", "invalid syntax"),
        ("9223372036854775808", "value out of range"),
        ("-9223372036854775809", "value out of range"),
        ("9" * 5000, "value out of range"),
    ],
)
def test_anything_but_a_number_is_refused(given: str, problem: str) -> None:
    with pytest.raises(DecodeError) as caught:
        counted(**{KEY: given})
    assert str(caught.value) == f'strconv.ParseInt: parsing "{given}": {problem}'
