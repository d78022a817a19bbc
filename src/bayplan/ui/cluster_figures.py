"""Figures of a cluster as a whole, followed event by event: pods by phase, how many are placed per second, and how long that takes. Pure but for the clock.

Only events of pods are looked at, so that the figures are the same for every cluster. How long a pod waited is measured from the moment at which it was first
seen here without a node until it was seen with one.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Any, Final

from bayplan.api.types import core_v1
from bayplan.support.clock import Clock
from bayplan.ui.rows import waiting_place

PHASES: Final = ("running", "starting", "new", "unschedulable", "gated", "succeeded", "failed", "unknown")
"""`starting`: with a node, and Pending; the next three wait for a node."""
COLUMNS: Final = ("at", *PHASES, "bound", "median", "slowest")
"""`at`: Unix seconds; `bound`: pods per second; `median`, `slowest` (99 of 100 are faster): seconds without a node, of those bound since the sample before."""
_KEPT: Final = 720
_MOST_WAITS: Final = 20_000
"""Waits of one sample that are remembered."""
_OF_PHASES: Final = {"Running": "running", "Pending": "starting", "Succeeded": "succeeded", "Failed": "failed"}

Sample = tuple[float | int | None, ...]


def phase_of(pod: core_v1.Pod) -> str:
    """The one of `PHASES` in which a pod is."""
    phase = pod.status.phase or "Pending"
    if phase == "Pending" and not pod.spec.node_name:
        return waiting_place(pod)
    return _OF_PHASES.get(phase, "unknown")


class ClusterFigures:
    """Counts pods, and keeps one sample per call of `sample`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: Counter[str] = Counter()
        self._since: dict[str, float] = {}
        """By uid: when a pod was first seen without a node."""
        self._waits: list[float] = []
        self._bound = 0
        self._last = clock.monotonic()
        self._samples: deque[Sample] = deque(maxlen=_KEPT)

    def changed(self, before: core_v1.Pod | None, after: core_v1.Pod | None) -> None:
        """A pod has come (before is None), changed, or gone (after is None)."""
        if (
            before is not None
            and after is not None
            and before.spec.node_name
            and before.status.phase == after.status.phase
        ):
            return  # nothing that is counted has changed
        if before is not None:
            self._counts[phase_of(before)] -= 1
        if after is None:
            assert before is not None
            self._since.pop(before.metadata.uid, None)
            return
        self._counts[phase_of(after)] += 1
        uid = after.metadata.uid
        if not after.spec.node_name:
            self._since.setdefault(uid, self._clock.monotonic())
        elif before is not None and not before.spec.node_name:
            self._bound += 1
            since = self._since.pop(uid, None)
            if since is not None and len(self._waits) < _MOST_WAITS:
                self._waits.append(self._clock.monotonic() - since)

    def sample(self) -> None:
        """Keep what is now and what has happened since the sample before."""
        now = self._clock.monotonic()
        seconds = max(now - self._last, 1e-6)
        waits = sorted(self._waits)
        counts = (self._counts[phase] for phase in PHASES)
        median, slowest = _quantile(waits, 0.5), _quantile(waits, 0.99)
        self._samples.append((self._clock.now(), *counts, round(self._bound / seconds, 2), median, slowest))
        self._last, self._bound = now, 0
        self._waits.clear()

    def to_dict(self) -> dict[str, list[Any]]:
        """The samples as columns, oldest first."""
        return dict(zip(COLUMNS, map(list, zip(*self._samples, strict=True)), strict=True)) if self._samples else {}


def _quantile(ordered: list[float], share: float) -> float | None:
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 6) if ordered else None
