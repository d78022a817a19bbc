"""The gate of a server, and the rule that lets it follow the objects that configure it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.api.kinds import Kind
from bayplan.apiserver.bootstrap.flow_control import API_VERSION
from bayplan.apiserver.bootstrap.publishing import kind_of
from bayplan.apiserver.context import Context
from bayplan.apiserver.flow_control.gate import Gate
from bayplan.apiserver.flow_control.statistics import CacheStatistics
from bayplan.apiserver.reads.watching import Selection


def open_gate(context: Context) -> Gate | None:
    """A gate as the objects in the caches say; None if priority and fairness is off."""
    settings = context.settings
    if not settings.enable_priority_and_fairness:
        return None
    limit = settings.max_requests_inflight + settings.max_mutating_requests_inflight
    statistics = CacheStatistics(context.objects, context.kinds, context.clock)
    gate = Gate(limit, settings.request_timeout, statistics.of, context.clock, context.metrics)
    GateConfiguration(context, gate).load()
    return gate


class GateConfiguration:
    """The gate does what flow schemas and priority levels say."""

    def __init__(self, context: Context, gate: Gate) -> None:
        self.context = context
        self._gate = gate
        self._schemas = kind_of(context, API_VERSION, "FlowSchema")
        self._levels = kind_of(context, API_VERSION, "PriorityLevelConfiguration")

    def inputs(self) -> Sequence[tuple[Kind, Selection | None]]:
        """Schemas and levels."""
        return ((self._schemas, None), (self._levels, None))

    async def settle(self) -> None:
        """Take over the objects as they are now."""
        self.load()

    def load(self) -> None:
        """`settle`, at once."""
        self._gate.load(self._all(self._levels), self._all(self._schemas))

    def _all(self, kind: Kind) -> list[Any]:
        cache = self.context.objects.cache(kind)
        return [cache.shared(entry) for entry in cache.ordered()]
