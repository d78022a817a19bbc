"""The messages of CSI 1.12 (csi.proto), fields in the order of their numbers. Sizes are bytes, paths are on the node.

Secrets are not shown by `repr`, so that no log has them. Group snapshots and snapshot metadata, services of their own that nothing here uses, are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated

from bayplan.support.grpc.protobuf_dataclasses import Int32, Message, Nanoseconds, OneOf

Texts = Mapping[str, str]


class PluginService(IntEnum):
    """What a driver as a whole offers."""

    CONTROLLER_SERVICE = 1
    VOLUME_ACCESSIBILITY_CONSTRAINTS = 2
    GROUP_CONTROLLER_SERVICE = 3
    SNAPSHOT_METADATA_SERVICE = 4


class Expansion(IntEnum):
    """When a driver can make volumes larger."""

    ONLINE = 1
    OFFLINE = 2


class ControllerCapability(IntEnum):
    """Optional calls of the controller service."""

    CREATE_DELETE_VOLUME = 1
    PUBLISH_UNPUBLISH_VOLUME = 2
    LIST_VOLUMES = 3
    GET_CAPACITY = 4
    CREATE_DELETE_SNAPSHOT = 5
    LIST_SNAPSHOTS = 6
    CLONE_VOLUME = 7
    PUBLISH_READONLY = 8
    EXPAND_VOLUME = 9
    LIST_VOLUMES_PUBLISHED_NODES = 10
    VOLUME_CONDITION = 11
    GET_VOLUME = 12
    SINGLE_NODE_MULTI_WRITER = 13
    MODIFY_VOLUME = 14
    GET_SNAPSHOT = 15


class NodeCapability(IntEnum):
    """Optional calls of the node service."""

    STAGE_UNSTAGE_VOLUME = 1
    GET_VOLUME_STATS = 2
    EXPAND_VOLUME = 3
    VOLUME_CONDITION = 4
    SINGLE_NODE_MULTI_WRITER = 5
    VOLUME_MOUNT_GROUP = 6


class Access(IntEnum):
    """How many nodes (and, for 6 and 7, pods) may use a volume, and how."""

    SINGLE_NODE_WRITER = 1
    SINGLE_NODE_READER_ONLY = 2
    MULTI_NODE_READER_ONLY = 3
    MULTI_NODE_SINGLE_WRITER = 4
    MULTI_NODE_MULTI_WRITER = 5
    SINGLE_NODE_SINGLE_WRITER = 6
    SINGLE_NODE_MULTI_WRITER = 7


class Unit(IntEnum):
    """What a usage counts."""

    BYTES = 1
    INODES = 2


@dataclass(frozen=True, slots=True)
class Empty(Message):
    """Every message without fields."""


# What messages are made of


@dataclass(frozen=True, slots=True)
class Enumerated(Message):
    """A message around one number of an enumeration."""

    type: Int32 = 0


@dataclass(frozen=True, slots=True)
class PluginCapability(Message):
    """One thing that the driver offers."""

    service: Annotated[Enumerated | None, OneOf("type")] = None
    volume_expansion: Annotated[Enumerated | None, OneOf("type")] = None


@dataclass(frozen=True, slots=True)
class RpcCapability(Message):
    """One call that the controller or node service offers."""

    rpc: Annotated[Enumerated | None, OneOf("type")] = None


@dataclass(frozen=True, slots=True)
class MountVolume(Message):
    """Use as a file system."""

    fs_type: str = ""
    mount_flags: tuple[str, ...] = ()
    volume_mount_group: str = ""


@dataclass(frozen=True, slots=True)
class AccessMode(Message):
    """See Access."""

    mode: Int32 = 0


@dataclass(frozen=True, slots=True)
class VolumeCapability(Message):
    """How a volume is used: as a block device or a file system, by whom."""

    block: Annotated[Empty | None, OneOf("access_type")] = None
    mount: Annotated[MountVolume | None, OneOf("access_type")] = None
    access_mode: AccessMode | None = None


@dataclass(frozen=True, slots=True)
class CapacityRange(Message):
    """A size; 0 stands for no bound."""

    required_bytes: int = 0
    limit_bytes: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotSource(Message):
    """The snapshot from which a volume is made."""

    snapshot_id: str = ""


@dataclass(frozen=True, slots=True)
class VolumeSource(Message):
    """The volume of which a volume is a copy."""

    volume_id: str = ""


@dataclass(frozen=True, slots=True)
class VolumeContentSource(Message):
    """What a volume has in it at first."""

    snapshot: Annotated[SnapshotSource | None, OneOf("type")] = None
    volume: Annotated[VolumeSource | None, OneOf("type")] = None


@dataclass(frozen=True, slots=True)
class Topology(Message):
    """A part of the cluster: nodes that have these labels."""

    segments: Texts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopologyRequirement(Message):
    """Where a volume has to be usable (one of the requisite), and where it had better be."""

    requisite: tuple[Topology, ...] = ()
    preferred: tuple[Topology, ...] = ()


@dataclass(frozen=True, slots=True)
class Volume(Message):
    """A volume of the driver."""

    capacity_bytes: int = 0
    volume_id: str = ""
    volume_context: Texts = field(default_factory=dict)
    content_source: VolumeContentSource | None = None
    accessible_topology: tuple[Topology, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot(Message):
    """A snapshot of the driver."""

    size_bytes: int = 0
    snapshot_id: str = ""
    source_volume_id: str = ""
    creation_time: Nanoseconds = 0
    ready_to_use: bool = False
    group_snapshot_id: str = ""


@dataclass(frozen=True, slots=True)
class VolumeCondition(Message):
    """Whether something is wrong with a volume."""

    abnormal: bool = False
    message: str = ""


@dataclass(frozen=True, slots=True)
class VolumeStatus(Message):
    """Where a volume is published."""

    published_node_ids: tuple[str, ...] = ()
    volume_condition: VolumeCondition | None = None


@dataclass(frozen=True, slots=True)
class VolumeUsage(Message):
    """How full a volume is, see Unit."""

    available: int = 0
    total: int = 0
    used: int = 0
    unit: Int32 = 0


# The identity service


@dataclass(frozen=True, slots=True)
class GetPluginInfoResponse(Message):
    """Who the driver is."""

    name: str = ""
    vendor_version: str = ""
    manifest: Texts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GetPluginCapabilitiesResponse(Message):
    """What the driver offers."""

    capabilities: tuple[PluginCapability, ...] = ()


@dataclass(frozen=True, slots=True)
class ProbeResponse(Message):
    """Whether the driver is ready; None says yes."""

    ready: bool | None = None


# The controller service


@dataclass(frozen=True, slots=True)
class CreateVolumeRequest(Message):
    """Make a volume; the name is the same whenever the call is made again."""

    name: str = ""
    capacity_range: CapacityRange | None = None
    volume_capabilities: tuple[VolumeCapability, ...] = ()
    parameters: Texts = field(default_factory=dict)
    secrets: Texts = field(default_factory=dict, repr=False)
    volume_content_source: VolumeContentSource | None = None
    accessibility_requirements: TopologyRequirement | None = None
    mutable_parameters: Texts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VolumeResponse(Message):
    """A volume: the answer to CreateVolume."""

    volume: Volume | None = None


@dataclass(frozen=True, slots=True)
class DeleteVolumeRequest(Message):
    """Delete a volume."""

    volume_id: str = ""
    secrets: Texts = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ControllerPublishVolumeRequest(Message):
    """Attach a volume to a node."""

    volume_id: str = ""
    node_id: str = ""
    volume_capability: VolumeCapability | None = None
    readonly: bool = False
    secrets: Texts = field(default_factory=dict, repr=False)
    volume_context: Texts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ControllerPublishVolumeResponse(Message):
    """What the node has to know of it."""

    publish_context: Texts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ControllerUnpublishVolumeRequest(Message):
    """Detach a volume from a node."""

    volume_id: str = ""
    node_id: str = ""
    secrets: Texts = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ValidateVolumeCapabilitiesRequest(Message):
    """Ask whether a volume can be used so."""

    volume_id: str = ""
    volume_context: Texts = field(default_factory=dict)
    volume_capabilities: tuple[VolumeCapability, ...] = ()
    parameters: Texts = field(default_factory=dict)
    secrets: Texts = field(default_factory=dict, repr=False)
    mutable_parameters: Texts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Confirmed(Message):
    """What a volume can."""

    volume_context: Texts = field(default_factory=dict)
    volume_capabilities: tuple[VolumeCapability, ...] = ()
    parameters: Texts = field(default_factory=dict)
    mutable_parameters: Texts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ValidateVolumeCapabilitiesResponse(Message):
    """None for a volume that cannot, and why."""

    confirmed: Confirmed | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class ListVolumesRequest(Message):
    """List volumes, page by page."""

    max_entries: Int32 = 0
    starting_token: str = ""


@dataclass(frozen=True, slots=True)
class VolumeEntry(Message):
    """A volume and its state: an entry of a list, and the answer to ControllerGetVolume."""

    volume: Volume | None = None
    status: VolumeStatus | None = None


@dataclass(frozen=True, slots=True)
class ListVolumesResponse(Message):
    """One page."""

    entries: tuple[VolumeEntry, ...] = ()
    next_token: str = ""


@dataclass(frozen=True, slots=True)
class ControllerGetVolumeRequest(Message):
    """Ask for one volume."""

    volume_id: str = ""


@dataclass(frozen=True, slots=True)
class ControllerModifyVolumeRequest(Message):
    """Give a volume other mutable parameters."""

    volume_id: str = ""
    secrets: Texts = field(default_factory=dict, repr=False)
    mutable_parameters: Texts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GetCapacityRequest(Message):
    """Ask how much room there is for volumes of a kind, in a place."""

    volume_capabilities: tuple[VolumeCapability, ...] = ()
    parameters: Texts = field(default_factory=dict)
    accessible_topology: Topology | None = None


@dataclass(frozen=True, slots=True)
class GetCapacityResponse(Message):
    """The room, and how large and small a single volume may be."""

    available_capacity: int = 0
    maximum_volume_size: int | None = None
    minimum_volume_size: int | None = None


@dataclass(frozen=True, slots=True)
class CapabilitiesResponse(Message):
    """The answer to ControllerGetCapabilities and NodeGetCapabilities."""

    capabilities: tuple[RpcCapability, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateSnapshotRequest(Message):
    """Make a snapshot; the name is the same whenever the call is made again."""

    source_volume_id: str = ""
    name: str = ""
    secrets: Texts = field(default_factory=dict, repr=False)
    parameters: Texts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SnapshotResponse(Message):
    """A snapshot: the answer to CreateSnapshot and GetSnapshot, and an entry of a list."""

    snapshot: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class SnapshotRequest(Message):
    """Name a snapshot: DeleteSnapshot and GetSnapshot."""

    snapshot_id: str = ""
    secrets: Texts = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ListSnapshotsRequest(Message):
    """List snapshots (of a volume, or one of them), page by page."""

    max_entries: Int32 = 0
    starting_token: str = ""
    source_volume_id: str = ""
    snapshot_id: str = ""
    secrets: Texts = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ListSnapshotsResponse(Message):
    """One page."""

    entries: tuple[SnapshotResponse, ...] = ()
    next_token: str = ""


@dataclass(frozen=True, slots=True)
class ControllerExpandVolumeRequest(Message):
    """Make a volume larger."""

    volume_id: str = ""
    capacity_range: CapacityRange | None = None
    secrets: Texts = field(default_factory=dict, repr=False)
    volume_capability: VolumeCapability | None = None


@dataclass(frozen=True, slots=True)
class ControllerExpandVolumeResponse(Message):
    """Its size now, and whether the node has to do the rest."""

    capacity_bytes: int = 0
    node_expansion_required: bool = False


# The node service


@dataclass(frozen=True, slots=True)
class NodeStageVolumeRequest(Message):
    """Bring a volume to a directory of the node, once for all pods."""

    volume_id: str = ""
    publish_context: Texts = field(default_factory=dict)
    staging_target_path: str = ""
    volume_capability: VolumeCapability | None = None
    secrets: Texts = field(default_factory=dict, repr=False)
    volume_context: Texts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeUnstageVolumeRequest(Message):
    """Undo that."""

    volume_id: str = ""
    staging_target_path: str = ""


@dataclass(frozen=True, slots=True)
class NodePublishVolumeRequest(Message):
    """Bring a volume to where a pod has it."""

    volume_id: str = ""
    publish_context: Texts = field(default_factory=dict)
    staging_target_path: str = ""
    target_path: str = ""
    volume_capability: VolumeCapability | None = None
    readonly: bool = False
    secrets: Texts = field(default_factory=dict, repr=False)
    volume_context: Texts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeUnpublishVolumeRequest(Message):
    """Undo that."""

    volume_id: str = ""
    target_path: str = ""


@dataclass(frozen=True, slots=True)
class NodeGetVolumeStatsRequest(Message):
    """Ask how full a volume is."""

    volume_id: str = ""
    volume_path: str = ""
    staging_target_path: str = ""


@dataclass(frozen=True, slots=True)
class NodeGetVolumeStatsResponse(Message):
    """How full it is, and whether something is wrong."""

    usage: tuple[VolumeUsage, ...] = ()
    volume_condition: VolumeCondition | None = None


@dataclass(frozen=True, slots=True)
class NodeGetInfoResponse(Message):
    """What the driver calls this node, and where it is."""

    node_id: str = ""
    max_volumes_per_node: int = 0
    accessible_topology: Topology | None = None


@dataclass(frozen=True, slots=True)
class NodeExpandVolumeRequest(Message):
    """Do the node's part of making a volume larger."""

    volume_id: str = ""
    volume_path: str = ""
    capacity_range: CapacityRange | None = None
    staging_target_path: str = ""
    volume_capability: VolumeCapability | None = None
    secrets: Texts = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class NodeExpandVolumeResponse(Message):
    """Its size now."""

    capacity_bytes: int = 0


# pluginregistration.v1


@dataclass(frozen=True, slots=True)
class PluginInfo(Message):
    """What a plugin tells a kubelet that finds its socket."""

    type: str = ""
    name: str = ""
    endpoint: str = ""
    supported_versions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RegistrationStatus(Message):
    """Whether the kubelet takes the plugin, and why not."""

    plugin_registered: bool = False
    error: str = ""
