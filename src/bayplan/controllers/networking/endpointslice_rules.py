"""Which endpoints go into which EndpointSlices: few slices, few writes. Pure functions.

    existing  [a b c] [d e]      wanted  a c d e f, three to a slice
    changed   [a c f] [d e]      one write: the slice that had to change anyway is filled up first

Source of the behaviour: `k8s.io/endpointslice` (reconciler, traffic distribution).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from bayplan.api.codec import encode
from bayplan.api.types import core_v1, discovery_v1
from bayplan.controllers.networking.service_pods import Ports, addresses_of, host_name, pod_reference
from bayplan.controllers.pods import is_ready

MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SERVICE_NAME = "kubernetes.io/service-name"
ZONE = "topology.kubernetes.io/zone"
_TOPOLOGY = ("service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode")
"""Annotations that ask for hints by zone; the first one that is there counts."""
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"

Shape = tuple[str, Ports]
"""Address type and ports: endpoints of one shape may share a slice."""
Slice = discovery_v1.EndpointSlice


@dataclass(slots=True)
class Changes:
    """What to write. Updated slices are complete, with the metadata of the existing one but for labels and annotations."""

    create: list[Slice] = field(default_factory=list)
    update: list[Slice] = field(default_factory=list)
    delete: list[Slice] = field(default_factory=list)


def endpoint_of(
    service: core_v1.Service, pod: core_v1.Pod, node: core_v1.Node | None, family: str
) -> discovery_v1.Endpoint | None:
    """The endpoint of a pod; None if the pod has no address of that family.

    It has hints as the service's traffic distribution wants them, unless these follow from the zones of nodes (`endpointslice_topology`).
    """
    addresses = addresses_of(pod, family)
    if not addresses:
        return None
    terminating = bool(pod.metadata.deletion_timestamp)
    serving = is_ready(pod)
    ready = service.spec.publish_not_ready_addresses or (serving and not terminating)
    zone = (node.metadata.labels.get(ZONE) or None) if node is not None else None
    distribution = None if by_topology(service) else service.spec.traffic_distribution
    return discovery_v1.Endpoint(
        addresses=addresses,
        conditions=discovery_v1.EndpointConditions(ready=ready, serving=serving, terminating=terminating),
        hostname=host_name(service, pod) or None,
        node_name=pod.spec.node_name or None,
        target_ref=pod_reference(pod),
        zone=zone,
        hints=hints_for(distribution, zone, pod.spec.node_name) if ready else None,
    )


def by_topology(service: core_v1.Service) -> bool:
    """Whether a service's annotations ask that its endpoints be shared among zones by what their nodes can do."""
    annotations = service.metadata.annotations
    return next((annotations[name] for name in _TOPOLOGY if name in annotations), "") in ("Auto", "auto")


def hints_for(distribution: str | None, zone: str | None, node_name: str) -> discovery_v1.EndpointHints | None:
    """For whom an endpoint is meant: who is in its zone, or on its node."""
    if distribution not in ("PreferClose", "PreferSameZone", "PreferSameNode") or not zone:
        return None
    nodes = (discovery_v1.ForNode(name=node_name),) if distribution == "PreferSameNode" and node_name else ()
    return discovery_v1.EndpointHints(for_zones=(discovery_v1.ForZone(name=zone),), for_nodes=nodes)


def shape_of(one: Slice) -> Shape:
    """Address type and ports of a slice."""
    return one.address_type, tuple(
        (port.name or "", port.port or 0, port.protocol or "TCP", port.app_protocol) for port in one.ports
    )


def ports_in(shape: Shape) -> tuple[discovery_v1.EndpointPort, ...]:
    """Ports as a slice has them."""
    return tuple(
        discovery_v1.EndpointPort(name=name, port=number, protocol=protocol, app_protocol=app)
        for name, number, protocol, app in shape[1]
    )


def identity(endpoint: discovery_v1.Endpoint) -> tuple[object, ...]:
    """What makes an endpoint the same one."""
    uid = endpoint.target_ref.uid if endpoint.target_ref is not None else ""
    return endpoint.addresses, uid, endpoint.node_name


def _sorted_ports(shape: Shape) -> Shape:
    return shape[0], tuple(sorted(shape[1], key=repr))


@dataclass(slots=True)
class _Draft:
    """A slice that is being filled."""

    shape: Shape
    endpoints: list[discovery_v1.Endpoint]
    known: Slice | None = None
    """None for a new one."""


def pack(
    existing: Sequence[Slice],
    wanted: Mapping[Shape, Sequence[discovery_v1.Endpoint]],
    labels: Mapping[str, str],
    annotations: Mapping[str, str] | None,
    limit: int,
    make: Callable[[Shape, Sequence[Slice]], Slice],
) -> Changes:
    """Put the wanted endpoints into slices of at most `limit`, keeping existing slices as they are where possible.

    `annotations` None leaves those of existing slices alone. `make` gives an empty slice of a shape; it is told the slices whose names are taken.
    """
    by_shape: dict[Shape, list[Slice]] = {}
    for one in sorted(existing, key=lambda each: each.metadata.name):
        by_shape.setdefault(_sorted_ports(shape_of(one)), []).append(one)
    drafts: list[_Draft] = []
    spare: list[Slice] = []
    for shape, endpoints in wanted.items():
        known = by_shape.pop(_sorted_ports(shape), [])
        changed, free = _packed(shape, known, endpoints, limit, labels, annotations)
        drafts += changed
        spare += free
    spare += [one for left in by_shape.values() for one in left]
    changes = Changes()
    for draft in drafts:
        recycled = draft.known
        if recycled is None:
            recycled = next((one for one in spare if one.address_type == draft.shape[0]), None)
            if recycled is not None:
                spare.remove(recycled)
        if recycled is not None:
            changes.update.append(_updated(recycled, draft, labels, annotations))
        else:
            new = make(draft.shape, [*existing, *changes.create])
            new.endpoints = tuple(draft.endpoints)
            changes.create.append(new)
    changes.delete = spare
    return changes


def _updated(known: Slice, draft: _Draft, labels: Mapping[str, str], annotations: Mapping[str, str] | None) -> Slice:
    metadata = msgspec.structs.replace(known.metadata, labels=dict(labels))
    if annotations is not None:
        metadata.annotations = dict(annotations)
    return msgspec.structs.replace(
        known, metadata=metadata, endpoints=tuple(draft.endpoints), ports=ports_in(draft.shape)
    )


def _packed(
    shape: Shape,
    known: Iterable[Slice],
    endpoints: Sequence[discovery_v1.Endpoint],
    limit: int,
    labels: Mapping[str, str],
    annotations: Mapping[str, str] | None,
) -> tuple[list[_Draft], list[Slice]]:
    """(slices to write, slices that are not needed) of one shape."""
    left = {identity(endpoint): endpoint for endpoint in endpoints}
    changed: list[_Draft] = []
    unchanged: list[Slice] = []
    free: list[Slice] = []
    for one in known:
        kept, differs = [], one.metadata.labels != labels
        differs |= annotations is not None and one.metadata.annotations != annotations
        for endpoint in one.endpoints:
            new = left.pop(identity(endpoint), None)
            if new is not None:
                kept.append(new)
            differs |= new != endpoint
        if not differs:
            unchanged.append(one)
        elif kept or (not endpoints and not changed):
            changed.append(_Draft(shape, kept, one))
        else:
            free.append(one)
    if not endpoints:  # one slice stays, with nothing in it
        free += unchanged[1:] if not changed else unchanged
        return (changed, free) if changed or unchanged else ([_Draft(shape, [])], free)
    rest = list(left.values())
    for draft in sorted(changed, key=lambda each: -len(each.endpoints)):
        room = limit - len(draft.endpoints)
        draft.endpoints += rest[:room]
        rest = rest[room:]
    while rest:
        fitting = [one for one in unchanged if len(one.endpoints) + len(rest) <= limit] if len(rest) < limit else []
        if fitting:
            fullest = max(fitting, key=lambda each: len(each.endpoints))
            unchanged.remove(fullest)
            changed.append(_Draft(shape, [*fullest.endpoints, *rest], fullest))
            break
        changed.append(_Draft(shape, rest[:limit]))
        rest = rest[limit:]
    return changed, free


def free_name(base: str, uid: str, taken: Iterable[Slice]) -> str:
    """`BASE-SUFFIX`, the first that is not taken. Names follow from the owner's uid, so that two runs that do not know of each other make no slice twice."""
    names = {one.metadata.name for one in taken}
    number = 0
    while True:
        digest = hashlib.sha256(encode((uid, number))).hexdigest()
        suffix = "".join(_LETTERS[int(digest[at : at + 2], 16) % 27] for at in range(0, 10, 2))
        name = f"{base[: 253 - 6]}-{suffix}"
        if name not in names:
            return name
        number += 1
