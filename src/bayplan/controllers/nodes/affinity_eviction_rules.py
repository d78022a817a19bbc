"""How patient the eviction for broken affinity rules is: how fast per zone, and how often per owner. Pure.

Source of the behaviour: rates as the node life cycle controller has them for taints (`node_zones`); KEP-4328 leaves the rest open.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from bayplan.controllers.nodes.node_zones import PARTIAL
from bayplan.controllers.settings import ControllerSettings

FIRST_DELAY: Final = 10.0
"""Seconds between an eviction and that of a pod that replaced the evicted one; doubled each time."""
LONGEST_DELAY: Final = 300.0
_FORGET: Final = 2 * LONGEST_DELAY
"""Seconds after an eviction when the next one of the owner counts as the first again."""
_MANY: Final = 10_000


def eviction_rate(state: str, size: int, settings: ControllerSettings) -> float:
    """Pods per second that may be evicted in a zone with so many nodes, while not all zones are lost."""
    if state != PARTIAL:
        return settings.affinity_eviction_rate
    is_large = size > settings.large_cluster_size_threshold
    return settings.secondary_affinity_eviction_rate if is_large else 0.0


def retry_delay(failures: int) -> float:
    """Seconds before an eviction that a budget forbids is asked for again."""
    return min(5.0 * 2.0 ** (min(failures, 10) - 1), 60.0)


@dataclass(slots=True)
class _Last:
    """The last eviction of an owner's pods."""

    time: float
    repeats: int
    """How many evictions in a row were of pods that replaced evicted ones."""


class OwnerBackOff:
    """Keeps owners from making pods that are evicted as soon as they run: only replacements of evicted pods wait, later and later."""

    def __init__(self) -> None:
        self._last: dict[str, _Last] = {}

    def delay(self, owner: str, created: float, now: float) -> float:
        """Seconds for which a pod of an owner (its uid), created at that time, still has to stay. All times are Unix seconds."""
        last = self._last.get(owner)
        if last is None or created < math.floor(last.time) or now - last.time > _FORGET:
            return 0.0
        wait = min(FIRST_DELAY * 2.0**last.repeats, LONGEST_DELAY)
        return max(0.0, last.time + wait - now)

    def evicted(self, owner: str, created: float, now: float) -> None:
        """A pod of an owner, created at that time, was evicted now."""
        last = self._last.pop(owner, None)
        is_fresh = last is None or now - last.time > _FORGET
        repeats = 0 if is_fresh or last is None else last.repeats + (created >= math.floor(last.time))
        self._last[owner] = _Last(now, min(repeats, 10))
        while len(self._last) > _MANY:
            del self._last[next(iter(self._last))]
