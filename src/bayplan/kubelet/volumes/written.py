"""Volumes whose files the kubelet writes: config maps, secrets, downward API, projected."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from bayplan.api.types import core_v1
from bayplan.kubelet.volumes.atomic_writer import FileProjection, write_payload
from bayplan.kubelet.volumes.directories import (
    make_directory,
    make_memory_directory,
    make_nested_mount_points,
    memory_size,
    remove_directory,
)
from bayplan.kubelet.volumes.errors import SetUpError
from bayplan.kubelet.volumes.interface import Mounted, SetUp, TearDown, VolumeKind, VolumeSpec, VolumeUsage
from bayplan.kubelet.volumes.ownership import set_ownership
from bayplan.kubelet.volumes.usage import disk_usage, file_system_usage, measured

Payload = dict[str, FileProjection]
"""Path within the volume -> file."""


async def write_volume(context: SetUp, payload: Mapping[str, FileProjection], *, in_memory: bool) -> Mounted:
    """Make the volume's directory if it is not there, and let it show these files. Raises SetUpError, MountError, OSError."""
    host, directory = context.host, context.directory
    if in_memory:
        await make_memory_directory(host, directory, memory_size(context.pod, host.allocatable(), None))
    else:
        await host.blocking(lambda: make_directory(directory))
    moment = datetime.fromtimestamp(host.clock.now(), UTC)
    version = f"..{moment:%Y_%m_%d_%H_%M_%S}.{host.randomness.suffix(10)}"

    def write() -> None:
        make_nested_mount_points(context)
        group = context.fs_group
        # Not the new data directory alone: the first time the volume itself and what was made in it are new as well.
        write_payload(directory, payload, version, lambda _: _own(context, group))

    await host.blocking(write)
    return Mounted(str(directory), read_only=True, relabel=True)


def _own(context: SetUp, group: int | None) -> None:
    set_ownership(context.directory, group, read_only=True)


def keyed_payload(
    values: Mapping[str, bytes],
    items: Sequence[core_v1.KeyToPath],
    default_mode: int,
    *,
    optional: bool,
    missing: str,
) -> Payload:
    """Files of the keys of a config map or secret: all, or those that `items` name. missing: what to say of a key that is not there."""
    if not items:
        return {name: FileProjection(data, default_mode) for name, data in values.items()}
    payload = {}
    for item in items:
        data = values.get(item.key)
        if data is None:
            if optional:
                continue
            raise SetUpError(f"{missing}: {item.key}")
        payload[item.path] = FileProjection(data, default_mode if item.mode is None else item.mode)
    return payload


def config_map_values(config_map: core_v1.ConfigMap) -> dict[str, bytes]:
    """All of a config map, as bytes."""
    found = {name: text.encode() for name, text in config_map.data.items()}
    found.update((name, base64.b64decode(data)) for name, data in config_map.binary_data.items())
    return found


def needed_mode(mode: int | None) -> int:
    """The mode of files that have none of their own. Raises SetUpError: the API server always gives one."""
    if mode is None:
        raise SetUpError("no defaultMode used, not even the default value for it")
    return mode


class WrittenKind(VolumeKind):
    """What the kinds have in common. `in_memory`: whether the files must never reach a disk."""

    name: str
    supports_mount_options = False
    in_memory = True

    def needs_remount(self, spec: VolumeSpec) -> bool:
        """See VolumeKind."""
        return True

    def unique_name(self, spec: VolumeSpec, pod_uid: str) -> str:
        """See VolumeKind."""
        return f"{self.name}/{pod_uid}-{spec.name}"

    async def tear_down(self, context: TearDown) -> None:
        """See VolumeKind."""
        await remove_directory(context)

    async def usage(self, context: SetUp) -> VolumeUsage | None:
        """See VolumeKind."""
        return await measured(context, file_system_usage if self.in_memory else disk_usage)
