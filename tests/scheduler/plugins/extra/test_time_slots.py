"""Pods that begin in a slot of the week only."""

from __future__ import annotations

import pytest

from bayplan.scheduler.framework.extra_arguments import TimeSlot
from bayplan.scheduler.plugins.extra.time_slots import opening
from bayplan.support.timestamps import parse_rfc3339, rfc3339
from tests.scheduler.objects import Tree, node, pod
from tests.scheduler.plugins.extra.cores import Setup, enabling

NIGHT = TimeSlot("night", tuple(range(7)), 22 * 60, 6 * 60)
WEEKEND = TimeSlot("weekend", (5, 6), 0, 0)
OFFICE = TimeSlot("office", (0, 1, 2, 3, 4), 9 * 60, 17 * 60, 120)

CASES: list[tuple[str, TimeSlot, str, float, str | None]] = [
    ("before the slot", NIGHT, "2026-01-05T12:00:00Z", 0, "2026-01-05T22:00:00Z"),
    ("within the slot", NIGHT, "2026-01-05T23:00:00Z", 0, "2026-01-05T23:00:00Z"),
    ("within it, after midnight", NIGHT, "2026-01-06T05:59:59Z", 0, "2026-01-06T05:59:59Z"),
    ("on Monday morning, from Sunday", NIGHT, "2026-01-05T01:00:00Z", 0, "2026-01-05T01:00:00Z"),
    ("in the last second of it", NIGHT, "2026-01-06T06:00:00Z", 0, "2026-01-06T06:00:00Z"),
    ("just in time to be done", NIGHT, "2026-01-05T23:00:00Z", 7 * 3600, "2026-01-05T23:00:00Z"),
    ("as long as the slot", NIGHT, "2026-01-05T12:00:00Z", 8 * 3600, "2026-01-05T22:00:00Z"),
    ("after the slot", NIGHT, "2026-01-06T06:00:01Z", 0, "2026-01-06T22:00:00Z"),
    ("within it, but too late to be done", NIGHT, "2026-01-05T23:00:00Z", 7.5 * 3600, "2026-01-06T22:00:00Z"),
    ("too long for it", NIGHT, "2026-01-05T12:00:00Z", 8.5 * 3600, None),
    ("a whole day", WEEKEND, "2026-01-05T12:00:00Z", 24 * 3600, "2026-01-10T00:00:00Z"),
    ("on the second of two days", WEEKEND, "2026-01-11T12:00:00Z", 3600, "2026-01-11T12:00:00Z"),
    ("after the last day of the week", WEEKEND, "2026-01-12T00:00:01Z", 0, "2026-01-17T00:00:00Z"),
    ("in another time zone", OFFICE, "2026-01-05T06:59:00Z", 0, "2026-01-05T07:00:00Z"),
    ("not on Saturday", OFFICE, "2026-01-10T08:00:00Z", 0, "2026-01-12T07:00:00Z"),
]


@pytest.mark.parametrize(("slot", "now", "run", "begins"), [one[1:] for one in CASES], ids=[one[0] for one in CASES])
def test_when_a_pod_may_begin(slot: TimeSlot, now: str, run: float, begins: str | None) -> None:
    found = opening(slot, parse_rfc3339(now), run)
    assert (None if found is None else rfc3339(found)) == begins


def config() -> Tree:
    return enabling("TimeSlots", slots=[{"name": "night", "start": "22:00", "end": "06:00"}])


def nightly(name: str = "p", run: str = "", slot: str = "night") -> Tree:
    one = pod(name, cpu="1", labels={"bayplan.dev/time-slot": slot})
    one["metadata"]["annotations"] = {"bayplan.dev/expected-run-time": run} if run else {}
    return one


def test_a_pod_waits_for_its_slot_and_is_placed_when_it_begins() -> None:
    setup = Setup(config(), node("n"))
    setup.clock.seconds += 12 * 3600
    setup.see(nightly())
    setup.see(pod("any"))
    assert setup.placed() == ["any"]
    assert setup.why(nightly()) == 'waiting for time slot "night", until 2026-01-05T22:00:00Z'
    wake = setup.core.queue.next_wake()
    assert wake is not None
    assert wake == pytest.approx(setup.clock.seconds + 10 * 3600)
    setup.clock.seconds = wake - 1
    assert setup.placed() == []
    setup.clock.seconds = wake
    assert setup.placed() == ["p"]


def test_a_pod_that_waited_through_its_slot_waits_for_the_next() -> None:
    setup = Setup(config(), nightly())
    setup.clock.seconds += 8 * 3600
    setup.see(node("n"))
    setup.clock.seconds += 20
    assert setup.placed() == []
    setup.clock.seconds += 15 * 3600
    assert setup.placed() == ["p"]


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (nightly(slot="noon"), 'there is no time slot "noon"; known are night'),
        (nightly(run="9h"), 'time slot "night" is too short for 32400 s'),
        (nightly(run="long"), "annotation bayplan.dev/expected-run-time: 'long' is no duration such as 1h30m"),
    ],
)
def test_what_never_fits_says_why(one: Tree, why: str) -> None:
    setup = Setup(config(), node("n"))
    assert setup.why(one) == why
    setup.see(one)
    assert setup.core.queue.next_wake() is None


def test_without_a_clock_slots_are_open() -> None:
    assert Setup(config(), node("n"), nightly(), timed=False).placed() == ["p"]
