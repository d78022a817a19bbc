"""Where device plugins register, and the connections to them (plugin/v1beta1 in pkg/kubelet/cm/devicemanager).

A plugin registers over `kubelet.sock` in the directory of device plugins, or is found by its socket in the registry of plugins. Then the kubelet is its client: it
listens to the plugin's list of devices for as long as the plugin lives, and asks it for allocations.
"""

from __future__ import annotations

import asyncio
import logging
import stat
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final

from bayplan.api.validation.resources import is_extended
from bayplan.kubelet.plugin_watcher import PluginRefused
from bayplan.kubelet.resource_managers.devices.device_calls import (
    Allocate,
    PluginCall,
    PluginReply,
    PreferredAllocation,
)
from bayplan.kubelet.resource_managers.devices.device_checkpoint import DEVICE_STATE
from bayplan.kubelet.resource_managers.devices.device_manager import DeviceManager
from bayplan.kubelet.resource_managers.devices.plugin_messages import (
    DEVICE_PLUGIN,
    MESSAGES,
    REGISTER,
    VERSION,
    allocate_request,
    allocated_by,
    devices_of,
    options_of,
    preferred_of,
    preferred_request,
)
from bayplan.kubelet.resource_managers.errors import PluginError
from bayplan.kubelet.resource_managers.manager_metrics import ManagerMetrics
from bayplan.support.grpc.calls import Connection, SocketServer
from bayplan.support.grpc.errors import RefusedError, RpcError

logger = logging.getLogger(__name__)

KIND: Final = "DevicePlugin"
"""What device plugins say they are."""
SOCKET: Final = "kubelet.sock"
_CONNECT_SECONDS: Final = 10.0
_PRE_START_SECONDS: Final = 30.0
CALL_SECONDS: Final = 30.0
"""How long a plugin may take for an allocation: without a limit, a plugin that hangs would keep its pods waiting for ever."""


class PluginServer:
    """See the module. on_health: told the uids of pods that have a device whose health changed."""

    def __init__(
        self,
        directory: Path,
        devices: DeviceManager,
        on_health: Callable[[Collection[str]], None],
        *,
        call_seconds: float = CALL_SECONDS,
        metrics: ManagerMetrics | None = None,
    ) -> None:
        """directory: of the plugins' sockets. call_seconds: how long one call may take."""
        self._directory = directory
        self._devices = devices
        self._on_health = on_health
        self._seconds = call_seconds
        self._metrics = metrics if metrics is not None else ManagerMetrics()
        self._connections: dict[str, Connection] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}
        methods = {REGISTER: (MESSAGES["RegisterRequest"], self._register)}
        self.socket = directory / SOCKET
        self._server = SocketServer(self.socket, methods)

    async def start(self) -> None:
        """Listen. Sockets of an earlier kubelet's plugins are removed, by which plugins notice that they have to register again. Raises OSError."""
        self._directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        remove_sockets(self._directory)
        await self._server.start()

    async def stop(self) -> None:
        """Listen no longer, and leave all plugins."""
        await self._server.stop()
        for resource in list(self._connections):
            await self.leave(resource)

    async def _register(self, request: Any) -> Any:
        name = request.resource_name
        logger.info("device plugin registers for %s", name)
        self._metrics.registrations.labels(name).inc()
        if request.version != VERSION:
            raise RefusedError(unsupported(request.version))
        if not is_extended(name):
            raise RefusedError(f'the ResourceName "{name}" is invalid')
        try:
            await self.connect(name, self._directory / request.endpoint)
        except PluginError as error:
            raise RefusedError(str(error)) from error
        return MESSAGES["Empty"]()

    async def connect(self, resource: str, socket: Path) -> None:
        """Connect to a plugin, in the place of an earlier one for the resource. Raises PluginError."""
        connection = Connection(socket)
        try:
            options = await self._options(connection)
        except BaseException:
            await connection.close()
            raise
        await self.leave(resource)
        self._connections[resource] = connection
        self._devices.connected(resource, options_of(options))
        self._watches[resource] = asyncio.create_task(self._watch(resource, connection), name=f"devices {resource}")

    async def _options(self, connection: Connection) -> Any:
        try:
            await connection.ready(_CONNECT_SECONDS)
        except RpcError as error:
            raise PluginError(f"failed to dial device plugin: {error}") from error
        try:
            return await connection.call(
                f"{DEVICE_PLUGIN}GetDevicePluginOptions",
                MESSAGES["Empty"](),
                MESSAGES["DevicePluginOptions"],
                self._seconds,
            )
        except RpcError as error:
            raise PluginError(f"failed to get device plugin options: {error}") from error

    async def _watch(self, resource: str, connection: Connection) -> None:
        """Follow a plugin's devices until it goes."""
        messages = connection.stream(
            f"{DEVICE_PLUGIN}ListAndWatch", MESSAGES["Empty"](), MESSAGES["ListAndWatchResponse"]
        )
        try:
            async for message in messages:
                self._tell(self._devices.update(resource, devices_of(message)))
        except RpcError as error:
            logger.warning("ListAndWatch of device plugin for %s ended: %s", resource, error)
        finally:
            if self._connections.get(resource) is connection:
                del self._connections[resource]
                self._tell(self._devices.disconnected(resource))
            await connection.close()

    def _tell(self, uids: Collection[str]) -> None:
        if uids:
            self._on_health(uids)

    def refusal(self, path: Path, name: str, endpoint: str, versions: tuple[str, ...]) -> str:
        """See PluginHandler."""
        if VERSION not in versions:
            shown = " ".join(versions)
            return f"manager version, {VERSION}, is not among plugin supported versions [{shown}]"
        if not is_extended(name):
            return f'invalid name of device plugin socket: the ResourceName "{name}" is invalid'
        return ""

    async def register(self, name: str, endpoint: Path, versions: tuple[str, ...]) -> None:
        """See PluginHandler."""
        try:
            await self.connect(name, endpoint)
        except PluginError as error:
            raise PluginRefused(str(error)) from error

    async def deregister(self, name: str, endpoint: Path) -> None:
        """See PluginHandler."""
        await self.leave(name)

    async def leave(self, resource: str) -> None:
        """End the connection to a resource's plugin, if there is one."""
        watch = self._watches.pop(resource, None)
        if watch is not None:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
        connection = self._connections.pop(resource, None)
        if connection is not None:  # the watch was ended before it began
            self._tell(self._devices.disconnected(resource))
            await connection.close()

    async def ask(self, call: PluginCall) -> PluginReply:
        """Ask the plugin of a resource. Raises PluginError, also when it takes too long."""
        connection = self._connections.get(call.resource)
        if connection is None:
            raise PluginError(f"endpoint {call.resource} has been stopped")
        try:
            return await self._ask(connection, call)
        except RpcError as error:
            raise PluginError(str(error)) from error

    async def _ask(self, connection: Connection, call: PluginCall) -> PluginReply:
        """The same of one connection. Raises RpcError, PluginError."""
        if isinstance(call, Allocate):
            request, answer = allocate_request(call.devices), MESSAGES["AllocateResponse"]
            return allocated_by(await connection.call(f"{DEVICE_PLUGIN}Allocate", request, answer, self._seconds))
        if isinstance(call, PreferredAllocation):
            request = preferred_request(call.available, call.must_include, call.size)
            answer = MESSAGES["PreferredAllocationResponse"]
            return preferred_of(
                await connection.call(f"{DEVICE_PLUGIN}GetPreferredAllocation", request, answer, self._seconds)
            )
        request, answer = (MESSAGES[f"PreStartContainer{each}"] for each in ("Request", "Response"))
        seconds = min(_PRE_START_SECONDS, self._seconds)
        await connection.call(f"{DEVICE_PLUGIN}PreStartContainer", request(devices_ids=call.devices), answer, seconds)
        return ()


def unsupported(version: str) -> str:
    """Why a plugin of another version is refused."""
    return f'requested API version "{version}" is not supported by kubelet. Supported version is ["{VERSION}"]'


def remove_sockets(directory: Path) -> None:
    """Remove all sockets in a directory. Raises OSError."""
    for each in directory.iterdir():
        if each.name != DEVICE_STATE and stat.S_ISSOCK(each.lstat().st_mode):
            each.unlink()
