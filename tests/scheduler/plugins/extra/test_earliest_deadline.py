"""Pods by their deadlines, and those that can no longer meet theirs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduler.objects import Tree, node, pod
from tests.scheduler.plugins.extra.cores import MONDAY, Setup, sorting


def due(name: str, deadline: str | None = None, *, run: str = "", after: str = "", **more: Any) -> Tree:
    """A pod that was created on Monday, 00:00."""
    one = pod(name, cpu="1", **more)
    given = {
        "bayplan.dev/deadline": deadline,
        "bayplan.dev/expected-run-time": run,
        "bayplan.dev/deadline-after": after,
    }
    one["metadata"]["annotations"] = {key: value for key, value in given.items() if value}
    one["metadata"]["creationTimestamp"] = MONDAY
    return one


def test_the_earliest_deadline_is_first_and_no_deadline_last() -> None:
    pods = [
        due("none"),
        due("late", "2026-01-05T03:00:00Z"),
        due("early", "2026-01-05T01:00:00Z"),
        due("relative", after="2h"),
        due("important", "2026-01-05T09:00:00Z", priority=1),
    ]
    setup = Setup(sorting("EarliestDeadline"), node("n", cpu="8"), *pods)
    assert setup.placed() == ["important", "early", "relative", "late", "none"]


LOST = "the deadline 2026-01-05T01:00:00Z can no longer be met"
CASES: list[tuple[str, Tree, Tree, str]] = [
    ("in time", due("p", "2026-01-05T01:00:00Z", run="30m"), {}, ""),
    ("just in time", due("p", "2026-01-05T01:00:00Z", run="1h"), {}, ""),
    ("too late", due("p", "2026-01-05T01:00:00Z", run="61m"), {}, f"{LOST}: 1m0s are missing"),
    ("too late with the margin", due("p", "2026-01-05T01:00:00Z", run="1h"), {"margin": "1m"}, f"{LOST}: 1m0s are missing"),
    ("too late by the default", due("p", "2026-01-05T01:00:00Z"), {"defaultRunTime": "2h"}, f"{LOST}: 1h0m0s are missing"),
    ("without a deadline", due("p", run="1000h"), {}, ""),
    ("over already", due("p", "2026-01-04T23:59:00Z"), {}, "the deadline 2026-01-04T23:59:00Z can no longer be met: 1m0s are missing"),
    ("late, but let in behind all others", due("p", "2026-01-05T01:00:00Z", run="9h"), {"hopeless": "Last"}, ""),
    ("no time", due("p", "tomorrow"), {}, "annotation bayplan.dev/deadline: 'tomorrow' is no RFC 3339 time"),
    ("no duration", due("p", after="soon"), {}, "annotation bayplan.dev/deadline-after: 'soon' is no duration such as 1h30m"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "args", "why"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_can_still_be_done_is_let_in(one: Tree, args: Tree, why: str) -> None:
    setup = Setup(sorting("EarliestDeadline", **args), node("n"))
    assert setup.why(one) == why


def test_pods_that_became_hopeless_while_they_waited_do_not_take_the_place_of_others() -> None:
    pods = [due(f"p{hour}", f"2026-01-05T0{hour}:00:00Z", run="1h") for hour in (1, 2, 3, 4)]
    setup = Setup(sorting("EarliestDeadline"), node("n", cpu="8"), *pods)
    setup.clock.seconds += 2 * 3600
    assert setup.placed() == ["p3", "p4"]


def test_hopeless_pods_come_last_if_that_is_wanted() -> None:
    pods = [due("hopeless", "2026-01-05T01:00:00Z", run="2h"), due("fine", "2026-01-05T09:00:00Z"), due("none")]
    setup = Setup(sorting("EarliestDeadline", hopeless="Last"), node("n", cpu="8"), *pods)
    assert setup.placed() == ["fine", "none", "hopeless"]


def test_without_a_clock_all_count_as_in_time() -> None:
    setup = Setup(sorting("EarliestDeadline"), node("n"), due("p", "2020-01-01T00:00:00Z"), timed=False)
    assert setup.placed() == ["p"]
