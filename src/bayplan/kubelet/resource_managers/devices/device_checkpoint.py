"""The checkpoint `kubelet_internal_checkpoint`: which containers have which devices, in kubelet's format."""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from bayplan.kubelet.resource_managers.checkpoint import (
    CORRUPT,
    checksum,
    go_list,
    go_map,
    read_checkpoint,
    write_checkpoint,
)
from bayplan.kubelet.resource_managers.devices.plugin_messages import allocated_of
from bayplan.kubelet.resource_managers.devices.pod_devices import ContainerDevices, PodDevices
from bayplan.kubelet.resource_managers.errors import CheckpointError

logger = logging.getLogger(__name__)

DEVICE_STATE: Final = "kubelet_internal_checkpoint"


class _Entry(msgspec.Struct, rename="pascal"):
    pod_uid: str = msgspec.field(name="PodUID")
    container_name: str
    resource_name: str
    device_ids: dict[int, list[str]] = msgspec.field(name="DeviceIDs")
    alloc_resp: str
    """The plugin's answer, in base64 as JSON of Go has bytes."""


class _Data(msgspec.Struct, rename="pascal"):
    pod_device_entries: list[_Entry] | None = None
    registered_devices: dict[str, list[str]] | None = None


class _Checkpoint(msgspec.Struct, rename="pascal"):
    data: _Data
    checksum: int


class DeviceCheckpoint:
    """A file; None to keep nothing."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path

    def load(self) -> tuple[PodDevices, Collection[str]]:
        """(devices of containers, resources that plugins offered). Raises CheckpointError."""
        pods = PodDevices()
        tree = read_checkpoint(self._path) if self._path is not None else None
        if tree is None:
            return pods, ()
        try:
            found = msgspec.convert(tree, _Checkpoint, strict=False)
            is_sound = found.checksum == _checksum(found.data)
        except (msgspec.ValidationError, binascii.Error) as error:
            raise CheckpointError(CORRUPT) from error
        if not is_sound:
            raise CheckpointError(CORRUPT)
        for entry in found.data.pod_device_entries or ():
            by_node = {node: tuple(ids) for node, ids in entry.device_ids.items()}
            try:
                allocated = allocated_of(base64.b64decode(entry.alloc_resp, validate=True))
            except (binascii.Error, ValueError) as error:
                logger.error("devices of container %s of pod %s: %s", entry.container_name, entry.pod_uid, error)
                continue
            pods.insert(entry.pod_uid, entry.container_name, entry.resource_name, ContainerDevices(by_node, allocated))
        return pods, (found.data.registered_devices or {}).keys()

    def save(self, pods: PodDevices, registered: Mapping[str, list[str]]) -> None:
        """Write the file. Raises CheckpointError."""
        if self._path is None:
            return
        entries = [
            _Entry(
                uid,
                container,
                resource,
                {node: list(ids) for node, ids in devices.by_numa_node.items()},
                base64.b64encode(devices.allocated.response).decode(),
            )
            for uid, container, resource, devices in pods.all()
        ]
        data = _Data(entries or None, dict(registered))
        tree: dict[str, Any] = {"Data": msgspec.to_builtins(data, str_keys=True), "Checksum": _checksum(data)}
        write_checkpoint(self._path, tree)


def _checksum(data: _Data) -> int:
    """Of the struct in which kubelet holds the data."""
    entries, registered = data.pod_device_entries, data.registered_devices
    shown = "<nil>" if entries is None else go_list(map(_go_entry, entries))
    devices = "<nil>" if registered is None else go_map(registered, go_list)
    return checksum(
        f"(checkpoint.checkpointData){{PodDeviceEntries:([]checkpoint.PodDevicesEntry){shown} "
        f"RegisteredDevices:(map[string][]string){devices}}}"
    )


def _go_entry(entry: _Entry) -> str:
    answer = base64.b64decode(entry.alloc_resp) if entry.alloc_resp else b""
    return (
        f"{{PodUID:(string){entry.pod_uid} ContainerName:(string){entry.container_name} "
        f"ResourceName:(string){entry.resource_name} "
        f"DeviceIDs:(checkpoint.DevicesPerNUMA){go_map(entry.device_ids, go_list)} AllocResp:([]uint8){go_list(answer)}}}"
    )
