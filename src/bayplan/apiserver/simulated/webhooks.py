"""What comes of calls for webhooks and aggregated servers whose pods are all simulated, so that nobody listens: a choice of the cluster and of each configuration.

`skip`: an admission webhook counts as allowing the request, an aggregated API is not served; `fail`: as if nobody answered. One event per configuration tells.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, NamedTuple

from bayplan.api.types import core_v1

ANNOTATION: Final = "bayplan.dev/simulated-webhooks"
"""Of webhook configurations and APIServices: `skip` or `fail`; anything else counts as not given."""
SKIP, FAIL = "skip", "fail"
CHOICES: Final = (SKIP, FAIL)
_REMEMBERED: Final = 4096


def is_skipped(annotations: Mapping[str, str], default: str) -> bool:
    """Whether calls of a configuration with these annotations are skipped. default: what the cluster chose."""
    chosen = annotations.get(ANNOTATION, "")
    return (chosen if chosen in CHOICES else default) == SKIP


class SimulatedReport(NamedTuple):
    """Something that an event is to tell."""

    regarding: core_v1.ObjectReference
    message: str


class SimulatedReports:
    """What is to be told of configurations, each once. `apiserver.upkeep.simulated_webhooks` writes the events."""

    def __init__(self) -> None:
        self._told: OrderedDict[str, None] = OrderedDict()
        """Uids of the configurations, the oldest first."""
        self._waiting: list[SimulatedReport] = []
        self._some = asyncio.Event()

    def note(self, regarding: core_v1.ObjectReference, message: str) -> None:
        """Nobody listens where a configuration leads. Costs nothing if that was told."""
        if regarding.uid in self._told:
            return
        self._told[regarding.uid] = None
        if len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        self._waiting.append(SimulatedReport(regarding, message))
        self._some.set()

    async def next(self) -> SimulatedReport:
        """What is to be told next, once there is something."""
        await self._some.wait()
        found = self._waiting.pop(0)
        if not self._waiting:
            self._some.clear()
        return found
