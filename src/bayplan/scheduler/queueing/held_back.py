"""Pods that a gate keeps out of the queue, and what they are told about it.

A pod is told once per gate, and again only if it has been in the queue in between: what a quota lacks changes with every pod that ends.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bayplan.scheduler.framework.extension_points import PreEnqueuePlugin
from bayplan.scheduler.framework.verdicts import Reject, Status
from bayplan.scheduler.profile import Profile
from bayplan.scheduler.queueing.queued_pod import Clock
from bayplan.scheduler.snapshot.pods import PodInfo

_MOST: Final = 10_000
"""Pods remembered as told; forgetting one costs an event."""


class HeldPod(NamedTuple):
    """A pod that is to be told."""

    pod: PodInfo
    plugin: str
    message: str


class HeldBack:
    """What is to be told."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told: dict[str, str] = {}
        """Uid of a pod -> the plugin that it was told of."""
        self._since: dict[str, tuple[str, float]] = {}
        """Uid of a pod that is to be told later -> the plugin that keeps it out, and since when (monotonic seconds)."""
        self._waiting: list[HeldPod] = []

    def note(self, profile: Profile, pod: PodInfo, plugin: str, rejection: Reject) -> None:
        """A plugin keeps a pod out; nothing is told of plugins that do not want it, unless they have failed."""
        gate = profile.plugins[plugin]
        tells = isinstance(gate, PreEnqueuePlugin) and (gate.tells or rejection.status is Status.ERROR)
        if not isinstance(gate, PreEnqueuePlugin) or not tells or self._told.get(pod.uid) == plugin:
            return
        if self.tells_in(pod, gate):
            return
        self._since.pop(pod.uid, None)
        self._told[pod.uid] = plugin
        if len(self._told) > _MOST:
            del self._told[next(iter(self._told))]
        text = f"kept out of the queue by {plugin}: {gate.explained(pod, rejection)}"
        self._waiting.append(HeldPod(pod, plugin, text))

    def tells_in(self, pod: PodInfo, gate: PreEnqueuePlugin) -> float | None:
        """Seconds until a pod is to be told that a plugin keeps it out; None if there is no need to wait for that."""
        if not gate.tells or not gate.tells_after or self._told.get(pod.uid) == gate.name:
            return None
        now = self._clock.monotonic()
        plugin, since = self._since.get(pod.uid, ("", now))
        if plugin != gate.name:
            since = now
            self._since[pod.uid] = (gate.name, now)
            if len(self._since) > _MOST:
                del self._since[next(iter(self._since))]
        return max(since + gate.tells_after - now, 0.0) or None

    def forget(self, pod: PodInfo) -> None:
        """Nothing keeps a pod out any more."""
        if self._told:
            self._told.pop(pod.uid, None)
        if self._since:
            self._since.pop(pod.uid, None)

    def take(self) -> list[HeldPod]:
        """Pods and messages since the last call."""
        found, self._waiting = self._waiting, []
        return found
