"""A scheduler core with extra plugins, whose clock also tells the time of day."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from bayplan.api.types.core_v1 import Pod
from bayplan.scheduler.configuration.settings import load
from bayplan.scheduler.core import SchedulerCore
from bayplan.scheduler.framework.meter import Meter
from bayplan.scheduler.library import typed
from bayplan.support.metrics.instruments import Counter
from bayplan.support.timestamps import parse_rfc3339
from tests.scheduler.objects import Tree
from tests.scheduler.queueing.test_queue import Clock

MONDAY = "2026-01-05T00:00:00Z"


class TimeOfDay(Meter):
    """Tells the time of a clock that begins on a Monday."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.start = parse_rfc3339(MONDAY) - clock.seconds

    def now(self) -> float:
        return self.clock.seconds

    def wall_time(self) -> float:
        return self.start + self.clock.seconds

    def point(self, point: str, status: str, profile: str, seconds: float) -> None:
        pass

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        pass

    def evaluations(self, profile: str, counters: Mapping[tuple[str, str], Counter]) -> None:
        pass

    def devices_awaited(self, profile: str, driver: str, status: str, seconds: float) -> None:
        pass

    def volumes_failed(self, stage: str) -> None:
        pass


def sorting(name: str, **args: Any) -> Tree:
    """A configuration in which a plugin orders the queue."""
    plugins = {"multiPoint": {"enabled": [{"name": name}]}, "queueSort": {"disabled": [{"name": "PrioritySort"}]}}
    return {"profiles": [{"plugins": plugins, "pluginConfig": [{"name": name, "args": args}]}]}


def enabling(name: str, weight: int = 1, **args: Any) -> Tree:
    """A configuration with one plugin more."""
    plugins = {"multiPoint": {"enabled": [{"name": name, "weight": weight}]}}
    return {"profiles": [{"plugins": plugins, "pluginConfig": [{"name": name, "args": args}]}]}


class Setup:
    """A core, its clock, and what happens to it."""

    def __init__(self, config: Tree, *objects: Tree, timed: bool = True) -> None:
        self.clock = Clock()
        self.core = SchedulerCore(load(config), self.clock, random.Random(1))
        if timed:
            self.core.measure(TimeOfDay(self.clock))
        self.pods: dict[str, Pod] = {}
        for one in objects:
            self.see(one)

    def see(self, tree: Tree) -> None:
        made = typed(tree["kind"], tree)
        if tree["kind"] == "Pod":
            self.pods[made.metadata.name] = made
        self.core.handle(tree["kind"], None, made)

    def gone(self, name: str) -> None:
        self.core.handle("Pod", self.pods[name], None)

    def placed(self) -> list[str]:
        """Names of the pods that are placed now, in order."""
        found = []
        while (outcome := self.core.schedule_one()) is not None:
            if outcome.decision.scheduled:
                self.core.bound(outcome.queued.pod)
                found.append(outcome.decision.pod.partition("/")[2])
        return found

    def why(self, tree: Tree) -> str:
        """What keeps a pod out; "" if nothing does."""
        gate = self.core.explain(typed("Pod", tree)).gate
        return "" if gate is None else ", ".join(gate[1].reasons)
