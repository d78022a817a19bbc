"""What a scheduler says of its queue and its latest attempts."""

from __future__ import annotations

from typing import Any

from bayplan.scheduler.attempts import ATTEMPTS_KEPT, AttemptLog
from bayplan.scheduler.configuration.settings import load
from bayplan.scheduler.core import SchedulerCore
from bayplan.support.clock import SystemClock
from bayplan.support.randomness import SeededRandomness
from bayplan.testing.builders import node, pod


class Hands(SystemClock):
    """A clock that stands where it is put."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


def scheduler(*pods: Any) -> tuple[SchedulerCore, AttemptLog, Hands]:
    clock = Hands()
    core = SchedulerCore(load(None), clock, SeededRandomness(1))
    core.handle("Node", None, node("n", cpu="4"))
    for one in pods:
        core.handle("Pod", None, one)
    return core, AttemptLog(clock), clock


def attempt(core: SchedulerCore, log: AttemptLog) -> None:
    outcome = core.schedule_one()
    assert outcome is not None
    log.add(outcome.decision, outcome.queued.attempts, 0.0002)


def test_attempts_are_told_newest_first() -> None:
    core, log, clock = scheduler(pod("small", cpu="1"), pod("large", cpu="9"))
    attempt(core, log)
    clock.at += 5
    attempt(core, log)
    large, small = log.state(core.queue)["attempts"]
    assert (small["pod"], small["node"], small["feasible"], small["micros"]) == ("default/small", "n", 1, 200)
    assert (large["pod"], large["node"], large["feasible"], large["nodes"]) == ("default/large", "", 0, 1)
    assert large["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert large["at"] - small["at"] == 5


def test_where_pods_wait_and_for_whom() -> None:
    core, log, clock = scheduler(pod("large", cpu="9"), pod("later", cpu="1"))
    attempt(core, log)
    clock.at += 3
    state = log.state(core.queue)
    assert state["sizes"]["unschedulable"] == 1
    assert state["sizes"]["active"] == 1
    large = next(one for one in state["queue"] if one["pod"] == "default/large")
    assert (large["place"], large["attempts"], large["rejectedBy"]) == ("unschedulable", 1, ["NodeResourcesFit"])
    assert (large["waited"], large["here"], large["ready"]) == (3, 3, None)
    later = next(one for one in state["queue"] if one["pod"] == "default/later")
    assert (later["place"], later["attempts"], later["here"]) == ("active", 0, None)


def test_only_the_latest_are_kept() -> None:
    core, log, _ = scheduler(pod("large", cpu="9"))
    outcome = core.schedule_one()
    assert outcome is not None
    for number in range(ATTEMPTS_KEPT + 10):
        log.add(outcome.decision, number, 0.0)
    attempts = log.state(core.queue)["attempts"]
    assert len(attempts) == ATTEMPTS_KEPT
    assert attempts[0]["number"] == ATTEMPTS_KEPT + 9
