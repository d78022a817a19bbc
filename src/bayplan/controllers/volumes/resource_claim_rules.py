"""What becomes of ResourceClaims: which a pod still needs, what they are called, who may keep using one. Pure functions.

Source of the behaviour: kube-controller-manager's resourceclaim-controller and `k8s.io/dynamic-resource-allocation/resourceclaim` (KEP-4381).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from bayplan.api.types import core_v1, meta_v1, resource_v1
from bayplan.controllers.base import controller_of
from bayplan.controllers.pods import has_ended

POD_CLAIM = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a generated claim: the name that it has in its pod's spec."""
FINALIZER = "resource.kubernetes.io/delete-protection"
"""Set by the scheduler with an allocation: the claim stays until nobody uses it."""
_LONGEST_BASE = 57
"""Of 63 characters of a name a hyphen and five characters of chance are left over, as Kubernetes reckons."""


def is_done(pod: core_v1.Pod) -> bool:
    """Whether the pod needs its claims no more: it has ended, or goes away without ever having had a node."""
    return has_ended(pod) or bool(pod.metadata.deletion_timestamp and not pod.spec.node_name)


def generate_name(pod_name: str, claim_name: str) -> str:
    """The beginning of a generated claim's name; of a long one both parts are cut in proportion."""
    base = f"{pod_name}-{claim_name}-"
    if (whole := len(base)) > _LONGEST_BASE:
        pod_part = pod_name[: len(pod_name) * _LONGEST_BASE // whole]
        base = f"{pod_part}-{claim_name[: len(claim_name) * _LONGEST_BASE // whole]}"
    return base


def claim_for(pod: core_v1.Pod, name: str, template: resource_v1.ResourceClaimTemplate) -> resource_v1.ResourceClaim:
    """The claim for an entry of the pod's `resourceClaims`, as it has to be made."""
    content = template.spec
    metadata = meta_v1.ObjectMeta(
        generate_name=generate_name(pod.metadata.name, name),
        namespace=pod.metadata.namespace,
        labels=content.metadata.labels,
        annotations={**content.metadata.annotations, POD_CLAIM: name},
        owner_references=(
            meta_v1.OwnerReference(
                api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True
            ),
        ),
    )
    return resource_v1.ResourceClaim(metadata=metadata, spec=content.spec)


def recorded_name(pod: core_v1.Pod, name: str) -> str | None:
    """The claim that the pod's status names for an entry; None if it names none."""
    return next((one.resource_claim_name for one in pod.status.resource_claim_statuses if one.name == name), None)


def is_owned_by(claim: resource_v1.ResourceClaim, pod: core_v1.Pod) -> bool:
    """Whether the claim was generated for this pod."""
    owner = controller_of(claim)
    return owner is not None and owner.uid == pod.metadata.uid


def generated_for(
    pod: core_v1.Pod, name: str, claims: Iterable[resource_v1.ResourceClaim]
) -> resource_v1.ResourceClaim | None:
    """A claim that was generated for an entry and has not made it into the pod's status yet; the oldest by name."""
    found = [
        one
        for one in claims
        if is_owned_by(one, pod)
        and one.metadata.annotations.get(POD_CLAIM) == name
        and not one.metadata.deletion_timestamp
    ]
    return min(found, key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name), default=None)


def needs_work(pod: core_v1.Pod, claim_named: Callable[[str], resource_v1.ResourceClaim | None]) -> bool:
    """Whether a pod lacks a generated claim, or runs already without having reserved its claims."""
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_template_name:
            name = recorded_name(pod, entry.name)
        else:
            name = entry.resource_claim_name
        if name is None:
            return True
        claim = claim_named(name)
        if claim is None:
            if entry.resource_claim_template_name:
                return True
        elif pod.spec.node_name and claim.status.allocation is not None and not reserved_for(claim, pod):
            return True
    return False


def reserved_for(claim: resource_v1.ResourceClaim, pod: core_v1.Pod) -> bool:
    """Whether the pod may use the claim."""
    return any(one.uid == pod.metadata.uid for one in claim.status.reserved_for)


def with_reservation(claim: resource_v1.ResourceClaim, pod: core_v1.Pod) -> resource_v1.ResourceClaim:
    """The claim with the pod among those that may use it."""
    consumer = resource_v1.ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
    status = msgspec.structs.replace(claim.status, reserved_for=(*claim.status.reserved_for, consumer))
    return msgspec.structs.replace(claim, status=status)


@dataclass(frozen=True, slots=True)
class Clean:
    """What has to be done to a claim, in this order."""

    status: resource_v1.ResourceClaimStatus | None = None
    """The status to write; None if it is right."""
    drop_finalizer: bool = False
    delete: bool = False
    """The pod for which it was generated has ended."""


def clean_up(
    claim: resource_v1.ResourceClaim,
    kept: Sequence[resource_v1.ResourceClaimConsumerReference],
    owner: core_v1.Pod | None,
) -> Clean:
    """What to do with a claim of whose consumers only `kept` are still there. `owner` is the pod for which it was generated, if that is there."""
    status = None
    protected = FINALIZER in claim.metadata.finalizers
    freed = not kept and protected
    shrunk = len(kept) < len(claim.status.reserved_for)
    leaving = bool(claim.metadata.deletion_timestamp)
    if shrunk:
        status = msgspec.structs.replace(claim.status, reserved_for=tuple(kept))
    if freed and (shrunk or leaving) and claim.status.allocation is not None:
        status = msgspec.structs.replace(status or claim.status, allocation=None)
    ended = not kept and owner is not None and is_done(owner) and not leaving
    return Clean(status, drop_finalizer=freed and (shrunk or leaving), delete=ended)
