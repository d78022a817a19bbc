"""Attaching: what a VolumeAttachment asks of the driver. Pure.

Source of the behaviour: external-attacher `pkg/controller/csi_handler.go`.
"""

from __future__ import annotations

from typing import Final

from bayplan.api.types import core_v1, storage_v1
from bayplan.csi import messages as csi
from bayplan.csi.client import DriverInfo
from bayplan.csi_controller.capabilities import capability_of_volume
from bayplan.csi_controller.errors import MissingError, RequestError

NODE_ID: Final = "csi.alpha.kubernetes.io/node-id"
"""Annotation of attachments: what the driver called the node when it attached, for when the node has gone."""
_C = csi.ControllerCapability


def finalizer_of(driver: str) -> str:
    """The finalizer of attachments and volumes that a driver's attacher works on."""
    return f"external-attacher/{driver.replace('.', '-')}"


def volume_spec(
    attachment: storage_v1.VolumeAttachment, volume: core_v1.PersistentVolume | None
) -> core_v1.PersistentVolumeSpec:
    """What is to be attached. Raises RequestError."""
    source = attachment.spec.source
    if source.persistent_volume_name and source.inline_volume_spec is not None:
        raise RequestError("both InlineCSIVolumeSource and PersistentVolumeName specified in VA source")
    if not source.persistent_volume_name and source.inline_volume_spec is None:
        raise RequestError("neither InlineCSIVolumeSource nor PersistentVolumeName specified in VA source")
    if source.persistent_volume_name and volume is None:
        raise MissingError(f'persistentvolume "{source.persistent_volume_name}" not found')
    spec = volume.spec if volume is not None else source.inline_volume_spec
    if spec is None or spec.csi is None:
        raise RequestError("pv spec contained non-csi source that was not migrated")
    return spec


def node_id(
    driver: str,
    node_name: str,
    csi_node: storage_v1.CSINode | None,
    attachment: storage_v1.VolumeAttachment | None = None,
) -> str:
    """What the driver calls a node; what an attachment remembers of it counts if the node has gone. Raises MissingError."""
    for one in csi_node.spec.drivers if csi_node is not None else ():
        if one.name == driver:
            return one.node_id
    remembered = attachment.metadata.annotations.get(NODE_ID) if attachment is not None else None
    if remembered is not None:
        return remembered
    if csi_node is None:
        raise MissingError(f'csinode.storage.k8s.io "{node_name}" not found')
    raise MissingError(f"CSINode {node_name} does not contain driver {driver}")


def publish_request(
    spec: core_v1.PersistentVolumeSpec, node: str, driver: DriverInfo, default_fs_type: str, secrets: csi.Texts
) -> csi.ControllerPublishVolumeRequest:
    """The call that attaches. Raises RequestError."""
    source = spec.csi
    assert source is not None
    several = _C.SINGLE_NODE_MULTI_WRITER in driver.controller
    return csi.ControllerPublishVolumeRequest(
        source.volume_handle,
        node,
        capability_of_volume(spec, single_node_multi_writer=several, default_fs_type=default_fs_type),
        source.read_only and _C.PUBLISH_READONLY in driver.controller,
        secrets,
        dict(source.volume_attributes),
    )
