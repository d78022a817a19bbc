"""Messages of device plugins (deviceplugin v1beta1), and what they mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from bayplan.kubelet.resource_managers.devices.device_calls import Allocated, PluginDevice, PluginOptions
from bayplan.kubelet.resource_managers.errors import PluginError
from bayplan.kubelet.runtime.types import Device, Mount
from bayplan.support.grpc.message_tables import message_classes

VERSION: Final = "v1beta1"
DEVICE_PLUGIN: Final = "/v1beta1.DevicePlugin/"
REGISTER: Final = "/v1beta1.Registration/Register"

MESSAGES: Final = message_classes(
    "v1beta1",
    {
        "Empty": "",
        "DevicePluginOptions": "pre_start_required: bool, get_preferred_allocation_available: bool",
        "RegisterRequest": "version: string, endpoint: string, resource_name: string, options: DevicePluginOptions",
        "NUMANode": "ID: int64",
        "TopologyInfo": "nodes: [NUMANode]",
        "Device": "ID: string, health: string, topology: TopologyInfo",
        "ListAndWatchResponse": "devices: [Device]",
        "PreStartContainerRequest": "devices_ids: [string]",
        "PreStartContainerResponse": "",
        "ContainerPreferredAllocationRequest": (
            "available_deviceIDs: [string], must_include_deviceIDs: [string], allocation_size: int32"
        ),
        "PreferredAllocationRequest": "container_requests: [ContainerPreferredAllocationRequest]",
        "ContainerPreferredAllocationResponse": "deviceIDs: [string]",
        "PreferredAllocationResponse": "container_responses: [ContainerPreferredAllocationResponse]",
        "ContainerAllocateRequest": "devices_ids: [string]",
        "AllocateRequest": "container_requests: [ContainerAllocateRequest]",
        "CDIDevice": "name: string",
        "Mount": "container_path: string, host_path: string, read_only: bool",
        "DeviceSpec": "container_path: string, host_path: string, permissions: string",
        "ContainerAllocateResponse": (
            "envs: {string}, mounts: [Mount], devices: [DeviceSpec], annotations: {string}, cdi_devices: [CDIDevice]"
        ),
        "AllocateResponse": "container_responses: [ContainerAllocateResponse]",
    },
)


def options_of(message: Any) -> PluginOptions:
    """What a plugin wants to be called for."""
    return PluginOptions(message.pre_start_required, message.get_preferred_allocation_available)


def devices_of(message: Any) -> list[PluginDevice]:
    """The devices of a ListAndWatchResponse."""
    return [
        PluginDevice(each.ID, each.health, tuple(node.ID for node in each.topology.nodes)) for each in message.devices
    ]


def preferred_request(available: Iterable[str], must_include: Iterable[str], size: int) -> Any:
    """A PreferredAllocationRequest for one container."""
    request = MESSAGES["ContainerPreferredAllocationRequest"](
        available_deviceIDs=available, must_include_deviceIDs=must_include, allocation_size=size
    )
    return MESSAGES["PreferredAllocationRequest"](container_requests=[request])


def preferred_of(message: Any) -> tuple[str, ...]:
    """The devices that a plugin prefers for that container."""
    answers = message.container_responses
    return tuple(answers[0].deviceIDs) if answers else ()


def allocate_request(devices: Iterable[str]) -> Any:
    """An AllocateRequest for one container."""
    return MESSAGES["AllocateRequest"](
        container_requests=[MESSAGES["ContainerAllocateRequest"](devices_ids=list(devices))]
    )


def allocated_by(message: Any) -> Allocated:
    """What an AllocateResponse says for that container. Raises PluginError."""
    if not message.container_responses:
        raise PluginError(f"no containers return in allocation response {message}")
    return allocated_of(message.container_responses[0].SerializeToString(deterministic=True))


def allocated_of(data: bytes) -> Allocated:
    """What a ContainerAllocateResponse says, from its bytes. Raises ValueError."""
    message = MESSAGES["ContainerAllocateResponse"]()
    try:
        message.ParseFromString(data)
    except Exception as error:  # protobuf's own, whose class differs between its implementations
        raise ValueError(f"Can't unmarshal allocResp: {error}") from error
    return Allocated(
        dict(message.envs),
        tuple(Mount(each.container_path, each.host_path, each.read_only) for each in message.mounts),
        tuple(Device(each.container_path, each.host_path, each.permissions) for each in message.devices),
        dict(message.annotations),
        tuple(each.name for each in message.cdi_devices),
        data,
    )
