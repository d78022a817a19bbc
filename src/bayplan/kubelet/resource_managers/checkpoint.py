"""Checkpoints in kubelet's own format: JSON with a checksum, so that Bayplan's kubelet and Kubernetes' can follow each other on a node.

The checksum is FNV-1a (32 bits) of the state as Go's `spew` prints it (`%#v`, sorted keys, no addresses): types in brackets, except of elements of maps
and slices, and `<*>` for a pointer there.

    (*state.CPUManagerCheckpoint){PolicyName:(string)none DefaultCPUSet:(string)4-6 Entries:(map[string]map[string]string)map[] Checksum:(checksum.Checksum)0}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from bayplan.kubelet.resource_managers.errors import CheckpointError
from bayplan.support.system.private_files import write_private

K = TypeVar("K", str, int)
V = TypeVar("V")

CORRUPT = "checkpoint is corrupted"
_OFFSET, _PRIME = 0x811C9DC5, 0x01000193


def checksum(printed: str) -> int:
    """The checksum of a state that Go prints like this."""
    value = _OFFSET
    for byte in printed.encode():
        value = (value ^ byte) * _PRIME & 0xFFFFFFFF
    return value


def go_map(values: Mapping[K, V], show: Callable[[V], str]) -> str:
    """A map as Go prints it."""
    return f"map[{' '.join(f'{key}:{show(values[key])}' for key in sorted(values))}]"


def go_list(values: Iterable[object]) -> str:
    """A slice as Go prints it."""
    return f"[{' '.join(map(str, values))}]"


def read_checkpoint(path: Path) -> dict[str, Any] | None:
    """What a checkpoint holds; None where there is none. Raises CheckpointError."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CheckpointError(str(error)) from error
    try:
        tree = json.loads(data)
    except ValueError as error:
        text = "unexpected end of JSON input" if _is_cut(data, error) else str(error)
        raise CheckpointError(text) from error
    if not isinstance(tree, dict):
        raise CheckpointError(CORRUPT)
    return tree


def _is_cut(data: bytes, error: ValueError) -> bool:
    return isinstance(error, json.JSONDecodeError) and error.pos >= len(data.rstrip())


def write_checkpoint(path: Path, tree: Mapping[str, Any]) -> None:
    """Write a checkpoint in one step. Raises CheckpointError."""
    try:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        write_private(path, json.dumps(tree, separators=(",", ":")).encode())
    except OSError as error:
        raise CheckpointError(f"could not save checkpoint {path}: {error}") from error
