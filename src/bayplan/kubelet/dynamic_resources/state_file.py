"""The file of claims that drivers have prepared, in kubelet's own form (`dra_manager_state`): JSON in JSON, with its CRC-32."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from bayplan.kubelet.dynamic_resources.claims import ClaimState, PreparedDevice
from bayplan.kubelet.resource_managers.checkpoint import CORRUPT, read_checkpoint, write_checkpoint
from bayplan.kubelet.resource_managers.errors import CheckpointError

NAME: Final = "dra_manager_state"
_HEADER: Final = {"kind": "DRACheckpoint", "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1"}


def write_claims(path: Path, claims: Iterable[ClaimState]) -> None:
    """Write all claims in one step. Raises CheckpointError."""
    data = json.dumps({**_HEADER, "ClaimInfoStateList": [_tree(one) for one in claims]}, separators=(",", ":"))
    write_checkpoint(path, {"Data": data, "Checksum": zlib.crc32(data.encode())})


def read_claims(path: Path) -> list[ClaimState]:
    """The claims of a file; none where there is no file. Raises CheckpointError."""
    tree = read_checkpoint(path)
    if tree is None:
        return []
    data = tree.get("Data")
    if not isinstance(data, str) or zlib.crc32(data.encode()) != tree.get("Checksum"):
        raise CheckpointError(CORRUPT)
    try:
        return [_state(one) for one in json.loads(data)["ClaimInfoStateList"] or ()]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointError(f"{CORRUPT}: {error}") from error


def _tree(claim: ClaimState) -> dict[str, Any]:
    drivers = {name: {"Devices": [_device_tree(one) for one in devices]} for name, devices in claim.drivers.items()}
    return {
        "ClaimUID": claim.uid,
        "ClaimName": claim.name,
        "Namespace": claim.namespace,
        "PodUIDs": {uid: {} for uid in sorted(claim.pods)},
        "DriverState": drivers,
    }


def _device_tree(device: PreparedDevice) -> dict[str, Any]:
    return {
        "PoolName": device.pool,
        "DeviceName": device.name,
        "ShareID": device.share_id or None,
        "RequestNames": list(device.request_names),
        "CDIDeviceIDs": list(device.cdi_ids),
    }


def _state(tree: dict[str, Any]) -> ClaimState:
    drivers = {
        name: tuple(
            PreparedDevice(
                one["PoolName"],
                one["DeviceName"],
                tuple(one["RequestNames"] or ()),
                tuple(one["CDIDeviceIDs"] or ()),
                one.get("ShareID") or "",
            )
            for one in state["Devices"] or ()
        )
        for name, state in (tree["DriverState"] or {}).items()
    }
    return ClaimState(tree["ClaimUID"], tree["ClaimName"], tree["Namespace"], drivers, set(tree["PodUIDs"] or ()))
