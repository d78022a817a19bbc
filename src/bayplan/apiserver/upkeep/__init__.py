"""What the API server itself writes while it runs. Status, because it alone answers for what the status says: whether the priority level of a flow schema
exists, and whether an API service is available; one file per rule, one line per rule in the table below. And what every cluster has, should somebody delete it.

Reconciling of anything else belongs to the controllers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from bayplan.api.errors import ApiError
from bayplan.apiserver.context import Context
from bayplan.apiserver.custom_resources.approval import CustomResourceApproval
from bayplan.apiserver.custom_resources.finalizing import CustomResourceFinalizer
from bayplan.apiserver.custom_resources.naming import CustomResourceNames
from bayplan.apiserver.custom_resources.registration import CustomResourceApiServices
from bayplan.apiserver.custom_resources.serving import CustomResourceServing
from bayplan.apiserver.upkeep.api_services import ApiServiceAvailability
from bayplan.apiserver.upkeep.flow_schemas import DanglingFlowSchemas
from bayplan.apiserver.upkeep.legacy_tokens import LegacyTokenUse
from bayplan.apiserver.upkeep.rule import Rule, keep
from bayplan.apiserver.upkeep.simulated_webhooks import SimulatedWebhookEvents
from bayplan.store.errors import StoreUnavailable
from bayplan.support.tasks import Supervisor

_RULES = (
    DanglingFlowSchemas,
    CustomResourceNames,
    CustomResourceApproval,
    CustomResourceApiServices,
    CustomResourceFinalizer,
)


_LOOKED_EVERY = 10.0
"""Seconds between two looks whether aggregated servers answer."""


class Upkeep:
    """The running rules of one server."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._serving = CustomResourceServing(context)
        self._token_use = LegacyTokenUse(context)
        context.service_accounts.secret_used = self._token_use.note
        self._tasks = Supervisor("upkeep", clock=context.clock, is_expected=_store_is_away)

    async def open(self) -> None:
        """Serve what is defined already. Raises ApiError."""
        await self._serving.settle()

    def start(self) -> None:
        """Bring everything up to date, and keep it so until `close`."""
        self._tasks.keep_running("CustomResourceServing", partial(keep, self._serving))
        self._tasks.keep_running("LegacyTokenUse", self._token_use.run)
        self._tasks.keep_running("SimulatedWebhookEvents", SimulatedWebhookEvents(self._context).run)
        for rule in _RULES:
            self._tasks.keep_running(rule.__name__, partial(keep, rule(self._context)))
        availability = ApiServiceAvailability(self._context)
        forwarded = asyncio.Event()
        self._context.services.forwards.on_change(forwarded.set)
        self._tasks.keep_running("ApiServiceAvailability", partial(keep, availability, forwarded))
        self.repeat("aggregated servers", _LOOKED_EVERY, partial(_look, availability))

    def keep(self, name: str, rule: Rule) -> None:
        """Keep a rule until `close`."""
        self._tasks.keep_running(name, partial(keep, rule))

    def keep_running(self, name: str, start: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a task until `close`, again if it fails."""
        self._tasks.keep_running(name, start)

    @property
    def failures(self) -> Mapping[str, str]:
        """Why tasks do not run at the moment, by name."""
        return self._tasks.failures

    def repeat(self, name: str, seconds: float, action: Callable[[], Awaitable[None]]) -> None:
        """Do something again and again, the first time after this many seconds; failures are logged and do not end it."""

        async def run() -> None:
            while True:
                await self._context.clock.sleep(seconds)
                await action()

        self._tasks.keep_running(name, run)

    async def close(self) -> None:
        """Stop writing. Calling it again does nothing."""
        await self._tasks.close()


def _store_is_away(error: Exception) -> bool:
    return isinstance(error, StoreUnavailable) or (isinstance(error, ApiError) and error.reason == "ServiceUnavailable")


async def _look(availability: ApiServiceAvailability) -> None:
    if availability.looks_elsewhere:
        await availability.settle()


__all__ = ["Upkeep"]
