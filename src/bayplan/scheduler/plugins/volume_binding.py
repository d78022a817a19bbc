"""VolumeBinding: bound claims must be reachable from the node; unbound ones must find or get a volume there.

Claims of classes that wait for the first consumer are matched with existing volumes, smallest first, or provisioned
if class, topology and storage capacity allow it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bayplan.api.quantity import parse
from bayplan.scheduler.framework.arguments import VolumeBindingArgs
from bayplan.scheduler.framework.events import Action, EventHint
from bayplan.scheduler.framework.extension_points import (
    FilterPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Scope,
    ScorePlugin,
)
from bayplan.scheduler.framework.state import CycleState, Handle, PodInfo, PodShape
from bayplan.scheduler.framework.verdicts import SKIP, Codes, Narrow, PluginError, Reject, Skip, Status
from bayplan.scheduler.snapshot.labels import Ints, Rows
from bayplan.scheduler.snapshot.migration import allows_zone
from bayplan.scheduler.snapshot.shape import compiled_or_nothing
from bayplan.scheduler.snapshot.volumes import (
    BIND_COMPLETED,
    SELECTED_NODE,
    allows_topology,
    class_of_claim,
    class_of_volume,
    find_matching,
    is_reachable,
    requested_size,
)

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Volume
    from bayplan.api.types.storage_v1 import StorageClass

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
NODE_CONFLICT: Final = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT: Final = "node(s) didn't find available persistent volumes to bind"
NOT_ENOUGH_SPACE: Final = "node(s) did not have enough free storage"
VOLUME_MISSING: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


@dataclass(slots=True)
class _Claims:
    """A pod's claims: bound to a volume, waiting for a node, and unbound although they should be bound at once."""

    bound: list[PersistentVolumeClaim] = field(default_factory=list)
    delayed: list[PersistentVolumeClaim] = field(default_factory=list)
    immediate: list[PersistentVolumeClaim] = field(default_factory=list)
    candidates: dict[str, list[PersistentVolume]] = field(default_factory=dict)
    """Storage class -> its volumes, smallest name first."""


class VolumeBinding(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Refuses nodes from which a pod's volumes cannot be had."""

    name = "VolumeBinding"
    filter_scope = Scope.NODE
    score_scope = Scope.NODE
    sparse = True

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args = args if isinstance(args, VolumeBindingArgs) else VolumeBindingArgs()

    def pre_filter(self, state: CycleState, pod: PodShape) -> Skip | Narrow | Reject | None:
        claims = _Claims()
        names = [(volume, name) for volume in pod.volumes if (name := claim_name(pod, volume)) is not None]
        if not names:
            return SKIP
        for volume, name in names:
            claim = self.snapshot.catalog.claims.get(f"{pod.namespace}/{name}")
            problem = _problem(pod, volume, name, claim)
            if problem or claim is None:
                return Reject(Status.UNRESOLVABLE, (problem,))
            self._sort_in(claim, claims)
        if claims.immediate:
            return Reject(Status.UNRESOLVABLE, ("pod has unbound immediate PersistentVolumeClaims",))
        for class_name in {class_of_claim(claim) for claim in claims.delayed}:
            volumes = [item for item in self.snapshot.catalog.volumes.values() if class_of_volume(item) == class_name]
            claims.candidates[class_name] = sorted(volumes, key=lambda item: item.metadata.name)
        state.data[self.name] = claims
        return None

    def _sort_in(self, claim: PersistentVolumeClaim, claims: _Claims) -> None:
        if claim.spec.volume_name:
            bound = BIND_COMPLETED in claim.metadata.annotations
            (claims.bound if bound else claims.immediate).append(claim)
            return
        storage_class = self.snapshot.catalog.storage_classes.get(class_of_claim(claim))
        delayed = storage_class is not None and storage_class.volume_binding_mode == "WaitForFirstConsumer"
        (claims.delayed if delayed else claims.immediate).append(claim)

    # Filter

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        return np.array([self.filter_row(state, pod, row) for row in self.snapshot.rows_of(rows)], dtype=np.int32)

    def filter_row(self, state: CycleState, pod: PodShape, row: int) -> int:
        node = self.snapshot.nodes[row]
        if node is None:
            return 0
        claims: _Claims = state.data[self.name]
        reasons = [*self._bound_problems(claims, node), *self._unbound_problems(claims, node)]
        return self.reasons.code(Status.UNRESOLVABLE, self.name, *reasons) if reasons else 0

    def _bound_problems(self, claims: _Claims, node: Node) -> list[str]:
        for claim in claims.bound:
            volume = self.snapshot.catalog.volumes.get(claim.spec.volume_name)
            if volume is None:
                return [VOLUME_MISSING]
            csi_node = self.snapshot.catalog.csi_nodes.get(node.metadata.name)
            if not is_reachable(volume, node) or not allows_zone(volume, node.metadata.labels, csi_node):
                return [NODE_CONFLICT]
        return []

    def _unbound_problems(self, claims: _Claims, node: Node) -> list[str]:
        to_match: list[PersistentVolumeClaim] = []
        to_provision: list[PersistentVolumeClaim] = []
        for claim in claims.delayed:
            selected = claim.metadata.annotations.get(SELECTED_NODE)
            if selected is None:
                to_match.append(claim)
            elif selected != node.metadata.name:
                return [BIND_CONFLICT]
            else:
                to_provision.append(claim)
        taken: set[str] = set()
        for claim in sorted(to_match, key=requested_size):
            volume = find_matching(claim, claims.candidates[class_of_claim(claim)], node, taken)
            if volume is None:
                to_provision.append(claim)
            else:
                taken.add(volume.metadata.name)
        for claim in to_provision:
            problem = self._provision_problem(claim, node)
            if problem:
                return [problem]
        return []

    def _provision_problem(self, claim: PersistentVolumeClaim, node: Node) -> str:
        class_name = class_of_claim(claim)
        storage_class = self.snapshot.catalog.storage_classes.get(class_name)
        if storage_class is None:
            raise PluginError(self.name, f'failed to find storage class "{class_name}"')
        if storage_class.provisioner in ("", NO_PROVISIONER) or not allows_topology(storage_class, node):
            return BIND_CONFLICT
        return "" if self._has_capacity(claim, storage_class, node) else NOT_ENOUGH_SPACE

    def _has_capacity(self, claim: PersistentVolumeClaim, storage_class: StorageClass, node: Node) -> bool:
        """Whether the driver, if it reports capacities, reports enough for the node."""
        catalog = self.snapshot.catalog
        driver = catalog.csi_drivers.get(storage_class.provisioner)
        if "storage" not in claim.spec.resources.requests or driver is None or not driver.spec.storage_capacity:
            return True
        size = requested_size(claim).value()
        for item in catalog.csi_capacities.values():
            limit = item.maximum_volume_size if item.maximum_volume_size is not None else item.capacity
            if item.storage_class_name != storage_class.metadata.name or limit is None or parse(limit).value() < size:
                continue
            if item.node_topology is not None and compiled_or_nothing(item.node_topology).matches(node.metadata.labels):
                return True
        return False

    # Score: by free storage capacity, which is off by default in Kubernetes (feature StorageCapacityScoring)

    def pre_score(self, state: CycleState, pod: PodShape, feasible: Rows) -> Skip | None:
        return SKIP

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        return np.zeros(self.snapshot.select(rows), dtype=np.int64)

    # Hints

    def events(self) -> tuple[EventHint, ...]:
        changes = Action.ADD | Action.UPDATE
        return (
            EventHint("StorageClass", changes),
            EventHint("PersistentVolumeClaim", changes, _is_own_claim),
            EventHint("PersistentVolume", changes),
            EventHint("Node", Action.ADD | Action.NODE_LABEL),
            EventHint("CSINode", changes),
            EventHint("CSIDriver", Action.UPDATE),
            EventHint("CSIStorageCapacity", changes),
        )


def claim_name(pod: PodShape, volume: Volume) -> str | None:
    """The name of the claim behind a volume, None if there is none."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.name}-{volume.name}" if volume.ephemeral is not None else None


def _problem(pod: PodShape, volume: Volume, name: str, claim: PersistentVolumeClaim | None) -> str:
    """Why a claim keeps its pod from being scheduled anywhere; empty if it does not."""
    if claim is None:
        if volume.ephemeral is not None:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        return f'persistentvolumeclaim "{name}" not found'
    if claim.status.phase == "Lost":
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.spec.volume_name}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if volume.ephemeral is not None and not any(
        owner.controller and owner.uid == pod.uid for owner in claim.metadata.owner_references
    ):
        place = f"{pod.namespace}/{name} was not created for pod {pod.namespace}/{pod.name}"
        return f"PVC {place} (pod is not owner)"
    return ""


def _is_own_claim(pod: PodInfo, old: Any, new: Any) -> bool:
    names = {claim_name(pod.shape, volume) for volume in pod.shape.volumes}
    return new.metadata.namespace == pod.shape.namespace and new.metadata.name in names
