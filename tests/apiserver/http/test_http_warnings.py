"""Warnings of an answer do not grow with the request."""

from __future__ import annotations

import pytest

from bayplan.apiserver.http.warnings import warning_headers


def texts(warnings: list[str]) -> list[str]:
    """What stands between the quotes."""
    headers = warning_headers(warnings)
    assert all(one.startswith('299 - "') and one.endswith('"') for one in headers)
    return [one[7:-1] for one in headers]


@pytest.mark.parametrize(
    ("warnings", "shown"),
    [
        ([], []),
        (["a", "", "b", "a"], ["a", "b"]),
        (['say "x"\\', "line\nbreak", "c1\x85"], ['say \\"x\\"\\\\']),
        (["x" * 4096], ["x" * 4096]),
        (["x" * 4097], ["x" * 256]),
        (["x" * 300, "y" * 4000, "z" * 300], ["x" * 256, "y" * 256, "z" * 256]),
    ],
)
def test_warnings_are_told_once_and_cut_off_when_they_are_many(warnings: list[str], shown: list[str]) -> None:
    assert texts(warnings) == shown


def test_a_thousand_warnings_take_some_kilobytes() -> None:
    shown = texts([f"{index:04}" + "w" * 400 for index in range(1000)])
    assert len(shown) == 16
    assert all(len(one) == 256 for one in shown)
