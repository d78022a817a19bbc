"""Objects besides nodes and pods that bear on scheduling: volumes, workloads, namespaces, disruption budgets.

One table per kind, keyed by `namespace/name` or `name`. `version` changes with every change, so that whoever compiled
something from these objects knows when to do it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bayplan.scheduler.snapshot.custom_groups import GroupQueue
from bayplan.scheduler.snapshot.group_trees import CompositeGroup, GroupTrees, NewerPodGroup
from bayplan.scheduler.snapshot.pending_allocations import PendingAllocations

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
    from bayplan.api.types.resource_v1alpha3 import DeviceTaintRule
    from bayplan.api.types.scheduling_v1alpha2 import PodGroup
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
    "DeviceTaintRule": "device_taint_rules",
    "PodGroup": "pod_groups",
}
"""Kind -> table."""


def object_key(obj: Any) -> str:
    """`namespace/name`, or `name` for cluster-scoped objects."""
    metadata = obj.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else str(metadata.name)


def is_older(obj: Any, other: Any) -> bool:
    """Whether an object is an earlier state than another of the same object; without versions it never is."""
    mine, theirs = obj.metadata.resource_version, other.metadata.resource_version
    return mine.isdecimal() and theirs.isdecimal() and int(mine) < int(theirs)


def is_controlled_by(obj: Any, uid: str) -> bool:
    """Whether what has this UID controls an object."""
    return any(owner.controller and owner.uid == uid for owner in obj.metadata.owner_references)


class Catalog:
    """The tables. Objects are shared and never changed.

    An object can be *assumed* to be different, by a scheduler that has decided to change it. The assumption hides what
    the API server says until a newer state of the object is seen, or the assumption is taken back.
    """

    def __init__(self) -> None:
        self.version = 0
        self.versions: dict[str, int] = {}
        """As `version`, per kind that was ever here."""
        self._actual: dict[tuple[str, str], Any] = {}
        """What assumed objects really are, as far as seen."""
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
        self.device_taint_rules: dict[str, DeviceTaintRule] = {}
        self.pending_allocations = PendingAllocations()
        self.pod_groups: dict[str, PodGroup] = {}
        self.trees = GroupTrees()
        """Composite groups over the pod groups."""
        self.queues: dict[str, GroupQueue] | None = None
        """Queues of custom pod groups; None where there are none."""

    def put(self, kind: str, obj: Any) -> None:
        """Store a new or changed object. KeyError for a kind that is not kept here."""
        table, key = getattr(self, KINDS[kind]), object_key(obj)
        if self._actual and (kind, key) in self._actual:
            known = self._actual[kind, key]
            if is_older(obj, known) or obj.metadata.resource_version == known.metadata.resource_version != "":
                return
            del self._actual[kind, key]
        table[key] = obj
        if isinstance(obj, NewerPodGroup):
            self.trees.put_group(key, obj.parent)
        self._changed(kind)

    def remove(self, kind: str, key: str) -> None:
        """Forget an object, if it is known. KeyError for a kind that is not kept here."""
        self._actual.pop((kind, key), None)
        gone = getattr(self, KINDS[kind]).pop(key, None)
        if isinstance(gone, NewerPodGroup):
            self.trees.put_group(key, "")
        if gone is not None:
            self._changed(kind)

    def _changed(self, kind: str) -> None:
        self.version += 1
        self.versions[kind] = self.versions.get(kind, 0) + 1

    def assume(self, kind: str, obj: Any) -> None:
        """Take an object to be as given. KeyError if it is not known."""
        table, key = getattr(self, KINDS[kind]), object_key(obj)
        self._actual.setdefault((kind, key), table[key])
        table[key] = obj
        self.version += 1

    def restore(self, kind: str, key: str) -> None:
        """Take an assumption back; harmless if there is none any more."""
        actual = self._actual.pop((kind, key), None)
        if actual is not None:
            getattr(self, KINDS[kind])[key] = actual
            self.version += 1

    def actual(self, kind: str, key: str) -> Any:
        """An object as the API server has it, as far as seen; None if it is not known."""
        actual = self._actual.get((kind, key))
        return actual if actual is not None else getattr(self, KINDS[kind]).get(key)

    def put_composite(self, key: str, composite: CompositeGroup | None) -> None:
        """Keep a composite group; None if it is gone."""
        if composite is not None:
            self.trees.put(composite)
        else:
            self.trees.remove(key)
        self.version += 1

    def put_queue(self, name: str, queue: GroupQueue | None) -> None:
        """Keep a queue of custom pod groups; None if it is gone."""
        if self.queues is None:
            self.queues = {}
        if queue is not None:
            self.queues[name] = queue
        else:
            self.queues.pop(name, None)
        self.version += 1

    def namespace_labels(self, name: str) -> dict[str, str]:
        """The labels of a namespace; none if it is unknown."""
        namespace = self.namespaces.get(name)
        return namespace.metadata.labels if namespace is not None else {}
