"""Volumes and claims: which volume a claim gets, what each looks like when they belong together, and what becomes of a volume whose claim is gone. Pure.

A pair is bound in four steps, each of which can be repeated after a crash: the volume names the claim, the volume's phase follows, the claim names the volume,
the claim's phase follows.

Source of the behaviour: kube-controller-manager's persistentvolume-binder-controller.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bayplan.api.quantity import Quantity, parse
from bayplan.api.selectors.labels import compile_selector
from bayplan.api.strategies.base import clone
from bayplan.api.types import core_v1, storage_v1

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
OLD_PROVISIONER: Final = "volume.beta.kubernetes.io/storage-provisioner"
CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_YES = "yes"
_ZERO = Quantity(0)


def class_of_claim(claim: core_v1.PersistentVolumeClaim) -> str:
    """The storage class that a claim names; the old annotation goes first."""
    annotation = claim.metadata.annotations.get(CLASS_ANNOTATION)
    return annotation if annotation is not None else claim.spec.storage_class_name or ""


def class_of_volume(volume: core_v1.PersistentVolume) -> str:
    """The same for a volume."""
    annotation = volume.metadata.annotations.get(CLASS_ANNOTATION)
    return annotation if annotation is not None else volume.spec.storage_class_name


def requested(claim: core_v1.PersistentVolumeClaim) -> Quantity:
    """How much storage a claim asks for."""
    value = claim.spec.resources.requests.get("storage")
    return _ZERO if value is None else parse(value)


def capacity(volume: core_v1.PersistentVolume) -> Quantity:
    """How much storage a volume has."""
    value = volume.spec.capacity.get("storage")
    return _ZERO if value is None else parse(value)


def is_meant_for(volume: core_v1.PersistentVolume, claim: core_v1.PersistentVolumeClaim) -> bool:
    """Whether a volume names a claim: by name, and by uid if it has one."""
    reference = volume.spec.claim_ref
    if reference is None:
        return False
    metadata = claim.metadata
    same = (reference.namespace, reference.name) == (metadata.namespace, metadata.name)
    return same and reference.uid in ("", metadata.uid)


def waits_for_consumer(claim: core_v1.PersistentVolumeClaim, storage_class: storage_v1.StorageClass | None) -> bool:
    """Whether a claim is bound only once the scheduler has chosen a node."""
    if storage_class is None or storage_class.volume_binding_mode != "WaitForFirstConsumer":
        return False
    return SELECTED_NODE not in claim.metadata.annotations


def fits(volume: core_v1.PersistentVolume, claim: core_v1.PersistentVolumeClaim) -> bool:
    """Whether a volume that nobody has could serve a claim."""
    spec, wanted = volume.spec, claim.spec
    return (
        volume.status.phase == "Available"
        and spec.claim_ref is None
        and (spec.volume_mode or "Filesystem") == (wanted.volume_mode or "Filesystem")
        and class_of_volume(volume) == class_of_claim(claim)
        and set(wanted.access_modes) <= set(spec.access_modes)
        and (spec.volume_attributes_class_name or "") == (wanted.volume_attributes_class_name or "")
        and (wanted.selector is None or compile_selector(wanted.selector).matches(volume.metadata.labels))
        and capacity(volume) >= requested(claim)
    )


def best_match(
    claim: core_v1.PersistentVolumeClaim, volumes: Iterable[core_v1.PersistentVolume], *, delayed: bool
) -> core_v1.PersistentVolume | None:
    """The volume for a claim: one that names it, else the smallest that fits; with delayed binding only the former."""
    best: core_v1.PersistentVolume | None = None
    for volume in volumes:
        if volume.metadata.deletion_timestamp:
            continue
        if is_meant_for(volume, claim):
            same_mode = (volume.spec.volume_mode or "Filesystem") == (claim.spec.volume_mode or "Filesystem")
            if same_mode and capacity(volume) >= requested(claim):
                return volume
        elif not delayed and fits(volume, claim):
            smaller = best is None or (capacity(volume), volume.metadata.name) < (capacity(best), best.metadata.name)
            best = volume if smaller else best
    return best


def claimed_volume(volume: core_v1.PersistentVolume, claim: core_v1.PersistentVolumeClaim) -> core_v1.PersistentVolume:
    """The volume with the claim's name in it; the same one if it has it already."""
    reference = volume.spec.claim_ref
    if reference is not None and reference.uid == claim.metadata.uid and is_meant_for(volume, claim):
        return volume
    changed: core_v1.PersistentVolume = clone(volume)
    if not is_meant_for(volume, claim):
        annotations = {**changed.metadata.annotations, BOUND_BY_CONTROLLER: _YES}
        changed.metadata.annotations = annotations
    changed.spec.claim_ref = core_v1.ObjectReference(
        kind="PersistentVolumeClaim",
        api_version="v1",
        namespace=claim.metadata.namespace,
        name=claim.metadata.name,
        uid=claim.metadata.uid,
        resource_version=claim.metadata.resource_version,
    )
    return changed


def bound_claim(
    claim: core_v1.PersistentVolumeClaim, volume: core_v1.PersistentVolume
) -> core_v1.PersistentVolumeClaim:
    """The claim with the volume's name in it; the same one if it has it already."""
    annotations = dict(claim.metadata.annotations)
    if claim.spec.volume_name != volume.metadata.name:
        annotations[BOUND_BY_CONTROLLER] = _YES
    annotations[BIND_COMPLETED] = _YES
    if claim.spec.volume_name == volume.metadata.name and annotations == claim.metadata.annotations:
        return claim
    changed: core_v1.PersistentVolumeClaim = clone(claim)
    changed.metadata.annotations = annotations
    changed.spec.volume_name = volume.metadata.name
    return changed


def bound_status(
    claim: core_v1.PersistentVolumeClaim, volume: core_v1.PersistentVolume
) -> core_v1.PersistentVolumeClaimStatus:
    """The status of a bound claim. Once it has a capacity, only an expansion changes that."""
    status: core_v1.PersistentVolumeClaimStatus = clone(claim.status)
    if status.phase != "Bound" or not status.capacity:
        status.capacity = dict(volume.spec.capacity)
    status.phase, status.access_modes = "Bound", volume.spec.access_modes
    name = volume.spec.volume_attributes_class_name
    if name:
        status.current_volume_attributes_class_name = name
    return status


def freed_volume(volume: core_v1.PersistentVolume) -> core_v1.PersistentVolume:
    """A volume that is not its claim's any more: one that was bound by the controller forgets the claim, one that a person bound only its uid."""
    changed: core_v1.PersistentVolume = clone(volume)
    if changed.metadata.annotations.get(BOUND_BY_CONTROLLER):
        annotations = dict(changed.metadata.annotations)
        del annotations[BOUND_BY_CONTROLLER]
        changed.metadata.annotations, changed.spec.claim_ref = annotations, None
    elif changed.spec.claim_ref is not None:
        changed.spec.claim_ref.uid = changed.spec.claim_ref.resource_version = ""
    return changed


def local_volume(
    claim: core_v1.PersistentVolumeClaim, storage_class: storage_v1.StorageClass, provisioner: str, root: str
) -> core_v1.PersistentVolume:
    """A new volume on the node that was chosen for a claim (on any, if none was), below the directory `root`."""
    name = f"pvc-{claim.metadata.uid}"
    node = claim.metadata.annotations.get(SELECTED_NODE, "")
    requirement = core_v1.NodeSelectorRequirement(key="kubernetes.io/hostname", operator="In", values=(node,))
    term = core_v1.NodeSelectorTerm(match_expressions=(requirement,))
    affinity = core_v1.VolumeNodeAffinity(required=core_v1.NodeSelector(node_selector_terms=(term,)))
    volume = core_v1.PersistentVolume()
    volume.metadata.name = name
    volume.metadata.annotations = {PROVISIONED_BY: provisioner}
    path = f"{root}/{name}_{claim.metadata.namespace}_{claim.metadata.name}"
    volume.spec = core_v1.PersistentVolumeSpec(
        capacity={"storage": str(requested(claim))},
        access_modes=claim.spec.access_modes,
        host_path=core_v1.HostPathVolumeSource(path=path, type="DirectoryOrCreate"),
        persistent_volume_reclaim_policy=storage_class.reclaim_policy or "Delete",
        storage_class_name=storage_class.metadata.name,
        mount_options=storage_class.mount_options,
        volume_mode=claim.spec.volume_mode,
        node_affinity=affinity if node else None,
        volume_attributes_class_name=claim.spec.volume_attributes_class_name,
    )
    return claimed_volume(volume, claim)
