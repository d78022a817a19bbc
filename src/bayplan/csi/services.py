"""The calls of CSI: for each its full name, the message that it takes and the one that it gives."""

from __future__ import annotations

from typing import Final, NamedTuple

from bayplan.csi import messages as csi
from bayplan.support.grpc.protobuf_dataclasses import Message


class Call(NamedTuple):
    """One call of a service."""

    service: str
    """`Identity`, `Controller` or `Node`."""
    request: type[Message]
    response: type[Message]


_IDENTITY, _CONTROLLER, _NODE = "Identity", "Controller", "Node"

CALLS: Final[dict[str, Call]] = {
    "GetPluginInfo": Call(_IDENTITY, csi.Empty, csi.GetPluginInfoResponse),
    "GetPluginCapabilities": Call(_IDENTITY, csi.Empty, csi.GetPluginCapabilitiesResponse),
    "Probe": Call(_IDENTITY, csi.Empty, csi.ProbeResponse),
    "CreateVolume": Call(_CONTROLLER, csi.CreateVolumeRequest, csi.VolumeResponse),
    "DeleteVolume": Call(_CONTROLLER, csi.DeleteVolumeRequest, csi.Empty),
    "ControllerPublishVolume": Call(
        _CONTROLLER, csi.ControllerPublishVolumeRequest, csi.ControllerPublishVolumeResponse
    ),
    "ControllerUnpublishVolume": Call(_CONTROLLER, csi.ControllerUnpublishVolumeRequest, csi.Empty),
    "ValidateVolumeCapabilities": Call(
        _CONTROLLER, csi.ValidateVolumeCapabilitiesRequest, csi.ValidateVolumeCapabilitiesResponse
    ),
    "ListVolumes": Call(_CONTROLLER, csi.ListVolumesRequest, csi.ListVolumesResponse),
    "GetCapacity": Call(_CONTROLLER, csi.GetCapacityRequest, csi.GetCapacityResponse),
    "ControllerGetCapabilities": Call(_CONTROLLER, csi.Empty, csi.CapabilitiesResponse),
    "CreateSnapshot": Call(_CONTROLLER, csi.CreateSnapshotRequest, csi.SnapshotResponse),
    "DeleteSnapshot": Call(_CONTROLLER, csi.SnapshotRequest, csi.Empty),
    "ListSnapshots": Call(_CONTROLLER, csi.ListSnapshotsRequest, csi.ListSnapshotsResponse),
    "GetSnapshot": Call(_CONTROLLER, csi.SnapshotRequest, csi.SnapshotResponse),
    "ControllerExpandVolume": Call(_CONTROLLER, csi.ControllerExpandVolumeRequest, csi.ControllerExpandVolumeResponse),
    "ControllerGetVolume": Call(_CONTROLLER, csi.ControllerGetVolumeRequest, csi.VolumeEntry),
    "ControllerModifyVolume": Call(_CONTROLLER, csi.ControllerModifyVolumeRequest, csi.Empty),
    "NodeStageVolume": Call(_NODE, csi.NodeStageVolumeRequest, csi.Empty),
    "NodeUnstageVolume": Call(_NODE, csi.NodeUnstageVolumeRequest, csi.Empty),
    "NodePublishVolume": Call(_NODE, csi.NodePublishVolumeRequest, csi.Empty),
    "NodeUnpublishVolume": Call(_NODE, csi.NodeUnpublishVolumeRequest, csi.Empty),
    "NodeGetVolumeStats": Call(_NODE, csi.NodeGetVolumeStatsRequest, csi.NodeGetVolumeStatsResponse),
    "NodeExpandVolume": Call(_NODE, csi.NodeExpandVolumeRequest, csi.NodeExpandVolumeResponse),
    "NodeGetCapabilities": Call(_NODE, csi.Empty, csi.CapabilitiesResponse),
    "NodeGetInfo": Call(_NODE, csi.Empty, csi.NodeGetInfoResponse),
}
"""Every call by its name."""


def path_of(name: str) -> str:
    """The full name of a call, such as `/csi.v1.Node/NodeGetInfo`."""
    return f"/csi.v1.{CALLS[name].service}/{name}"
