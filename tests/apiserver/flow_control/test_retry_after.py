"""When clients come back: kube-apiserver's `dropped_requests_tracker_test.go`."""

from __future__ import annotations

from bayplan.apiserver.flow_control.retry_after import RetryAfter

STEPS = [
    *((0, 5, 1), (1, 11, 2), (2, 1, 2), (3, 11, 4), (4, 1, 4), (7, 1, 8), (11, 1, 8), (15, 1, 7), (17, 1, 6)),
    *((21, 14, 5), (22, 1, 10)),
]
"""Seconds since the beginning, requests rejected then, and what clients are told afterwards."""


def test_clients_are_told_to_come_back_later_the_more_are_rejected() -> None:
    found, start = RetryAfter(), 1_700_000_000.5
    for second, rejected, expected in STEPS:
        for _ in range(rejected):
            found.rejected(start + second)
        assert (second, found.seconds) == (second, expected)


def test_it_is_never_more_than_half_a_minute() -> None:
    found = RetryAfter()
    for second in range(500):
        for _ in range(300):
            found.rejected(1000.0 + second)
    assert found.seconds == 32
