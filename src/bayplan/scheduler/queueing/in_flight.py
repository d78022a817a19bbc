"""Events that happen while pods are being scheduled: they may help a pod that is rejected in the end.

One log serves all pods in flight. Each remembers where the log ended when it was taken; what nobody in flight can have
missed is dropped.

    p is taken      log:            p from 0
    e0, e1          log: e0 e1
    q is taken                      q from 2
    e2              log: e0 e1 e2   p has missed e0 e1 e2, q has missed e2
    p is done       log: e2         q has missed e2

Source: `inFlightPods` and `inFlightEvents` of kube-scheduler's scheduling queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any

from bayplan.scheduler.framework.events import ClusterEvent

Missed = tuple[ClusterEvent, Any, Any]
"""(event, old object or None, new object or None)"""

Tracked = Callable[[str, int], None]
"""(event's name, by how many more such events are in the log)"""


class InFlight:
    """The pods that are being scheduled (`namespace/name`), and what happens meanwhile."""

    __slots__ = ("_log", "_since", "_start", "tracked")

    def __init__(self) -> None:
        self.tracked: Tracked | None = None
        """Told what comes into the log and goes out of it; None if nobody wants to know."""
        self._log: deque[tuple[str, Missed]] = deque()
        """(the only pod that it concerns, empty for all; the event)"""
        self._start = 0
        """The number of the log's first event."""
        self._since: dict[str, int] = {}
        """Pod -> the number of the first event that it can miss; in the order in which pods were taken."""

    def __len__(self) -> int:
        """How many pods are in flight."""
        return len(self._since)

    def __contains__(self, pod: str) -> bool:
        return pod in self._since

    def take(self, pod: str) -> None:
        """A pod is being scheduled from now on."""
        self._since[pod] = self._start + len(self._log)

    def note(self, event: ClusterEvent, old: Any, new: Any, only: str = "") -> None:
        """Something happened, to a pod in flight itself if `only` names it. Nothing is kept if no pod is in flight."""
        if not self._since:
            return
        self._log.append((only, (event, old, new)))
        if self.tracked is not None:
            self.tracked(event.label, 1)

    def missed(self, pod: str) -> list[Missed]:
        """What happened since a pod was taken; nothing if it is not in flight."""
        since = self._since.get(pod)
        if since is None:
            return []
        return [entry for only, entry in islice(self._log, since - self._start, None) if only in ("", pod)]

    def end(self, pod: str) -> None:
        """A pod is not being scheduled any more, if it was."""
        if self._since.pop(pod, None) is None:
            return
        oldest = next(iter(self._since.values()), self._start + len(self._log))
        while self._start < oldest:
            _, (event, _, _) = self._log.popleft()
            self._start += 1
            if self.tracked is not None:
                self.tracked(event.label, -1)
