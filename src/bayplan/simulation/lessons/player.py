"""Plays a scenario in virtual time, and records it."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

import msgspec

from bayplan.api.kinds import Kind
from bayplan.client.client import STRATEGIC_PATCH
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.simulation.lessons.code_places import LocatedCode, locate
from bayplan.simulation.lessons.lesson import Act, Lesson, LessonError, Sight, Step, Target
from bayplan.simulation.lessons.recorder import Change, Recorder
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support import virtual_time

_QUIET: Final = 3.0
"""Virtual seconds without a change after which a scenario has come to rest."""
_READER: Final = "user"
_NO_MATCH: Final = -1


class RecordedStep(msgspec.Struct):
    """A step, and when it was."""

    title: str
    text: str
    command: str
    actor: str
    """Who wrote what the step tells of; that of the step before if it tells of nothing new."""
    change: int
    """Place of the change in the recording; -1 before the first."""
    at: float
    """Virtual seconds since the scenario began."""
    field: str
    """Path of the changed field that the step is about; "" if it is about none."""
    code: list[LocatedCode]


class Recording(msgspec.Struct):
    """A scenario as it happened."""

    name: str
    title: str
    summary: str
    goal: str
    initial: list[Change]
    """The objects at the beginning, as if they had just been written."""
    changes: list[Change]
    steps: list[RecordedStep]
    seconds: float
    """Virtual seconds that it takes."""


def play(name: str, lesson: Lesson) -> Recording:
    """Play a scenario from beginning to end. Raises LessonError if a step does not happen, or names code that is not there."""
    return virtual_time.run(_Player(name, lesson).play())


class _Player:
    def __init__(self, name: str, lesson: Lesson) -> None:
        self._name = name
        self._lesson = lesson
        self._recorder = Recorder()
        self._place = _NO_MATCH
        """That of the last step's change."""
        self._actor = _READER
        nodes = SimulatorSettings(
            nodes=lesson.nodes, zones=lesson.zones, capacity=_capacity(lesson.cpu), unseen_seconds=0.0
        )
        self._cluster = VirtualCluster(seed=name, nodes=nodes)

    async def play(self) -> Recording:
        lesson, recorder = self._lesson, self._recorder
        async with self._cluster as cluster:
            cluster.trace.listeners.append(recorder.take)
            await self._show_nodes()
            for act in lesson.before:
                await self._do(act)
            await cluster.settle(quiet=_QUIET)
            begin = cluster.trace.seconds
            recorder.begin(begin)
            steps = [await self._step(step, cluster.trace.seconds - begin) for step in lesson.steps]
            await cluster.settle(quiet=_QUIET, within=60.0)
        seconds = max([one.at for one in recorder.changes], default=0.0)
        return Recording(
            self._name, lesson.title, lesson.summary, lesson.goal, recorder.initial, recorder.changes, steps, seconds
        )

    async def _show_nodes(self) -> None:
        """Have every node written once more, so that the recorder knows it."""
        for number in range(1, self._lesson.nodes + 1):
            body = {"metadata": {"annotations": {"bayplan.dev/scenario": self._name}}}
            await self._patch(Target("Node", f"node-{number}", body=body))

    async def _step(self, step: Step, begin: float) -> RecordedStep:
        at = begin
        if step.do is not None:
            self._actor = _READER
            first = len(self._recorder.changes)
            await self._do(step.do)
            if step.see is None and len(self._recorder.changes) > first:
                self._place = first
        if step.see is not None:
            self._place = await self._seen(step.see, step.title)
            self._actor = self._recorder.changes[self._place].actor
        if self._place != _NO_MATCH:
            at = self._recorder.changes[self._place].at
        command = step.do.command if step.do is not None else ""
        field = "" if step.see is None else changed_field(step.see, self._recorder.changes[self._place])
        code = [locate(place) for place in step.code]
        return RecordedStep(step.title, step.text.strip(), command, self._actor, self._place, at, field, code)

    async def _seen(self, sight: Sight, title: str) -> int:
        async def found() -> int:
            return self._find(sight) + 1

        try:
            return await self._cluster.eventually(found) - 1
        except AssertionError as error:
            raise LessonError(f"{self._name}.yaml: step {title!r} does not happen: {error}") from error

    def _find(self, sight: Sight) -> int:
        left = sight.count
        for place in range(self._place + 1, len(self._recorder.changes)):
            if matches(sight, self._recorder.changes[place]):
                left -= 1
                if left == 0:
                    return place
        return _NO_MATCH

    async def _do(self, act: Act) -> None:
        if act.apply:
            await self._cluster.apply(act.apply)
        if act.patch is not None:
            await self._patch(act.patch)
        if act.delete is not None:
            kind = self._cluster.client.kinds.named(act.delete.kind)
            await self._cluster.client.raw("DELETE", self._path(act.delete, kind))
        if act.wait:
            await self._cluster.advance(seconds=act.wait)

    async def _patch(self, target: Target) -> None:
        kind = self._cluster.client.kinds.named(target.kind)
        body = msgspec.json.encode(target.body)
        await self._cluster.client.raw("PATCH", self._path(target, kind), {}, body, STRATEGIC_PATCH)

    def _path(self, target: Target, kind: Kind) -> str:
        name: str | None = target.name
        if "*" in target.name:
            name = self._recorder.first_named(target.kind, target.name)
        if name is None:
            raise LessonError(f"{self._name}.yaml: there is no {target.kind} {target.name} yet")
        return kind.path(target.namespace if kind.namespaced else "", name)


def _capacity(cpu: str) -> dict[str, str]:
    return {"cpu": cpu, "memory": "16Gi", "pods": "20"}


def matches(sight: Sight, change: Change) -> bool:
    """Whether a step tells of this change."""
    if (sight.kind, sight.verb) != (change.kind, change.verb):
        return False
    if sight.actor not in ("", change.actor) or (sight.name and not fnmatchcase(change.name, sight.name)):
        return False
    if sight.reason and (change.state or {}).get("reason") != sight.reason:
        return False
    return not sight.path or bool(changed_field(sight, change))


def changed_field(sight: Sight, change: Change) -> str:
    """The first field of a change that a step is about; "" if there is none."""
    for one in change.difference if sight.path else ():
        if _has_path(one.path, sight.path) and (sight.value is None or one.after == sight.value):
            return one.path
    return ""


def _has_path(path: str, pattern: str) -> bool:
    """`*` is the only wildcard: brackets belong to paths."""
    return fnmatchcase(path, pattern.replace("[", "[[]"))
