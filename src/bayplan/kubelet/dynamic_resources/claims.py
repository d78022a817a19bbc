"""Which resource claims a pod uses, whether it may, and which devices a container gets of them. Functions of data, and the state of a claim on a node.

Sources: Kubernetes' `dynamic-resource-allocation/resourceclaim` and `pkg/kubelet/cm/dra/claiminfo.go`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from bayplan.api.types import core_v1, resource_v1
from bayplan.kubelet.dynamic_resources.errors import ClaimError


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """A device as its driver described it. request_names: the requests of the claim that it is for, none for all. cdi_ids: what the runtime calls it."""

    pool: str
    name: str
    request_names: tuple[str, ...] = ()
    cdi_ids: tuple[str, ...] = ()
    share_id: str = ""


@dataclass(slots=True)
class ClaimState:
    """A claim that pods of this node use. drivers: driver -> its devices. is_prepared: whether all drivers have said so since the kubelet started, or before."""

    uid: str
    name: str
    namespace: str
    drivers: dict[str, tuple[PreparedDevice, ...]]
    pods: set[str] = field(default_factory=set)
    is_prepared: bool = False

    def cdi_ids(self, request: str) -> Iterator[str]:
        """The devices of a request, or of all if it is empty. `gpu` also stands for its alternatives, such as `gpu/large`."""
        for devices in self.drivers.values():
            for device in devices:
                if not request or not device.request_names or request in device.request_names:
                    yield from device.cdi_ids


def used_claims(pod: core_v1.Pod) -> list[tuple[str, str, bool]]:
    """(entry of the pod, name of its claim, whether the claim was made for this pod) for each claim; the entry is empty for that of extended resources.

    Entries for which no claim is made on purpose are left out. Raises ClaimError for a claim that is not there yet.
    """
    made = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
    metadata, found = pod.metadata, []
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name:
            found.append((entry.name, entry.resource_claim_name, False))
        elif not entry.resource_claim_template_name:
            where = f'pod "{metadata.namespace}/{metadata.name}", spec.resourceClaim "{entry.name}"'
            raise ClaimError(f"{where}: none of the supported fields are set")
        elif entry.name not in made:
            raise ClaimError(f'pod "{metadata.namespace}/{metadata.name}": ResourceClaim not created yet')
        else:
            name = made[entry.name]
            if name:
                found.append((entry.name, name, True))
    extended = pod.status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name:
        found.append(("", extended.resource_claim_name, False))
    return found


def usable_state(pod: core_v1.Pod, claim: resource_v1.ResourceClaim, *, made_for_pod: bool) -> ClaimState:
    """The state in which a claim begins. made_for_pod: whether it has to be the pod's own. Raises ClaimError where the pod may not use it."""
    metadata = claim.metadata
    where = f"{metadata.namespace}/{metadata.name}"
    if made_for_pod and not any(
        owner.controller and owner.uid == pod.metadata.uid for owner in metadata.owner_references
    ):
        named = f"{pod.metadata.namespace}/{pod.metadata.name}"
        raise ClaimError(f"ResourceClaim {where} was not created for Pod {named} (Pod is not owner)")
    if not any(one.uid == pod.metadata.uid for one in claim.status.reserved_for):
        who = f"pod {pod.metadata.name} ({pod.metadata.uid})"
        raise ClaimError(f"{who} is not allowed to use ResourceClaim {metadata.name} ({metadata.uid})")
    if claim.status.allocation is None:
        raise ClaimError(f"ResourceClaim {metadata.name}: not allocated")
    drivers: dict[str, tuple[PreparedDevice, ...]] = {one.driver: () for one in claim.status.allocation.devices.results}
    return ClaimState(metadata.uid, metadata.name, metadata.namespace, drivers)


def container_claims(pod: core_v1.Pod, container: core_v1.Container) -> list[tuple[str, str, str]]:
    """(entry of the pod, request of it or empty for all, name of the claim) of what a container uses; the entry is empty for extended resources.

    Raises ClaimError.
    """
    names = {entry: name for entry, name, _ in used_claims(pod)}
    found = [(one.name, one.request, names[one.name]) for one in container.resources.claims if one.name in names]
    extended = pod.status.extended_resource_claim_status
    if extended is not None and any(one.container_name == container.name for one in extended.request_mappings):
        found.append(("", "", extended.resource_claim_name))
    return found


def container_requests(pod: core_v1.Pod, container: core_v1.Container) -> list[tuple[str, str]]:
    """(name of the claim, request of it or empty for all) of what a container uses. Raises ClaimError."""
    found = []
    for entry, name, _ in used_claims(pod):
        if entry:
            found += [(name, one.request) for one in container.resources.claims if one.name == entry]
    extended = pod.status.extended_resource_claim_status
    for mapping in extended.request_mappings if extended is not None else ():
        if mapping.container_name == container.name and mapping.resource_name in container.resources.requests:
            assert extended is not None
            found.append((extended.resource_claim_name, mapping.request_name))
    return found
