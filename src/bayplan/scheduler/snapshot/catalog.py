"""Objects besides nodes and pods that bear on scheduling: volumes, workloads, namespaces, disruption budgets.

One table per kind, keyed by `namespace/name` or `name`. `version` changes with every change, so that whoever compiled
something from these objects knows when to do it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from bayplan.api.types.apps_v1 import ReplicaSet, StatefulSet
    from bayplan.api.types.core_v1 import (
        Namespace,
        PersistentVolume,
        PersistentVolumeClaim,
        ReplicationController,
        Service,
    )
    from bayplan.api.types.policy_v1 import PodDisruptionBudget
    from bayplan.api.types.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
    from bayplan.api.types.storage_v1 import CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment

KINDS: Final = {
    "Service": "services",
    "ReplicaSet": "replica_sets",
    "StatefulSet": "stateful_sets",
    "ReplicationController": "replication_controllers",
    "Namespace": "namespaces",
    "PersistentVolume": "volumes",
    "PersistentVolumeClaim": "claims",
    "StorageClass": "storage_classes",
    "CSINode": "csi_nodes",
    "CSIDriver": "csi_drivers",
    "CSIStorageCapacity": "csi_capacities",
    "VolumeAttachment": "volume_attachments",
    "PodDisruptionBudget": "disruption_budgets",
    "ResourceClaim": "resource_claims",
    "ResourceSlice": "resource_slices",
    "DeviceClass": "device_classes",
}
"""Kind -> table."""


def object_key(obj: Any) -> str:
    """`namespace/name`, or `name` for cluster-scoped objects."""
    metadata = obj.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else str(metadata.name)


class Catalog:
    """The tables. Objects are shared and never changed."""

    def __init__(self) -> None:
        self.version = 0
        self.services: dict[str, Service] = {}
        self.replica_sets: dict[str, ReplicaSet] = {}
        self.stateful_sets: dict[str, StatefulSet] = {}
        self.replication_controllers: dict[str, ReplicationController] = {}
        self.namespaces: dict[str, Namespace] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.claims: dict[str, PersistentVolumeClaim] = {}
        self.storage_classes: dict[str, StorageClass] = {}
        self.csi_nodes: dict[str, CSINode] = {}
        self.csi_drivers: dict[str, CSIDriver] = {}
        self.csi_capacities: dict[str, CSIStorageCapacity] = {}
        self.volume_attachments: dict[str, VolumeAttachment] = {}
        self.disruption_budgets: dict[str, PodDisruptionBudget] = {}
        self.resource_claims: dict[str, ResourceClaim] = {}
        self.resource_slices: dict[str, ResourceSlice] = {}
        self.device_classes: dict[str, DeviceClass] = {}

    def put(self, kind: str, obj: Any) -> None:
        """Store a new or changed object. KeyError for a kind that is not kept here."""
        getattr(self, KINDS[kind])[object_key(obj)] = obj
        self.version += 1

    def remove(self, kind: str, key: str) -> None:
        """Forget an object, if it is known. KeyError for a kind that is not kept here."""
        if getattr(self, KINDS[kind]).pop(key, None) is not None:
            self.version += 1

    def namespace_labels(self, name: str) -> dict[str, str]:
        """The labels of a namespace; none if it is unknown."""
        namespace = self.namespaces.get(name)
        return namespace.metadata.labels if namespace is not None else {}
