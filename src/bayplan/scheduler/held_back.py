"""Pods that a gate keeps out of the queue, and what they are told about it.

A pod is told once per gate, and again only if it has been in the queue in between: what a quota lacks changes with every pod that ends.
"""

from __future__ import annotations

from typing import Final

from bayplan.scheduler.framework.extension_points import PreEnqueuePlugin
from bayplan.scheduler.framework.verdicts import Reject
from bayplan.scheduler.profile import Profile
from bayplan.scheduler.snapshot.pods import PodInfo

_MOST: Final = 10_000
"""Pods remembered as told; forgetting one costs an event."""


class HeldBack:
    """What is to be told."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}
        """Uid of a pod -> the plugin that it was told of."""
        self._waiting: list[tuple[PodInfo, str]] = []

    def note(self, profile: Profile, pod: PodInfo, plugin: str, rejection: Reject) -> None:
        """A plugin keeps a pod out; nothing is told of plugins that do not want it."""
        gate = profile.plugins[plugin]
        if not isinstance(gate, PreEnqueuePlugin) or not gate.tells or self._told.get(pod.uid) == plugin:
            return
        self._told[pod.uid] = plugin
        if len(self._told) > _MOST:
            del self._told[next(iter(self._told))]
        self._waiting.append((pod, f"kept out of the queue by {plugin}: {', '.join(rejection.reasons)}"))

    def forget(self, pod: PodInfo) -> None:
        """Nothing keeps a pod out any more."""
        if self._told:
            self._told.pop(pod.uid, None)

    def take(self) -> list[tuple[PodInfo, str]]:
        """Pods and messages since the last call."""
        found, self._waiting = self._waiting, []
        return found
