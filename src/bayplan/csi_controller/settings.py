"""Settings of the storage controllers, under the names of the sidecars' flags."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CsiControllerSettings:
    """How the controllers of one driver work. All times are in seconds."""

    timeout: float = 15.0
    """How long a call of the driver may take."""
    worker_threads: int = 10
    """Objects of a kind that are worked on at once."""
    retry_interval_start: float = 1.0
    """Before the second try of something that failed; it doubles each time."""
    retry_interval_max: float = 300.0
    """The longest such time."""
    volume_name_prefix: str = "pvc"
    """Beginning of the names of volumes; the uid of the claim follows."""
    snapshot_name_prefix: str = "snapshot"
    """Beginning of the names of snapshots; the uid of the VolumeSnapshot follows."""
    default_fstype: str = ""
    """File system of volumes whose class names none."""
    extra_create_metadata: bool = False
    """Whether the driver is told the names of claim and volume."""
    strict_topology: bool = False
    """Whether the driver is told of the selected node's topology only, rather than of all that would do."""
    immediate_topology: bool = True
    """Whether the driver is told of all topologies for claims that are bound at once."""
    node_deployment: bool = False
    """Whether there is one instance on each node, for the volumes of that node."""
    node_name: str = ""
    """The node on which this instance runs, for `node_deployment`."""
    immediate_binding: bool = True
    """Whether instances on nodes also take claims that are bound at once."""
    node_deployment_base_delay: float = 20.0
    """Up to how long an instance waits, by chance, before it takes such a claim: so that all get some."""
    enable_capacity: bool = False
    """Whether the cluster is told how much room there is (CSIStorageCapacity)."""
    capacity_poll_interval: float = 60.0
    """Between two looks at the room."""
    capacity_for_immediate_binding: bool = False
    """Whether that is also told for classes that bind at once."""
    namespace: str = "default"
    """Where CSIStorageCapacity objects, and the pod of this process, are."""
    pod_name: str = ""
    """The pod of this process, for the owner of these objects."""
    capacity_ownerref_level: int = 1
    """Who owns them: 0 the pod, 1 its owner, 2 the owner's owner, -1 nobody."""
    handle_volume_inuse_error: bool = True
    """Whether expansion waits until nobody uses the volume, once the driver has refused it for that."""
    retry_infeasible: float = 300.0
    """Before a change that cannot be done is tried again."""
    volume_attributes_class: bool = True
    """Whether volumes are modified by VolumeAttributesClass."""
    snapshots: bool = True
    """Whether VolumeSnapshots are taken, once their definitions are there."""
