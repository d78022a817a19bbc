"""Timestamps from clients."""

from __future__ import annotations

import pytest

from bayplan.api.codec import DecodeError, decode_reporting
from bayplan.api.times import MICRO_LAYOUT, SECONDS_LAYOUT, TimeError, canonical
from bayplan.api.types import coordination_v1, core_v1, policy_v1


@pytest.mark.parametrize(
    ("text", "layout", "expected"),
    [
        ("2020-01-01T00:00:00Z", SECONDS_LAYOUT, "2020-01-01T00:00:00Z"),
        ("2020-01-01T02:00:00+02:00", SECONDS_LAYOUT, "2020-01-01T00:00:00Z"),
        ("2020-02-29T00:00:00.999Z", SECONDS_LAYOUT, "2020-02-29T00:00:00Z"),
        ("9999-12-31T23:59:59.999999Z", SECONDS_LAYOUT, "9999-12-31T23:59:59Z"),
        ("9999-12-31T23:59:59.999999Z", MICRO_LAYOUT, "9999-12-31T23:59:59.999999Z"),
        ("9999-12-31T23:59:59-01:00", SECONDS_LAYOUT, "9999-12-31T23:59:59Z"),
        ("0000-01-01T00:00:00+01:00", SECONDS_LAYOUT, "0000-01-01T00:00:00Z"),
        ("0001-01-01T00:00:00+01:00", SECONDS_LAYOUT, "0000-12-31T23:00:00Z"),
        ("2020-01-01T1:00:00Z", SECONDS_LAYOUT, "2020-01-01T01:00:00Z"),
        ("2020-01-02T00:00:00+24:00", SECONDS_LAYOUT, "2020-01-01T00:00:00Z"),
        ("2020-01-01T00:00:00.999999999999999999999999999999Z", SECONDS_LAYOUT, "2020-01-01T00:00:00Z"),
        ("2020-01-01T00:00:00.000001-01:00", MICRO_LAYOUT, "2020-01-01T01:00:00.000001Z"),
    ],
)
def test_times_are_spelled_in_one_way(text: str, layout: str, expected: str) -> None:
    assert canonical(text, layout) == expected


@pytest.mark.parametrize(
    ("text", "layout", "message"),
    [
        ("yesterday", SECONDS_LAYOUT, f'as "{SECONDS_LAYOUT}": cannot parse "yesterday" as "2006"'),
        ("2020-01-01", SECONDS_LAYOUT, 'cannot parse "" as "T"'),
        ("2020-13-01T00:00:00Z", SECONDS_LAYOUT, 'parsing time "2020-13-01T00:00:00Z": month out of range'),
        ("2021-02-29T00:00:00Z", SECONDS_LAYOUT, "day out of range"),
        ("2020-01-01T00:00:00+25:00", SECONDS_LAYOUT, "time zone offset hour out of range"),
        ("2020-01-01T00:00:00+01:61", SECONDS_LAYOUT, "time zone offset minute out of range"),
        ("2016-12-31T23:59:60Z", SECONDS_LAYOUT, "second out of range"),
        ("2020-01-01T00:00:00Zx", SECONDS_LAYOUT, 'extra text: "x"'),
        ("2020-01-01T00:00:00.5Z", MICRO_LAYOUT, 'cannot parse ".5Z" as ".000000"'),
        ("2020-01-01T00:00:00.1234567Z", MICRO_LAYOUT, 'cannot parse "7Z" as "Z07:00"'),
    ],
)
def test_malformed_times_are_refused_in_the_words_of_go(text: str, layout: str, message: str) -> None:
    with pytest.raises(TimeError) as caught:
        canonical(text, layout)
    assert message in str(caught.value)


def test_times_anywhere_in_an_object_are_found() -> None:
    data = b'{"status":{"conditions":[{"type":"a","status":"True","lastTransitionTime":"2020-01-01T01:00:00+01:00"}]}}'
    pod = decode_reporting(core_v1.Pod, data)[0]
    assert pod.status.conditions[0].last_transition_time == "2020-01-01T00:00:00Z"
    with pytest.raises(DecodeError, match="cannot parse"):
        decode_reporting(coordination_v1.Lease, b'{"spec":{"renewTime":"2020-01-01T00:00:00Z"}}')


def test_times_in_maps_are_found() -> None:
    data = b'{"status":{"disruptedPods":{"a":"2020-01-01T01:00:00+01:00","b":"2020-01-01T00:00:00Z"}}}'
    budget = decode_reporting(policy_v1.PodDisruptionBudget, data)[0]
    assert budget.status.disrupted_pods == dict.fromkeys("ab", "2020-01-01T00:00:00Z")
    with pytest.raises(DecodeError, match="cannot parse"):
        decode_reporting(policy_v1.PodDisruptionBudget, b'{"status":{"disruptedPods":{"a":"soon"}}}')
