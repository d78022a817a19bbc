"""The drivers of dynamic resources that have registered themselves with this kubelet (pkg/kubelet/cm/dra/plugin).

A driver may have several instances, as while it is updated: the latest one is asked. When the last one has gone for half a minute, and when the kubelet starts, the
ResourceSlices of the node are deleted, so that nobody is placed here for devices that nobody can prepare.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from bayplan.api.errors import ApiError
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.kubelet.dynamic_resources.errors import ClaimError
from bayplan.kubelet.dynamic_resources.health_watch import HealthWatch
from bayplan.kubelet.dynamic_resources.messages import SERVICES, method
from bayplan.kubelet.dynamic_resources.metrics import DraMetrics
from bayplan.kubelet.plugin_watcher import PluginRefused
from bayplan.support.clock import Clock
from bayplan.support.grpc.errors import RpcError

logger = logging.getLogger(__name__)

CALL_SECONDS: Final = 45.0
"""How long a call of a driver may take."""
WIPING_DELAY: Final = 30.0
"""Seconds that a driver has to come back before the ResourceSlices that it has for this node are deleted."""
_LOOK_SECONDS: Final = 1.0
_SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"


class Connection(Protocol):
    """A connection to a driver."""

    async def call(self, method: str, request: Any, answer: type[Any], seconds: float) -> Any:
        """One call. Raises RpcError."""

    def stream(self, method: str, request: Any, answer: type[Any]) -> AsyncIterator[Any]:
        """All messages of a stream. Raises RpcError."""

    async def close(self) -> None:
        """End it."""


@dataclass(slots=True)
class _Instance:
    endpoint: Path
    service: str
    connection: Connection


class DraDrivers:
    """It is a PluginHandler. connect: makes a connection to a socket. health: follows the health of their devices, None if nobody wants to know it."""

    def __init__(
        self,
        client: Client,
        node_name: str,
        connect: Callable[[Path], Connection],
        clock: Clock,
        health: HealthWatch | None,
        metrics: DraMetrics,
    ) -> None:
        self._client = client
        self._node_name = node_name
        self._connect = connect
        self._clock = clock
        self._health = health
        self._metrics = metrics
        self._instances: dict[str, list[_Instance]] = {}
        self._to_wipe: dict[str, float] = {"": clock.monotonic()}
        """Driver (empty: all that are not there) -> when its slices are to be deleted."""

    def refusal(self, path: Path, name: str, endpoint: str, versions: tuple[str, ...]) -> str:
        """See PluginHandler."""
        try:
            _service_of(name, endpoint, versions)
        except PluginRefused as error:
            return str(error)
        return ""

    async def register(self, name: str, endpoint: Path, versions: tuple[str, ...]) -> None:
        """See PluginHandler."""
        service = _service_of(name, str(endpoint), versions)
        known = self._instances.setdefault(name, [])
        if any(one.endpoint == endpoint for one in known):
            raise PluginRefused(f"endpoint {endpoint} already registered for DRA driver plugin {name}")
        connection = self._connect(endpoint)
        known.append(_Instance(endpoint, service, connection))
        if self._health is not None:
            self._health.start(name, endpoint, connection)
        self._to_wipe.pop(name, None)
        logger.info("driver %s of dynamic resources is at %s", name, endpoint)

    async def deregister(self, name: str, endpoint: Path) -> None:
        """See PluginHandler."""
        known = self._instances.get(name, [])
        for one in [each for each in known if each.endpoint == endpoint]:
            known.remove(one)
            if self._health is not None:
                await self._health.stop(name, endpoint)
            await one.connection.close()
        if not known and self._instances.pop(name, None) is not None:
            self._to_wipe[name] = self._clock.monotonic() + WIPING_DELAY

    def require(self, names: Sequence[str]) -> None:
        """Raises ClaimError if one of the drivers is not there."""
        for name in names:
            if name not in self._instances:
                raise ClaimError(f"DRA driver {name} is not registered")

    async def call(self, name: str, call: str, request: Any, answer: type[Any]) -> Any:
        """What a driver answers to NodePrepareResources or NodeUnprepareResources. Raises ClaimError."""
        self.require((name,))
        instance = self._instances[name][-1]
        full_name = method(instance.service, call)
        try:
            with self._metrics.call(name, full_name):
                return await instance.connection.call(full_name, request, answer, CALL_SECONDS)
        except RpcError as error:
            raise ClaimError(f"{call}: {error}") from error

    async def run(self) -> None:
        """Delete what drivers that have gone have published for this node, until cancelled."""
        while True:
            now = self._clock.monotonic()
            for name in [each for each, due in self._to_wipe.items() if due <= now]:
                await self._wipe(name)
            await self._clock.sleep(_LOOK_SECONDS)

    async def _wipe(self, driver: str) -> None:
        selector = f"spec.nodeName={self._node_name}" + (f",spec.driver={driver}" if driver else "")
        try:
            await self._client.raw("DELETE", _SLICES, {"fieldSelector": selector})
        except (ApiError, TransportError) as error:
            if not isinstance(error, ApiError) or error.code != 404:  # 404: the API server does not serve them
                logger.info("deleting ResourceSlices (%s): %s", selector, error)
                self._to_wipe[driver] = self._clock.monotonic() + WIPING_DELAY
                return
        self._to_wipe.pop(driver, None)

    async def close(self) -> None:
        """End all connections."""
        instances = [one for known in self._instances.values() for one in known]
        self._instances.clear()
        if self._health is not None:
            await self._health.close()
        await asyncio.gather(*(one.connection.close() for one in instances))


def _service_of(name: str, endpoint: str, versions: Sequence[str]) -> str:
    """The first of a driver's services that the kubelet knows. Raises PluginRefused."""
    where = f"invalid supported gRPC versions of DRA driver plugin {name} at endpoint {endpoint}"
    if not versions:
        raise PluginRefused(f"{where}: empty list of supported gRPC services (aka supported versions)")
    found = next((each for each in versions if each in SERVICES), None)
    if found is None:
        offered, known = (" ".join(f'"{each}"' for each in names) for names in (versions, SERVICES))
        text = f"none of services supported by the plugin ([{offered}]) are supported by the kubelet ([{known}])"
        raise PluginRefused(f"{where}: {text}")
    return found
