"""A device plugin on a unix socket, as vendors write them: it registers with a kubelet, tells its devices, and answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

from bayplan.csi.messages import Empty, PluginInfo, RegistrationStatus
from bayplan.kubelet.resource_managers.devices.plugin_messages import MESSAGES, REGISTER
from bayplan.support.grpc.calls import Connection
from bayplan.support.grpc.errors import RpcError

GPU = "example.com/gpu"


@dataclass
class DevicePlugin:
    """`devices`: id -> health. `hangs`: whether it never answers an allocation. `numa`: id -> NUMA node."""

    socket: Path
    resource: str = GPU
    devices: dict[str, str] = field(default_factory=dict)
    numa: dict[str, int] = field(default_factory=dict)
    pre_start: bool = False
    prefers: tuple[str, ...] = ()
    hangs: bool = False
    calls: list[tuple[str, Any]] = field(default_factory=list)
    statuses: list[tuple[bool, str]] = field(default_factory=list)
    """What the kubelet has told of a registration by discovery."""
    versions: tuple[str, ...] = ("v1beta1",)
    kind: str = "DevicePlugin"
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[DevicePlugin]:
        """Listens while the context lasts."""
        server = aio.server()
        server.add_generic_rpc_handlers((self._device_plugin(), self._registration()))
        server.add_insecure_port(f"unix:{self.socket}")
        await server.start()
        try:
            yield self
        finally:
            await server.stop(None)
            self.socket.unlink(missing_ok=True)

    async def register(self, kubelet: Path, version: str = "v1beta1") -> str:
        """Register with a kubelet; why it refuses, if it does."""
        connection = Connection(kubelet)
        request = MESSAGES["RegisterRequest"](version=version, endpoint=self.socket.name, resource_name=self.resource)
        try:
            await connection.call(REGISTER, request, MESSAGES["Empty"], 10)
        except RpcError as error:
            return str(error)
        finally:
            await connection.close()
        return ""

    def set(self, **devices: str) -> None:
        """Change the health of devices."""
        self.devices.update(devices)
        self._changed.set()

    def _device_plugin(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            "v1beta1.DevicePlugin",
            {
                "GetDevicePluginOptions": _method("Empty", self._options),
                "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                    self._list, request_deserializer=MESSAGES["Empty"].FromString, response_serializer=_bytes
                ),
                "Allocate": _method("AllocateRequest", self._allocate),
                "GetPreferredAllocation": _method("PreferredAllocationRequest", self._preferred),
                "PreStartContainer": _method("PreStartContainerRequest", self._pre_start),
            },
        )

    def _registration(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            "pluginregistration.Registration",
            {
                "GetInfo": _method("InfoRequest", self._info),
                "NotifyRegistrationStatus": _method("RegistrationStatus", self._notified),
            },
        )

    async def _options(self, request: Any, context: Any) -> Any:
        return MESSAGES["DevicePluginOptions"](
            pre_start_required=self.pre_start, get_preferred_allocation_available=bool(self.prefers)
        )

    async def _list(self, request: Any, context: Any) -> AsyncIterator[Any]:
        while True:
            self._changed.clear()
            yield MESSAGES["ListAndWatchResponse"](
                devices=[self._device(each, health) for each, health in self.devices.items()]
            )
            await self._changed.wait()

    def _device(self, name: str, health: str) -> Any:
        nodes = [MESSAGES["NUMANode"](ID=self.numa[name])] if name in self.numa else []
        return MESSAGES["Device"](ID=name, health=health, topology=MESSAGES["TopologyInfo"](nodes=nodes))

    async def _allocate(self, request: Any, context: Any) -> Any:
        [wanted] = request.container_requests
        self.calls.append(("Allocate", tuple(wanted.devices_ids)))
        if self.hangs:
            await asyncio.Event().wait()
        answer = MESSAGES["ContainerAllocateResponse"](
            envs={"VENDOR": ",".join(wanted.devices_ids)},
            mounts=[MESSAGES["Mount"](container_path="/lib/vendor", host_path="/opt/vendor", read_only=True)],
            devices=[
                MESSAGES["DeviceSpec"](container_path=f"/dev/{each}", host_path=f"/dev/v{each}", permissions="rw")
                for each in wanted.devices_ids
            ],
            annotations={"vendor": "yes"},
            cdi_devices=[MESSAGES["CDIDevice"](name=f"example.com/gpu={each}") for each in wanted.devices_ids],
        )
        return MESSAGES["AllocateResponse"](container_responses=[answer])

    async def _preferred(self, request: Any, context: Any) -> Any:
        [wanted] = request.container_requests
        self.calls.append(("GetPreferredAllocation", (tuple(wanted.available_deviceIDs), wanted.allocation_size)))
        answer = MESSAGES["ContainerPreferredAllocationResponse"](deviceIDs=self.prefers)
        return MESSAGES["PreferredAllocationResponse"](container_responses=[answer])

    async def _pre_start(self, request: Any, context: Any) -> Any:
        self.calls.append(("PreStartContainer", tuple(request.devices_ids)))
        return MESSAGES["PreStartContainerResponse"]()

    async def _info(self, request: Any, context: Any) -> Any:
        return PluginInfo(self.kind, self.resource, str(self.socket), tuple(self.versions))

    async def _notified(self, request: Any, context: Any) -> Any:
        self.statuses.append((request.plugin_registered, request.error))
        return Empty()


_DISCOVERY: Any = {"InfoRequest": Empty, "RegistrationStatus": RegistrationStatus}


def _bytes(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data


def _method(request: str, handler: Any) -> Any:
    kind = {**MESSAGES, **_DISCOVERY}[request]
    return grpc.unary_unary_rpc_method_handler(
        handler, request_deserializer=kind.FromString, response_serializer=_bytes
    )
