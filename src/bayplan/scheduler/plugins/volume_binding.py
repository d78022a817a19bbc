"""VolumeBinding: bound claims must be reachable from the node; unbound ones must find or get a volume there.

Claims of classes that wait for the first consumer are matched with existing volumes, smallest first, or provisioned
if class, topology and storage capacity allow it. Reserve assumes these matches, so that no other pod gets the volumes;
PreBind writes them, as the volume's `claimRef` or as the claim's selected node, and waits for whoever binds volumes.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bayplan.api.quantity import parse
from bayplan.scheduler.framework.arguments import VolumeBindingArgs
from bayplan.scheduler.framework.events import Action, EventHint
from bayplan.scheduler.framework.extension_points import (
    Actions,
    FilterPlugin,
    PreBindPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    Scope,
    ScorePlugin,
)
from bayplan.scheduler.framework.state import CycleState, Handle, PodInfo, PodShape
from bayplan.scheduler.framework.verdicts import SKIP, ActionError, Codes, Narrow, PluginError, Reject, Skip, Status
from bayplan.scheduler.snapshot.catalog import is_older, object_key
from bayplan.scheduler.snapshot.labels import Ints, Rows
from bayplan.scheduler.snapshot.migration import TranslationError, Translations, in_tree_plugin
from bayplan.scheduler.snapshot.shape import compiled_or_nothing
from bayplan.scheduler.snapshot.volumes import (
    BIND_COMPLETED,
    SELECTED_NODE,
    allows_topology,
    bound_to,
    claim_name,
    class_of_claim,
    class_of_volume,
    ephemeral_problem,
    find_matching,
    is_fully_bound,
    is_reachable,
    matcher_of,
    provisioned_for,
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


@dataclass(slots=True)
class _Plan:
    """What binding a pod's claims on a node takes: existing volumes for some, new ones for the others."""

    matches: list[tuple[PersistentVolume, PersistentVolumeClaim]] = field(default_factory=list)
    provisions: list[PersistentVolumeClaim] = field(default_factory=list)


class VolumeBinding(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, ReservePlugin, PreBindPlugin):
    """Refuses nodes from which a pod's volumes cannot be had."""

    name = "VolumeBinding"
    filter_scope = Scope.NODE
    score_scope = Scope.NODE
    sparse = True
    filter_alone = "not found"

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args = args if isinstance(args, VolumeBindingArgs) else VolumeBindingArgs()
        self._translations = Translations()

    def reads(self, pod: PodShape) -> Hashable | None:
        return None if pod.volumes else ()

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
        claims: _Claims = state.data[self.name]
        if not claims.delayed or self._is_provisioned_anywhere(claims):
            codes = self._filter_bound(claims, rows)
            if codes is not None and (not claims.delayed or not codes.any()):
                return codes
        return np.array([self.filter_row(state, pod, row) for row in self.snapshot.rows_of(rows)], dtype=np.int32)

    def _is_provisioned_anywhere(self, claims: _Claims) -> bool:
        """Whether all claims that wait for a node can get new volumes on any."""
        for claim in claims.delayed:
            class_name = class_of_claim(claim)
            found = self.snapshot.catalog.storage_classes.get(class_name)
            if found is None or SELECTED_NODE in claim.metadata.annotations or claims.candidates[class_name]:
                return False
            if found.provisioner in ("", NO_PROVISIONER) or found.allowed_topologies:
                return False
            driver = self.snapshot.catalog.csi_drivers.get(found.provisioner)
            if driver is not None and driver.spec.storage_capacity:
                return False
        return True

    def _filter_bound(self, claims: _Claims, rows: Rows) -> Codes | None:
        """The verdicts if all claims are bound; None if they depend on more than the volumes' node affinity."""
        missing = self.reasons.code(Status.UNRESOLVABLE, self.name, VOLUME_MISSING)
        conflict = self.reasons.code(Status.UNRESOLVABLE, self.name, NODE_CONFLICT)
        codes = np.zeros(self.snapshot.select(rows), dtype=np.int32)
        for claim in claims.bound:
            volume = self.snapshot.catalog.volumes.get(claim.spec.volume_name)
            if volume is None:
                codes[codes == 0] = missing
                break
            matcher = matcher_of(volume)
            if in_tree_plugin(volume) is not None or (matcher is not None and matcher.has_fields):
                return None
            if matcher is not None:
                codes[(codes == 0) & ~matcher.match(self.snapshot, rows)] = conflict
        return codes

    def filter_row(self, state: CycleState, pod: PodShape, row: int) -> int:
        node = self.snapshot.nodes[row]
        if node is None:
            return 0
        claims: _Claims = state.data[self.name]
        try:
            reasons = self._bound_problems(claims, node)
            if claims.delayed:
                plan = self._plan(claims, node)
                if isinstance(plan, str):
                    reasons.append(plan)
        except (TranslationError, PluginError) as error:
            return self.failed(str(error))
        return self.reasons.code(Status.UNRESOLVABLE, self.name, *reasons) if reasons else 0

    def _bound_problems(self, claims: _Claims, node: Node) -> list[str]:
        for claim in claims.bound:
            volume = self.snapshot.catalog.volumes.get(claim.spec.volume_name)
            if volume is None:
                return [VOLUME_MISSING]
            if not is_reachable(self._on(volume, node), node):
                return [NODE_CONFLICT]
        return []

    def _on(self, volume: PersistentVolume, node: Node) -> PersistentVolume:
        """A bound volume as a node sees it. Raises TranslationError."""
        return self._translations.seen_from(self.snapshot.catalog.csi_nodes.get(node.metadata.name), volume)

    def _plan(self, claims: _Claims, node: Node) -> _Plan | str:
        """How the claims that wait for a node would get their volumes there, or why they cannot."""
        to_match: list[PersistentVolumeClaim] = []
        plan = _Plan()
        for claim in claims.delayed:
            selected = claim.metadata.annotations.get(SELECTED_NODE)
            if selected is None:
                to_match.append(claim)
            elif selected != node.metadata.name:
                return BIND_CONFLICT
            else:
                plan.provisions.append(claim)
        taken: set[str] = set()
        for claim in sorted(to_match, key=requested_size):
            volume = find_matching(claim, claims.candidates[class_of_claim(claim)], node, taken)
            if volume is None:
                plan.provisions.append(claim)
            else:
                taken.add(volume.metadata.name)
                plan.matches.append((volume, claim))
        for claim in plan.provisions:
            problem = self._provision_problem(claim, node)
            if problem:
                return problem
        return plan

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

    # Reserve and PreBind

    def concerns(self, pod: PodShape) -> bool:
        return any(claim_name(pod, volume) is not None for volume in pod.volumes)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Reject | None:
        claims: _Claims | None = state.data.get(self.name)
        row = self.snapshot.row_of.get(node_name)
        node = self.snapshot.nodes[row] if row is not None else None
        if claims is None or not claims.delayed or node is None:
            return None
        plan = self._plan(claims, node)
        if isinstance(plan, str):
            return Reject(Status.UNRESOLVABLE, (plan,))
        plan.matches = [(bound_to(volume, claim), claim) for volume, claim in plan.matches]
        plan.provisions = [provisioned_for(claim, node_name) for claim in plan.provisions]
        for volume, _ in plan.matches:
            self.snapshot.assume_object("PersistentVolume", volume)
        for claim in plan.provisions:
            self.snapshot.assume_object("PersistentVolumeClaim", claim)
        state.own[self.name] = plan
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        plan: _Plan | None = state.own.pop(self.name, None)
        if plan is not None:
            for volume, _ in plan.matches:
                self.snapshot.restore_object("PersistentVolume", object_key(volume))
            for claim in plan.provisions:
                self.snapshot.restore_object("PersistentVolumeClaim", object_key(claim))

    def has_work(self, state: CycleState, pod: PodInfo, node_name: str) -> bool:
        return self.name in state.own

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str, actions: Actions) -> Reject | None:
        plan: _Plan | None = state.own.get(self.name)
        try:
            if plan is not None:
                await self._bind_volumes(plan, pod, node_name, actions)
        except (PluginError, ActionError):
            if self.handle.meter is not None:
                self.handle.meter.volumes_failed("bind")
            raise
        return None

    async def _bind_volumes(self, plan: _Plan, pod: PodInfo, node_name: str, actions: Actions) -> None:
        volumes = [(await actions.update(volume), claim) for volume, claim in plan.matches]
        claims = [await actions.update(claim) for claim in plan.provisions]

        def settled() -> bool:
            node = self._node_of(pod, node_name)
            matched = all(self._is_matched(volume, claim, node) for volume, claim in volumes)
            return matched and all(self._is_provisioned(claim, node) for claim in claims)

        if not await actions.wait_until(settled, self.args.bind_timeout_seconds):
            raise PluginError(self.name, "binding volumes: context deadline exceeded")

    def _failure(self, problem: str) -> PluginError:
        return PluginError(self.name, f"binding volumes: {problem}")

    def _node_of(self, pod: PodInfo, node_name: str) -> Node:
        """The node, as long as it and the pod are there. Raises PluginError."""
        row = self.snapshot.row_of.get(node_name)
        node = self.snapshot.nodes[row] if row is not None else None
        if node is None:
            raise self._failure(f'failed to get node "{node_name}": node "{node_name}" not found')
        known = self.snapshot.pods.get(pod.key)
        if known is None or known.uid != pod.uid:
            raise self._failure(f'pod does not exist any more: pod "{pod.pod.metadata.name}" not found')
        return node

    def _is_matched(self, volume: PersistentVolume, claim: PersistentVolumeClaim, node: Node) -> bool:
        """Whether a volume that was reserved for a claim is bound to it. Raises PluginError if it will not be."""
        name, key = volume.metadata.name, object_key(claim)
        seen = self.snapshot.catalog.actual("PersistentVolume", name)
        if seen is None:
            raise self._failure(f'failed to check binding: could not find v1.PersistentVolume "{name}"')
        current = self.snapshot.catalog.actual("PersistentVolumeClaim", key)
        if current is None:
            raise self._failure(f'failed to check binding: could not find v1.PersistentVolumeClaim "{key}"')
        if is_older(seen, volume):
            return False
        self._check_reachable(seen, node)
        if seen.spec.claim_ref is None or not seen.spec.claim_ref.uid:
            raise self._failure(f'ClaimRef got reset for pv "{name}"')
        return is_fully_bound(current)

    def _is_provisioned(self, claim: PersistentVolumeClaim, node: Node) -> bool:
        """Whether a claim has got its new volume. Raises PluginError if it will not get one."""
        name, key = claim.metadata.name, object_key(claim)
        current = self.snapshot.catalog.actual("PersistentVolumeClaim", key)
        if current is None:
            raise self._failure(f'failed to check provisioning pvc: could not find v1.PersistentVolumeClaim "{key}"')
        if is_older(current, claim):
            return False
        if not current.metadata.annotations:
            raise self._failure(f'selectedNode annotation reset for PVC "{name}"')
        if current.metadata.annotations.get(SELECTED_NODE) != node.metadata.name:
            raise self._failure(f'provisioning failed for PVC "{name}"')
        if current.spec.volume_name:
            volume = self.snapshot.catalog.actual("PersistentVolume", current.spec.volume_name)
            if volume is None:
                return False
            self._check_reachable(volume, node)
        return is_fully_bound(current)

    def _check_reachable(self, volume: PersistentVolume, node: Node) -> None:
        try:
            seen = self._on(volume, node)
        except TranslationError as error:
            raise self._failure(str(error)) from error
        if not is_reachable(seen, node):
            raise self._failure(
                f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{node.metadata.name}": '
                "no matching NodeSelectorTerms"
            )

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
    return ephemeral_problem(pod, volume, claim)


def _is_own_claim(pod: PodInfo, old: Any, new: Any) -> bool:
    names = {claim_name(pod.shape, volume) for volume in pod.shape.volumes}
    return new.metadata.namespace == pod.shape.namespace and new.metadata.name in names
