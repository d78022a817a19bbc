"""Pods that Permit plugins hold back between decision and binding, and what becomes of them.

No clock and no tasks here: whoever runs the binding listens for the outcome and reports timeouts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from bayplan.scheduler.framework.verdicts import Reject, Status
from bayplan.scheduler.snapshot.pods import PodInfo

MAX_WAIT: Final = 900.0
"""Seconds that a pod waits at most, whatever its plugins say."""


def go_duration(seconds: float) -> str:
    """A duration as Go prints it: `1m30s`, `1.5s`, `200ms`."""
    if seconds <= 0:
        return "0s"
    if seconds < 1:
        return f"{seconds * 1000:g}ms"
    whole, rest = int(seconds), seconds - int(seconds)
    hours, minutes, left = whole // 3600, whole // 60 % 60, f"{whole % 60 + rest:g}s"
    if hours:
        return f"{hours}h{minutes}m{left}"
    return f"{minutes}m{left}" if minutes else left


class WaitingPod:
    """A pod that is assumed on a node and waits for the approval of the plugins in `pending` (plugin -> seconds)."""

    __slots__ = ("_listener", "node_name", "pending", "pod", "refusal")

    def __init__(self, pod: PodInfo, node_name: str, waits: Mapping[str, float]) -> None:
        self.pod = pod
        self.node_name = node_name
        self.pending = dict(waits)
        self.refusal: tuple[str, Reject] | None = None
        """The plugin that refused, and why; None so far or if all approved."""
        self._listener: Callable[[], None] | None = None

    @property
    def settled(self) -> bool:
        """Whether all have approved or one has refused."""
        return self.refusal is not None or not self.pending

    def allow(self, plugin: str) -> None:
        """A plugin approves; the pod goes on when the last one has."""
        if not self.settled:
            self.pending.pop(plugin, None)
            self._tell()

    def reject(self, plugin: str, message: str) -> None:
        """The pod must not be bound. Without effect if the outcome is known already."""
        if not self.settled:
            self.refusal = (plugin, Reject(Status.UNSCHEDULABLE, (message,)))
            self._tell()

    def time_out(self, plugin: str) -> None:
        """The time that a plugin asked for is over."""
        seconds = self.pending.get(plugin)
        if seconds is not None:
            waited = go_duration(seconds)
            self.reject(plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}")

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` once, when the outcome is known; at once if it is."""
        self._listener = listener
        self._tell()

    def _tell(self) -> None:
        if self.settled and self._listener is not None:
            listener, self._listener = self._listener, None
            listener()


class WaitingPods:
    """The waiting pods of all profiles, by UID."""

    __slots__ = ("_pods",)

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(tuple(self._pods.values()))

    def add(self, pod: PodInfo, node_name: str, waits: Mapping[str, float]) -> WaitingPod:
        """Hold a pod back until the plugins in `waits` (plugin -> seconds) have approved."""
        waiting = WaitingPod(pod, node_name, {plugin: min(seconds, MAX_WAIT) for plugin, seconds in waits.items()})
        self._pods[pod.uid] = waiting
        return waiting

    def get(self, uid: str) -> WaitingPod | None:
        """A waiting pod; None if the pod does not wait."""
        return self._pods.get(uid)

    def remove(self, uid: str) -> None:
        """The pod waits no more, whatever the outcome."""
        self._pods.pop(uid, None)
