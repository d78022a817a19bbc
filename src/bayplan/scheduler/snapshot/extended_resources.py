"""Extended resources that come from devices: `example.com/gpu: 2` in a pod, a DeviceClass that says it means that.

On nodes whose device plugin offers the resource, that counts; elsewhere the scheduler makes a claim for the pod and
allocates devices for it (KEP-5004).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

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
from bayplan.scheduler.snapshot.catalog import is_controlled_by
from bayplan.scheduler.snapshot.resources import is_extended_resource

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Container, Pod, PodSpec
    from bayplan.api.types.resource_v1 import DeviceClass

ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
"""Before the name of a class: the resource that every class offers."""


def class_behind(resource: str, classes: Mapping[str, DeviceClass]) -> str:
    """The device class whose devices a resource means, empty if there is none.

    Of several classes the newest is meant; of those that are equally new, the first by name.
    """
    if resource.startswith(IMPLICIT):
        name = resource.removeprefix(IMPLICIT)
        return name if name in classes else ""
    found = [item.metadata for item in classes.values() if item.spec.extended_resource_name == resource]
    newest = max((item.creation_timestamp or "" for item in found), default="")
    return min((item.name for item in found if (item.creation_timestamp or "") == newest), default="")


def can_be_devices(resource: str) -> bool:
    """Whether a resource is of a kind that devices can provide: one that is not Kubernetes' own, or a class's."""
    return resource.startswith(IMPLICIT) or is_extended_resource(resource)


class Needs(NamedTuple):
    """What a claim has to ask for, and which container each request is for."""

    requests: tuple[DeviceRequest, ...]
    mappings: tuple[ContainerExtendedResourceRequest, ...]


def needs_of(spec: PodSpec, classes: Mapping[str, str]) -> Needs:
    """The requests for a pod's extended resources; `classes`: resource -> class.

    Containers that run together get devices of their own. Init containers come before them, one after the other, so
    they use the devices of those that come later, and what the neediest of them lacks then is asked for once.
    """
    containers = (*spec.init_containers, *spec.containers)
    first = len(spec.init_containers)
    lasting = [i for i, item in enumerate(containers) if i >= first or item.restart_policy == "Always"]
    passing = [i for i in range(first) if i not in lasting]
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(classes):
        own: dict[int, DeviceRequest] = {}
        for index in lasting:
            used, request = _taken(index, containers[index], resource, classes[resource], ())
            mappings += used
            if request is not None:
                own[index] = request
        extra: list[DeviceRequest] = []
        passing_mappings: list[ContainerExtendedResourceRequest] = []
        for index in passing:
            usable = [own[i] for i in own if i > index]
            used, request = _taken(index, containers[index], resource, classes[resource], usable)
            passing_mappings += used
            if request is not None:
                extra.append(request)
        neediest = max(extra, key=_count, default=None)
        if neediest is not None:
            requests.append(neediest)
            merged = {item.name for item in extra}
            passing_mappings = [
                replace(item, request_name=neediest.name) if item.request_name in merged else item
                for item in passing_mappings
            ]
        requests += own.values()
        mappings += passing_mappings
    return Needs(tuple(sorted(requests, key=lambda item: item.name)), tuple(mappings))


def _taken(
    index: int, container: Container, resource: str, class_name: str, usable: Iterable[DeviceRequest]
) -> tuple[list[ContainerExtendedResourceRequest], DeviceRequest | None]:
    """What a container uses of other containers' devices and its own, and the request for the latter if it needs any."""
    wanted = amount_in(container, resource)
    mappings: list[ContainerExtendedResourceRequest] = []
    if not wanted:
        return mappings, None
    for one in usable:
        mappings.append(_mapping(container, resource, one))
        wanted -= _count(one)
        if wanted <= 0:
            return mappings, None
    place = sorted(container.resources.requests).index(resource)
    exact = ExactDeviceRequest(device_class_name=class_name, allocation_mode="ExactCount", count=wanted)
    request = DeviceRequest(name=f"container-{index}-request-{place}", exactly=exact)
    mappings.append(_mapping(container, resource, request))
    return mappings, request


def _count(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly is not None else 0


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
        if claim.metadata.annotations.get(ANNOTATION) == "true" and is_controlled_by(claim, pod.metadata.uid):
            return claim
    return None
