"""The storage drivers that have registered themselves with this kubelet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bayplan.csi.client import Connection, CsiClient, Observer
from bayplan.csi.messages import NodeCapability
from bayplan.kubelet.volumes.errors import SetUpError
from bayplan.support.clock import Clock

CALL_SECONDS: Final = 120.0
"""How long a call of a driver may take (csiTimeout)."""
ObserverOf = Callable[[str], Observer]
"""Gives what is told of the calls of a driver, by its name."""


@dataclass(slots=True)
class Driver:
    """A driver. version: the newest of those that it said it supports."""

    name: str
    endpoint: Path
    version: tuple[int, ...]
    client: CsiClient
    _capabilities: frozenset[int] | None = None

    async def offers(self, capability: NodeCapability) -> bool:
        """Whether the driver has an optional call. Raises CsiError."""
        if self._capabilities is None:
            self._capabilities = await self.client.node_get_capabilities()
        return capability in self._capabilities


class Drivers:
    """Drivers by their names."""

    def __init__(self, connect: Callable[[Path], Connection], clock: Clock, observer_of: ObserverOf) -> None:
        self._connect = connect
        self._clock = clock
        self._observer_of = observer_of
        self._drivers: dict[str, Driver] = {}

    def __iter__(self) -> Iterator[Driver]:
        return iter(list(self._drivers.values()))

    def find(self, name: str) -> Driver | None:
        """A driver; None if it has not registered itself."""
        return self._drivers.get(name)

    def get(self, name: str) -> Driver:
        """A driver. Raises SetUpError."""
        found = self._drivers.get(name)
        if found is None:
            raise SetUpError(f"driver name {name} not found in the list of registered CSI drivers")
        return found

    async def add(self, name: str, endpoint: Path, version: tuple[int, ...]) -> Driver:
        """Take a driver, in the place of one of that name."""
        await self.remove(name)
        client = CsiClient(
            self._connect(endpoint), seconds=CALL_SECONDS, observe=self._observer_of(name), clock=self._clock
        )
        driver = self._drivers[name] = Driver(name, endpoint, version, client)
        return driver

    async def remove(self, name: str) -> None:
        """Forget a driver."""
        driver = self._drivers.pop(name, None)
        if driver is not None:
            await driver.client.close()

    async def close(self) -> None:
        """End all connections."""
        for driver in self:
            await self.remove(driver.name)
