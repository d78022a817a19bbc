"""The claims of a StatefulSet's pods: how they are made, and with whom they go. Pure functions over typed objects.

Source: the rules of kube-controller-manager's StatefulSet controller (`stateful_set_utils.go`).
"""

from __future__ import annotations

from bayplan.api.strategies.base import clone
from bayplan.api.types import apps_v1, core_v1, meta_v1
from bayplan.controllers.base import owner_reference

Owners = tuple[meta_v1.OwnerReference, ...]

_SET: tuple[str, str] = ("apps/v1", "StatefulSet")
_POD: tuple[str, str] = ("v1", "Pod")
_RETAINED = apps_v1.StatefulSetPersistentVolumeClaimRetentionPolicy(when_deleted="Retain", when_scaled="Retain")


def claim_name(template: core_v1.PersistentVolumeClaim, pod_name: str) -> str:
    """The claim of a pod from one of the set's templates."""
    return f"{template.metadata.name}-{pod_name}"


def claims_of(one: apps_v1.StatefulSet, pod_name: str) -> list[core_v1.PersistentVolumeClaim]:
    """New claims of a pod that is wanted."""
    made = []
    for template in one.spec.volume_claim_templates:
        claim: core_v1.PersistentVolumeClaim = clone(template)
        labels = one.spec.selector.match_labels if one.spec.selector is not None else {}
        claim.metadata.name = claim_name(template, pod_name)
        claim.metadata.namespace = one.metadata.namespace
        claim.metadata.labels = {**claim.metadata.labels, **labels}
        claim.metadata.owner_references = _wanted(one, None, condemned=False)
        claim.status = core_v1.PersistentVolumeClaimStatus()
        made.append(claim)
    return made


def claim_owners(
    one: apps_v1.StatefulSet, claim: core_v1.PersistentVolumeClaim, pod: core_v1.Pod, *, condemned: bool
) -> Owners:
    """The owners that a claim should have. One that still belongs to an earlier set or pod of the name is left as it is, for the garbage collector; one
    that somebody else controls gets none of ours; else the retention policy says."""
    owners = claim.metadata.owner_references
    if _is_stale(claim, one, _SET) or _is_stale(claim, pod, _POD):
        return owners
    others = tuple(owner for owner in owners if not _is_ours(owner, one, pod))
    if has_conflict(one, claim, pod):
        return others
    wanted = _wanted(one, pod, condemned=condemned)
    held = [(owner.uid, bool(owner.controller)) for owner in owners if _is_ours(owner, one, pod)]
    return owners if held == [(owner.uid, True) for owner in wanted] else (*others, *wanted)


def has_conflict(one: apps_v1.StatefulSet, claim: core_v1.PersistentVolumeClaim, pod: core_v1.Pod) -> bool:
    """Whether a claim about which the policy says something has another controller."""
    policy = _policy(one)
    if policy.when_scaled == policy.when_deleted == "Retain":
        return False
    uids = (one.metadata.uid, pod.metadata.uid)
    return any(
        owner.uid not in uids if _is_ours(owner, one, pod) else bool(owner.controller)
        for owner in claim.metadata.owner_references
    )


def blocks_creation(one: apps_v1.StatefulSet, claim: core_v1.PersistentVolumeClaim, pod: core_v1.Pod) -> bool:
    """Whether a claim goes with an earlier pod of the name, so that it has to be gone before the next pod (without a UID yet) comes."""
    return _policy(one).when_scaled != "Retain" and _is_stale(claim, pod, _POD)


def _policy(one: apps_v1.StatefulSet) -> apps_v1.StatefulSetPersistentVolumeClaimRetentionPolicy:
    return one.spec.persistent_volume_claim_retention_policy or _RETAINED


def _wanted(one: apps_v1.StatefulSet, pod: core_v1.Pod | None, *, condemned: bool) -> Owners:
    """With whom a claim goes: nobody, the set, or a pod that is scaled away."""
    policy = _policy(one)
    if condemned and policy.when_scaled == "Delete" and pod is not None:
        return (owner_reference(*_POD, pod),)
    if policy.when_deleted == "Delete" and not (condemned and policy.when_scaled == "Delete"):
        return (owner_reference(*_SET, one),)
    return ()


def _names(owner: meta_v1.OwnerReference, named: apps_v1.StatefulSet | core_v1.Pod, kind: tuple[str, str]) -> bool:
    return (owner.api_version, owner.kind, owner.name) == (*kind, named.metadata.name)


def _is_ours(owner: meta_v1.OwnerReference, one: apps_v1.StatefulSet, pod: core_v1.Pod) -> bool:
    """Whether a reference names the set or the pod, be it an earlier one."""
    return _names(owner, one, _SET) or _names(owner, pod, _POD)


def _is_stale(
    claim: core_v1.PersistentVolumeClaim, named: apps_v1.StatefulSet | core_v1.Pod, kind: tuple[str, str]
) -> bool:
    """Whether a claim belongs to another object of that name: the first of its owners that has it counts."""
    first = next((owner for owner in claim.metadata.owner_references if _names(owner, named, kind)), None)
    return first is not None and first.uid != named.metadata.uid
