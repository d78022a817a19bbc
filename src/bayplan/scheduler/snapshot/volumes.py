"""Which persistent volumes a claim can be bound to, by the rules of `k8s.io/component-helpers/storage/volume`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from bayplan.api.quantity import Quantity, parse
from bayplan.api.types.core_v1 import ObjectReference
from bayplan.scheduler.snapshot.catalog import is_controlled_by
from bayplan.scheduler.snapshot.node_selector import NodeAffinityMatcher
from bayplan.scheduler.snapshot.resources import ZERO
from bayplan.scheduler.snapshot.shape import compiled_or_nothing
from bayplan.support.memory.memo import Memo

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Node, NodeSelector, PersistentVolume, PersistentVolumeClaim, Volume
    from bayplan.api.types.storage_v1 import StorageClass
    from bayplan.scheduler.snapshot.shape import PodShape

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"


def claim_name(pod: PodShape, volume: Volume) -> str | None:
    """The name of the claim behind a volume, an ephemeral one included; None if there is none."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.name}-{volume.name}" if volume.ephemeral is not None else None


def class_of_claim(claim: PersistentVolumeClaim) -> str:
    """The storage class that a claim asks for; the old annotation wins."""
    annotated = claim.metadata.annotations.get(BETA_CLASS)
    return annotated if annotated is not None else claim.spec.storage_class_name or ""


def class_of_volume(volume: PersistentVolume) -> str:
    """The storage class of a volume; the old annotation wins."""
    annotated = volume.metadata.annotations.get(BETA_CLASS)
    return annotated if annotated is not None else volume.spec.storage_class_name


def requested_size(claim: PersistentVolumeClaim) -> Quantity:
    """How much a claim asks for; zero if it does not say."""
    wanted = claim.spec.resources.requests.get("storage")
    return parse(wanted) if wanted is not None else ZERO


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is reserved for this very claim."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.namespace, reference.name) == (claim.metadata.namespace, claim.metadata.name)
        and reference.uid in ("", claim.metadata.uid)
    )


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether claim and volume know of each other."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume, reserved for the claim; the same object if it is already."""
    reference, metadata = volume.spec.claim_ref, claim.metadata
    if reference is None or (reference.namespace, reference.name, reference.uid) != (
        metadata.namespace,
        metadata.name,
        metadata.uid,
    ):
        reference = ObjectReference(
            kind="PersistentVolumeClaim",
            api_version="v1",
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
        )
    annotations = volume.metadata.annotations
    if not is_bound_to(volume, claim) and BOUND_BY_CONTROLLER not in annotations:
        annotations = annotations | {BOUND_BY_CONTROLLER: "yes"}
    if reference is volume.spec.claim_ref and annotations is volume.metadata.annotations:
        return volume
    return replace(
        volume,
        metadata=replace(volume.metadata, annotations=annotations),
        spec=replace(volume.spec, claim_ref=reference),
    )


def provisioned_for(claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
    """The claim, telling its provisioner the node for which it wants a volume."""
    annotations = claim.metadata.annotations | {SELECTED_NODE: node_name}
    return replace(claim, metadata=replace(claim.metadata, annotations=annotations))


def ephemeral_problem(pod: PodShape, volume: Volume, claim: PersistentVolumeClaim) -> str:
    """Why the claim of an ephemeral volume is not that of its pod; empty if it is, and for other volumes."""
    if volume.ephemeral is None or is_controlled_by(claim, pod.uid):
        return ""
    place = f"{pod.namespace}/{claim.metadata.name} was not created for pod {pod.namespace}/{pod.name}"
    return f"PVC {place} (pod is not owner)"


def is_reachable(volume: PersistentVolume, node: Node) -> bool:
    """Whether the volume's node affinity lets the node use it."""
    matcher = matcher_of(volume)
    return matcher is None or matcher.match_labels(node.metadata.labels, "")


def matcher_of(volume: PersistentVolume) -> NodeAffinityMatcher | None:
    """The volume's node affinity, compiled once for as long as the volume stays the same; None without one."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return None
    known = _matchers.get(id(affinity.required))
    if known is not None and known[0] is affinity.required:
        return known[1]
    matcher = NodeAffinityMatcher({}, affinity.required)
    _matchers.put(id(affinity.required), (affinity.required, matcher), _MATCHER_BYTES)
    return matcher


_MATCHER_BYTES: Final = 1000
_matchers: Final[Memo[int, tuple[NodeSelector, NodeAffinityMatcher]]] = Memo(
    "volume_node_affinity", most_bytes=128 << 20
)
"""By identity of the selector, which is kept so that no other can take its place."""


def _mode(mode: str | None) -> str:
    return mode or "Filesystem"


def _is_candidate(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    if volume.spec.claim_ref is not None and not is_bound_to(volume, claim):
        return False
    size = volume.spec.capacity.get("storage")
    if (parse(size) if size is not None else ZERO) < requested_size(claim):
        return False
    if _mode(volume.spec.volume_mode) != _mode(claim.spec.volume_mode):
        return False
    if (volume.spec.volume_attributes_class_name or "") != (claim.spec.volume_attributes_class_name or ""):
        return False
    return volume.metadata.deletion_timestamp is None


def find_matching(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume], node: Node, taken: set[str]
) -> PersistentVolume | None:
    """The volume that an unbound claim would get on a node: one reserved for it, else the smallest that will do."""
    selector = compiled_or_nothing(claim.spec.selector) if claim.spec.selector is not None else None
    best: PersistentVolume | None = None
    best_size = ZERO
    for volume in volumes:
        if volume.metadata.name in taken or not _is_candidate(volume, claim):
            continue
        reachable = is_reachable(volume, node)
        if is_bound_to(volume, claim):
            return volume if reachable else None
        if (
            volume.status.phase != "Available"
            or (selector is not None and not selector.matches(volume.metadata.labels))
            or class_of_volume(volume) != class_of_claim(claim)
            or not reachable
            or not set(claim.spec.access_modes) <= set(volume.spec.access_modes)
        ):
            continue
        size = parse(volume.spec.capacity["storage"]) if "storage" in volume.spec.capacity else ZERO
        if best is None or size < best_size:
            best, best_size = volume, size
    return best


def allows_topology(storage_class: StorageClass, node: Node) -> bool:
    """Whether a class may provision for a node; without allowed topologies it may everywhere."""
    terms = storage_class.allowed_topologies
    if not terms:
        return True
    labels = node.metadata.labels
    return any(
        bool(term.match_label_expressions)
        and all(item.key in labels and labels[item.key] in item.values for item in term.match_label_expressions)
        for term in terms
    )
