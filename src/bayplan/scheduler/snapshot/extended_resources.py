"""Extended resources that come from devices: `example.com/gpu: 2` in a pod, a DeviceClass that says it means that.

On nodes whose device plugin offers the resource, that counts; elsewhere the scheduler makes a claim for the pod and
allocates devices for it (KEP-5004).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from bayplan.api.quantity import parse
from bayplan.api.types.core_v1 import ContainerExtendedResourceRequest
from bayplan.api.types.meta_v1 import ObjectMeta, OwnerReference
from bayplan.api.types.resource_v1 import (
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Container, Pod, PodSpec
    from bayplan.api.types.resource_v1 import DeviceClass

ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
"""Before the name of a class: the resource that every class offers."""


def class_behind(resource: str, classes: Mapping[str, DeviceClass]) -> str:
    """The device class whose devices a resource means, the newest if there are several; empty if there is none."""
    if resource.startswith(IMPLICIT):
        name = resource.removeprefix(IMPLICIT)
        return name if name in classes else ""
    found = [item.metadata for item in classes.values() if item.spec.extended_resource_name == resource]
    newest = max(found, key=lambda item: (item.creation_timestamp or "", item.name), default=None)
    return newest.name if newest is not None else ""


class Needs(NamedTuple):
    """What a claim has to ask for, and which container each request is for."""

    requests: tuple[DeviceRequest, ...]
    mappings: tuple[ContainerExtendedResourceRequest, ...]


def needs_of(spec: PodSpec, classes: Mapping[str, str]) -> Needs:
    """The requests for a pod's extended resources; `classes`: resource -> class.

    Containers that run together get devices of their own. Init containers come before them, one after the other, so
    they use the devices of those that come later, and more only if these are too few.
    """
    containers = (*spec.init_containers, *spec.containers)
    first = len(spec.init_containers)
    lasting = [i for i, item in enumerate(containers) if i >= first or item.restart_policy == "Always"]
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(classes):
        own: dict[int, DeviceRequest] = {}
        for index in (*lasting, *(i for i in range(len(containers)) if i not in lasting)):
            container = containers[index]
            wanted = amount_in(container, resource)
            if not wanted:
                continue
            usable = [] if index in lasting else [one for i, one in own.items() if i > index or i not in lasting]
            for one in usable:
                if wanted <= 0:
                    break
                mappings.append(_mapping(container, resource, one))
                wanted -= one.exactly.count if one.exactly is not None else 0
            if wanted > 0:
                place = sorted(container.resources.requests).index(resource)
                exact = ExactDeviceRequest(
                    device_class_name=classes[resource], allocation_mode="ExactCount", count=wanted
                )
                own[index] = DeviceRequest(name=f"container-{index}-request-{place}", exactly=exact)
                mappings.append(_mapping(container, resource, own[index]))
        requests += own.values()
    return Needs(tuple(requests), tuple(mappings))


def amount_in(container: Container, resource: str) -> int:
    """How much of a resource a container requests."""
    amount = container.resources.requests.get(resource)
    return parse(amount).value() if amount is not None else 0


def _mapping(container: Container, resource: str, request: DeviceRequest) -> ContainerExtendedResourceRequest:
    return ContainerExtendedResourceRequest(
        container_name=container.name, resource_name=resource, request_name=request.name
    )


def claim_for(namespace: str, needs: Needs, *, uid: str = "") -> ResourceClaim:
    """The claim as it is allocated: in memory only, with a UID of its own."""
    return ResourceClaim(
        metadata=ObjectMeta(name="<extended-resources>", namespace=namespace, uid=uid),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=needs.requests)),
    )


def claim_of(pod: Pod, needs: Needs) -> ResourceClaim:
    """The claim as it is created, owned by its pod."""
    metadata = pod.metadata
    owner = OwnerReference(api_version="v1", kind="Pod", name=metadata.name, uid=metadata.uid, controller=True)
    return ResourceClaim(
        metadata=ObjectMeta(
            generate_name=f"{metadata.name}-extended-resources-",
            namespace=metadata.namespace,
            annotations={ANNOTATION: "true"},
            owner_references=(owner,),
        ),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=needs.requests)),
    )


def left_over(pod: Pod, claims: Iterable[ResourceClaim]) -> ResourceClaim | None:
    """A claim that an earlier attempt made for the pod and did not come to use."""
    for claim in claims:
        if claim.metadata.annotations.get(ANNOTATION) == "true" and any(
            owner.controller and owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references
        ):
            return claim
    return None
