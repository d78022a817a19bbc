"""Durations as Go writes them, and read again."""

from __future__ import annotations

import pytest

from bayplan.support.durations import go_duration, go_seconds


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0s"),
        (0.6125, "612.5ms"),
        (1.5, "1.5s"),
        (40.0, "40s"),
        (90.25, "1m30.25s"),
        (300.0, "5m0s"),
        (3661.0, "1h1m1s"),
    ],
)
def test_durations_are_shown_as_go_shows_them(seconds: float, shown: str) -> None:
    assert go_duration(seconds) == shown
    assert go_seconds(shown) == pytest.approx(seconds)


def test_a_zero_needs_no_unit() -> None:
    assert go_seconds("0") == 0
    with pytest.raises(ValueError, match="no duration"):
        go_seconds("1")
