"""Events about configurations that lead to simulated pods: one each, also if several servers notice, or one that was started again."""

from __future__ import annotations

import hashlib
import logging

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.bootstrap.publishing import ensure
from bayplan.apiserver.context import Context
from bayplan.apiserver.simulated.webhooks import SimulatedReport
from bayplan.support.timestamps import rfc3339

logger = logging.getLogger(__name__)

REASON = "SimulatedPods"
_COMPONENT = "apiserver"
_NAMESPACE = "default"
_LONGEST_NAME = 200
"""Characters of a configuration's name in that of its event."""


class SimulatedWebhookEvents:
    """Writes what the server notes of simulated webhooks."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def run(self) -> None:
        """Write until cancelled; what cannot be written is logged."""
        while True:
            report = await self._context.simulated_reports.next()
            try:
                await ensure(self._context, event_of(report, self._context.clock.now()), "v1")
            except ApiError as error:
                regarding = report.regarding
                logger.warning("%s %s: %s (no event: %s)", regarding.kind, regarding.name, report.message, error)


def event_of(report: SimulatedReport, now: float) -> core_v1.Event:
    """The event that tells of a configuration; its name follows from the configuration's."""
    regarding = report.regarding
    suffix = hashlib.sha256(f"{regarding.uid} {REASON}".encode()).hexdigest()[:16]
    return core_v1.Event(
        metadata=meta_v1.ObjectMeta(name=f"{regarding.name[:_LONGEST_NAME]}.{suffix}", namespace=_NAMESPACE),
        involved_object=regarding,
        type="Warning",
        reason=REASON,
        message=report.message,
        source=core_v1.EventSource(component=_COMPONENT),
        reporting_component=_COMPONENT,
        first_timestamp=rfc3339(now),
        last_timestamp=rfc3339(now),
        count=1,
    )
