"""Follows what the drivers of dynamic resources say of the health of their devices (`DRAResourceHealth`), as long as they are registered.

Drivers need not have that service: they are asked again every five seconds, as Kubernetes' kubelet does. What a driver has said is forgotten when its stream ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path
from typing import Any, Final, Protocol

from bayplan.kubelet.dynamic_resources.health import (
    HEALTHY,
    LONGEST_MESSAGE,
    TIMEOUT,
    UNHEALTHY,
    UNKNOWN,
    DeviceHealth,
    HealthCache,
)
from bayplan.kubelet.dynamic_resources.messages import MESSAGES, WATCH_HEALTH
from bayplan.support.clock import Clock
from bayplan.support.grpc.errors import RpcError

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 5.0
_HEALTH: Final = {1: HEALTHY, 2: UNHEALTHY}
"""The numbers of the interface; 0 and all others stand for what is not known."""


class Connection(Protocol):
    """A connection to a driver."""

    def stream(self, method: str, request: Any, answer: type[Any]) -> AsyncIterator[Any]:
        """All messages of a stream. Raises RpcError."""


class HealthWatch:
    """See the module. cache: gets what drivers say."""

    def __init__(self, cache: HealthCache, clock: Clock) -> None:
        self._cache = cache
        self._clock = clock
        self._tasks: dict[tuple[str, Path], asyncio.Task[None]] = {}
        self.on_change: Callable[[str, Collection[DeviceHealth]], None] = lambda driver, changed: None
        """Called with a driver and the devices whose health has changed."""

    def start(self, driver: str, endpoint: Path, connection: Connection) -> None:
        """Follow an instance of a driver."""
        watching = self._watch(driver, connection)
        self._tasks[driver, endpoint] = asyncio.create_task(watching, name=f"health {driver}")

    async def stop(self, driver: str, endpoint: Path) -> None:
        """Follow an instance no longer; its connection may be closed then."""
        task = self._tasks.pop((driver, endpoint), None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def close(self) -> None:
        """Follow nothing any more."""
        for driver, endpoint in list(self._tasks):
            await self.stop(driver, endpoint)

    async def _watch(self, driver: str, connection: Connection) -> None:
        request, answer = MESSAGES["NodeWatchResourcesRequest"](), MESSAGES["NodeWatchResourcesResponse"]
        while True:
            try:
                async for message in connection.stream(WATCH_HEALTH, request, answer):
                    changed = self._cache.update(driver, map(_health, message.devices))
                    if changed:
                        self.on_change(driver, changed)
            except RpcError as error:
                logger.debug("driver %s says nothing of the health of its devices: %s", driver, error)
            finally:
                self._cache.clear(driver)
            await self._clock.sleep(RETRY_SECONDS)


def _health(message: Any) -> DeviceHealth:
    seconds = message.health_check_timeout_seconds
    return DeviceHealth(
        message.device.pool_name,
        message.device.device_name,
        _HEALTH.get(message.health, UNKNOWN),
        _shortened(message.message),
        float(seconds) if seconds > 0 else TIMEOUT,
    )


def _shortened(message: str) -> str:
    data = message.encode()
    if len(data) <= LONGEST_MESSAGE:
        return message
    return data[: LONGEST_MESSAGE - 3].decode(errors="ignore") + "..."
