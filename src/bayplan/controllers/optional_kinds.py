"""Controllers of kinds that servers have only if they are told to (`--runtime-config`): whether a server has one is asked when the controllers run, and without it
nothing runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind, KindTable
from bayplan.client import Client
from bayplan.client.errors import ClientError
from bayplan.controllers.base import Controller
from bayplan.informers import InformerFactory

logger = logging.getLogger(__name__)

_PAUSE: Final = 5.0
"""Seconds before a server that does not answer is asked again whether it has a kind."""


class OptionalController(Controller):
    """Base of these controllers. The first of `kinds` that the server has and lets us read is followed."""

    kinds: tuple[Kind, ...] = ()
    kind: Kind | None = None
    """The one that the server has."""

    def setup(self) -> None:
        """Nothing, until it is known that the server has the kind."""

    def begin(self, informers: InformerFactory) -> None:
        """Ask for informers of the kind, and add handlers. The server has it, and `client` knows it."""
        raise TypeError(f"{type(self).__name__} does not begin")

    async def work(self) -> None:
        """Work besides the queue, until cancelled."""
        await asyncio.Event().wait()

    async def run_background(self) -> None:
        for kind in self.kinds:
            if await self._is_served(kind):
                break
        else:
            return
        self.kind = kind
        table = KindTable(self.client.kinds)
        table.add(kind)
        self.client = Client(self.client.transport, table)
        informers = InformerFactory(self.client, self.clock, self.context.randomness)
        self.begin(informers)
        informers.start()
        try:
            await self.work()
        finally:
            await informers.stop()

    async def _is_served(self, kind: Kind) -> bool:
        while True:
            try:
                await self.client.raw("GET", kind.path(), {"limit": "1"})
                return True
            except ApiError as error:
                if error.code in (403, 404):
                    return False
                logger.warning("looking for %s: %s", kind.plural, error)
            except ClientError as error:
                logger.warning("looking for %s: %s", kind.plural, error)
            await self.clock.sleep(_PAUSE)

    async def clean_every(self, seconds: float, clean: Callable[[], Awaitable[None]]) -> None:
        """Clean up in rounds; one that fails is only told."""
        while True:
            try:
                await clean()
            except (ApiError, ClientError) as error:
                logger.warning("%s: %s", self.name, error)
            await self.clock.sleep(seconds)
