"""What is asked of the local driver and whether it can be done: sizes, types, names, capabilities, and what already exists. Pure.

Source of the behaviour: the CSI specification 1.12, "Controller Service RPC" and "Node Service RPC".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Final

from bayplan.csi import messages as csi
from bayplan.csi.errors import DriverError, InvalidArgument
from bayplan.csi_local.records import DIRECTORY, IMAGE, VolumeRecord
from bayplan.csi_local.settings import TOPOLOGY_KEY

DEFAULT_BYTES: Final = 1 << 30
"""Size of volumes for which nobody asks for one."""
ROUNDING: Final = 1 << 20
"""Images have whole mebibytes."""
SMALLEST_IMAGE: Final = {"xfs": 300 << 20}
"""Bytes below which a file system cannot be made."""
DEFAULT_FS: Final = "ext4"
FILE_SYSTEMS: Final = ("ext4", "xfs")
EPHEMERAL: Final = "csi.storage.k8s.io/ephemeral"
"""Key of the volume context by which a kubelet marks inline volumes."""
_PARAMETERS: Final = ("type",)
_OF_KUBERNETES: Final = "csi.storage.k8s.io/"
"""Parameters that `--extra-create-metadata` adds."""
_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SINGLE_NODE: Final = frozenset(
    {
        csi.Access.SINGLE_NODE_WRITER,
        csi.Access.SINGLE_NODE_READER_ONLY,
        csi.Access.SINGLE_NODE_SINGLE_WRITER,
        csi.Access.SINGLE_NODE_MULTI_WRITER,
    }
)


def id_of(name: str) -> str:
    """The id for a name, which is a file name: the name itself, or its hash where that would be no good one. Raises InvalidArgument."""
    if not name:
        raise InvalidArgument("name is missing")
    return name if _SAFE.fullmatch(name) else f"sha256-{hashlib.sha256(name.encode()).hexdigest()}"


def checked_id(value: str, what: str) -> str:
    """An id that a client sent. Raises InvalidArgument if it is none at all; ids that cannot be ours are simply not found."""
    if not value:
        raise InvalidArgument(f"{what} is missing")
    return value


def type_of(parameters: Mapping[str, str]) -> str:
    """The type that parameters ask for. Raises InvalidArgument."""
    unknown = sorted(one for one in parameters if one not in _PARAMETERS and not one.startswith(_OF_KUBERNETES))
    if unknown:
        raise InvalidArgument(
            f"parameter {unknown[0]!r} is not known; the local driver takes: {', '.join(_PARAMETERS)}"
        )
    kind = parameters.get("type", DIRECTORY)
    if kind not in (DIRECTORY, IMAGE):
        raise InvalidArgument(f"parameter type: {kind!r} is neither {DIRECTORY} nor {IMAGE}")
    return kind


def unsupported(capability: csi.VolumeCapability | None, kind: str) -> str:
    """Why a volume of a type cannot be used so; "" if it can."""
    if capability is None:
        return "volume_capability is missing"
    mode = capability.access_mode.mode if capability.access_mode is not None else 0
    if capability.block is None and capability.mount is None:
        return "volume_capability has no access type"
    if mode not in _SINGLE_NODE:
        return f"access mode {_mode_name(mode)} is not supported: a local volume is on one node"
    if capability.block is not None and kind == DIRECTORY:
        return "a directory is no block device; use a class with the parameter type: image"
    if capability.mount is not None:
        return _unsupported_mount(capability.mount, kind)
    return ""


def _unsupported_mount(mount: csi.MountVolume, kind: str) -> str:
    if kind == DIRECTORY and mount.mount_flags:
        return f"a directory takes no mount options, found {', '.join(mount.mount_flags)}; use type: image, or none"
    if kind == IMAGE and mount.fs_type and mount.fs_type not in FILE_SYSTEMS:
        return f"file system {mount.fs_type!r} is not supported; known: {', '.join(FILE_SYSTEMS)}"
    return ""


def _mode_name(mode: int) -> str:
    return csi.Access(mode).name if mode in set(csi.Access) else str(mode)


def check_capabilities(capabilities: Iterable[csi.VolumeCapability], kind: str) -> None:
    """Raises InvalidArgument if there are none, or if one is not supported."""
    found = tuple(capabilities)
    if not found:
        raise InvalidArgument("volume_capabilities is missing")
    for one in found:
        problem = unsupported(one, kind)
        if problem:
            raise InvalidArgument(problem)


def fs_types(capabilities: Iterable[csi.VolumeCapability]) -> set[str]:
    """The file systems that capabilities ask for."""
    return {one.mount.fs_type or DEFAULT_FS for one in capabilities if one.mount is not None}


def size_for(
    wanted: csi.CapacityRange | None, kind: str, *, at_least: int = 0, file_systems: Iterable[str] = ()
) -> int:
    """The size of a new volume in bytes. at_least: size of what is copied into it. Raises DriverError (OUT_OF_RANGE), InvalidArgument."""
    required, limit = (wanted.required_bytes, wanted.limit_bytes) if wanted is not None else (0, 0)
    if required < 0 or limit < 0 or (limit and limit < required):
        raise InvalidArgument(f"capacity_range makes no sense: required {required}, limit {limit}")
    if required and required < at_least:
        raise DriverError(f"{required} bytes are less than the {at_least} bytes of the source", "OUT_OF_RANGE")
    size = max(required or (min(DEFAULT_BYTES, limit) if limit else DEFAULT_BYTES), at_least)
    if kind == IMAGE:
        size = max([size, *(SMALLEST_IMAGE.get(one, 0) for one in file_systems)])
        size = -(-size // ROUNDING) * ROUNDING
    if limit and size > limit:
        raise DriverError(f"the smallest possible size, {size} bytes, is above the limit of {limit}", "OUT_OF_RANGE")
    return size


def source_id(source: csi.VolumeContentSource | None) -> str:
    """`snapshot/ID` or `volume/ID` of what a volume is made from; "" for an empty one. Raises InvalidArgument."""
    if source is None:
        return ""
    if source.snapshot is not None:
        return f"snapshot/{checked_id(source.snapshot.snapshot_id, 'snapshot_id')}"
    if source.volume is not None:
        return f"volume/{checked_id(source.volume.volume_id, 'volume_id')}"
    raise InvalidArgument("volume_content_source has no source")


def conflict(known: VolumeRecord, request: csi.CreateVolumeRequest, kind: str) -> str:
    """Why a volume that exists is not the one that a request of the same name asks for; "" if it is."""
    wanted = request.capacity_range
    if wanted is not None and (known.size < wanted.required_bytes or 0 < wanted.limit_bytes < known.size):
        return f"volume {known.id} exists with {known.size} bytes"
    if known.kind != kind:
        return f"volume {known.id} exists as {known.kind}"
    if known.source != source_id(request.volume_content_source):
        return f"volume {known.id} exists with another content source"
    return ""


def is_here(requirement: csi.TopologyRequirement | None, node_name: str) -> bool:
    """Whether a volume of this node is usable where it has to be."""
    if requirement is None or not requirement.requisite:
        return True
    return any(one.segments.get(TOPOLOGY_KEY) == node_name for one in requirement.requisite)


def ephemeral_size(attributes: Mapping[str, str]) -> int:
    """The size in bytes of an inline volume: the attribute `size`, such as 64Mi. Raises InvalidArgument."""
    text = attributes.get("size", "")
    if not text:
        return DEFAULT_BYTES
    match = re.fullmatch(r"([1-9][0-9]{0,14})(Ki|Mi|Gi|Ti)?", text)
    if match is None:
        raise InvalidArgument(f"volume attribute size: {text!r} is no size such as 64Mi")
    return int(match[1]) << {None: 0, "Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}[match[2]]


def is_ephemeral(context: Mapping[str, str]) -> bool:
    """Whether a volume is written in a pod, and lives as long as that."""
    return context.get(EPHEMERAL) == "true"


def page(ids: Iterable[str], start: str, limit: int) -> tuple[list[str], str]:
    """The ids of one page, and the token of the next ("" if there is none). Tokens are the last id of the page before."""
    if limit < 0:
        raise InvalidArgument("max_entries is negative")
    rest = sorted(one for one in ids if one > start)
    chosen = rest[:limit] if limit else rest
    return chosen, chosen[-1] if len(chosen) < len(rest) else ""
