"""What matters of a pod for scheduling, compiled once for all pods that are alike.

Pods of one workload differ in name, UID and the name of their token volume, and in nothing that the scheduler reads.
They share one `PodShape`: parsed requests, compiled selectors, and (in the scheduling cycle) cached masks and scores.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from bayplan.api.pods.execution_rules import ANNOTATION, preferred_pod_terms, required_pod_terms, with_annotation_rules
from bayplan.api.selectors import labels as selectors
from bayplan.api.selectors.labels import NOTHING, LabelSelector, SelectorError
from bayplan.api.types.core_v1 import PodSchedulingGroup
from bayplan.scheduler.snapshot.counters import LabelGroup, PodCounts, TermGroup, TermKey
from bayplan.scheduler.snapshot.resources import PodAmounts, ResourceTable, Vector, amounts_of
from bayplan.support.memory.memo import Memo

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Container, Pod, PodAffinityTerm, PodSpec, Volume
    from bayplan.api.types.meta_v1 import OwnerReference

REQUIRED_AFFINITY: Final = "required-affinity"
REQUIRED_ANTI: Final = "required-anti"
PREFERRED_AFFINITY: Final = "preferred-affinity"
PREFERRED_ANTI: Final = "preferred-anti"

_IRRELEVANT: Final = {
    "service_account_name": "",
    "service_account": "",
    "ephemeral_containers": (),
    "dns_config": None,
    "host_aliases": (),
    "hostname": "",
    "subdomain": "",
    "security_context": None,
    "image_pull_secrets": (),
    "readiness_gates": (),
}


_A_GROUP: Final = PodSchedulingGroup()
"""Stands for the pod group in a shape: pods of different groups share their shape."""


class HostPort(NamedTuple):
    """A port that a pod takes on its node; `ip` is 0.0.0.0 for all addresses."""

    protocol: str
    port: int
    ip: str


class ClaimReference(NamedTuple):
    """A resource claim that a pod names, or that is made for it from a template."""

    entry: str
    """The name in the pod's spec."""
    claim: str | None
    """The claim's name; None if it has not been made yet, empty if the pod needs none."""
    is_made: bool
    """Made for this very pod."""


def claim_references(pod: Pod) -> tuple[ClaimReference, ...]:
    """The resource claims of a pod, as its spec and its status name them."""
    made = {item.name: item.resource_claim_name or "" for item in pod.status.resource_claim_statuses}
    return tuple(
        ClaimReference(item.name, item.resource_claim_name, False)
        if item.resource_claim_name
        else ClaimReference(item.name, made.get(item.name), True)
        for item in pod.spec.resource_claims
    )


class PodShape:
    """The scheduling-relevant part of a pod. Immutable but for `cache`, where plugins keep what they compile from it, and `relabelled`.

    `requests` and the two non-zero figures are what such a pod takes on a node, resized pods aside.
    """

    __slots__ = (
        "__weakref__",
        "amounts",
        "cache",
        "claims",
        "group",
        "host_ports",
        "key",
        "labels",
        "name",
        "namespace",
        "node_rules",
        "nonzero_cpu",
        "nonzero_memory",
        "owner",
        "preferred_affinity",
        "preferred_anti",
        "relabelled",
        "requests",
        "required_affinity",
        "required_anti",
        "spec",
        "terms",
        "tolerations",
        "uid",
        "volumes",
    )

    def __init__(self, key: Hashable, pod: Pod, resources: ResourceTable, counts: PodCounts) -> None:
        spec = pod.spec
        self.key = key
        self.spec = spec
        self.namespace = pod.metadata.namespace
        self.name = pod.metadata.name
        """Meaningful only for pods with ephemeral volumes or resource claims, which share their shape with no other."""
        self.uid = pod.metadata.uid
        self.labels = pod.metadata.labels
        self.owner = controller_of(pod)
        self.amounts: PodAmounts
        self.amounts, taken = amounts_of(spec, resources)
        self.requests: Vector = taken.requests
        self.nonzero_cpu, self.nonzero_memory = taken.nonzero_cpu, taken.nonzero_memory
        self.host_ports = host_ports(spec)
        self.volumes = tuple(volume for volume in spec.volumes if is_relevant_volume(volume))
        self.claims: tuple[ClaimReference, ...] = claim_references(pod) if spec.resource_claims else ()
        self.tolerations: bytes = _encode(spec.tolerations) if spec.tolerations else b""
        """`spec.tolerations` in a form that can be compared and hashed."""
        self.node_rules: bytes = _node_rules(spec)
        """`spec.nodeSelector` and the node affinity in such a form; empty if there are none."""
        self.group: LabelGroup = counts.group(self.namespace, self.labels)
        self._compile_affinity(counts)
        self.cache: dict[Hashable, object] = {}
        self.relabelled: dict[Hashable, PodShape] = {}
        """The shapes of such pods with other labels, by these."""

    def _compile_affinity(self, counts: PodCounts) -> None:
        affinity = self.spec.affinity
        together = affinity.pod_affinity if affinity is not None else None
        apart = affinity.pod_anti_affinity if affinity is not None else None
        build = self._term
        self.required_affinity: tuple[TermKey, ...] = ()
        self.required_anti: tuple[TermKey, ...] = ()
        self.preferred_affinity: tuple[TermKey, ...] = ()
        self.preferred_anti: tuple[TermKey, ...] = ()
        if together is not None:
            self.required_affinity = tuple(build(REQUIRED_AFFINITY, term, 0) for term in required_pod_terms(together))
            self.preferred_affinity = tuple(
                build(PREFERRED_AFFINITY, item.pod_affinity_term, item.weight) for item in preferred_pod_terms(together)
            )
        if apart is not None:
            self.required_anti = tuple(build(REQUIRED_ANTI, term, 0) for term in required_pod_terms(apart))
            self.preferred_anti = tuple(
                build(PREFERRED_ANTI, item.pod_affinity_term, item.weight) for item in preferred_pod_terms(apart)
            )
        keys = (*self.required_affinity, *self.required_anti, *self.preferred_affinity, *self.preferred_anti)
        self.terms: tuple[TermGroup, ...] = tuple(counts.term(key) for key in keys)

    def _term(self, kind: str, term: PodAffinityTerm, weight: int) -> TermKey:
        namespaces = frozenset(term.namespaces)
        if not namespaces and term.namespace_selector is None:
            namespaces = frozenset((self.namespace,))
        return TermKey(
            kind,
            namespaces,
            compiled_or_nothing(term.namespace_selector),
            compiled_or_nothing(term.label_selector),
            term.topology_key,
            weight,
        )

    @property
    def has_pod_affinity(self) -> bool:
        """Whether the pod says anything about other pods (even an empty list of terms)."""
        affinity = self.spec.affinity
        return affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)


def compiled_or_nothing(selector: object) -> LabelSelector:
    """A compiled selector; one that does not parse matches nothing, as the scheduler treats it."""
    try:
        return selectors.compile_selector(selector)  # type: ignore[arg-type]
    except SelectorError:
        return NOTHING


def controller_of(pod: Pod) -> OwnerReference | None:
    """The owner that controls the pod."""
    if not pod.metadata.owner_references:
        return None
    return next((owner for owner in pod.metadata.owner_references if owner.controller), None)


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """The host ports that a pod takes for as long as it runs: those of its containers and sidecars."""
    if not any(container.ports for container in (*spec.containers, *spec.init_containers)):
        return ()
    running = (*spec.containers, *(item for item in spec.init_containers if item.restart_policy == "Always"))
    return tuple(
        HostPort(port.protocol or "TCP", port.host_port, port.host_ip or "0.0.0.0")
        for container in running
        for port in container.ports
        if port.host_port > 0
    )


def is_relevant_volume(volume: Volume) -> bool:
    """Whether a volume can bear on where its pod runs."""
    return (
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or volume.image is not None
        or volume.gce_persistent_disk is not None
        or volume.aws_elastic_block_store is not None
        or volume.azure_disk is not None
        or volume.cinder is not None
        or volume.vsphere_volume is not None
        or volume.portworx_volume is not None
        or volume.iscsi is not None
        or volume.rbd is not None
    )


def _container_facts(containers: tuple[Container, ...]) -> list[object]:
    return [(c.name, c.image, c.resources, c.ports, c.restart_policy, c.restart_policy_rules) for c in containers]


def keeps_shape(shape: PodShape, old: Pod, new: Pod, *, pending: bool = False) -> bool:
    """Whether a pod that had a shape has it still, as far as that can be told without looking it up."""
    spec = new.spec
    before, after = old.metadata, new.metadata
    return (
        old.spec == spec
        and before.labels == after.labels
        and before.annotations.get(ANNOTATION) == after.annotations.get(ANNOTATION)
        and before.owner_references == after.owner_references
        and before.uid == after.uid
        and not spec.resource_claims
        and shape.spec.node_name == (spec.node_name if pending else "")
    )


_RELABELLED: Final = 64
_SHAPE_BYTES: Final = 4000
"""Of a shape, about."""
_encode = msgspec.json.Encoder().encode


class ShapeTable:
    """Finds the shape of a pod by what matters of its spec, or (where nothing in it is made up for each pod) by the whole spec, which is quicker.

    A shape lives as long as a pod or a cached evaluation refers to it, or it is remembered here.
    """

    __slots__ = ("_counts", "_recent", "_resources", "_shapes")

    MOST_BYTES: Final = 64 << 20
    """Memory for specs that are remembered with their shapes."""

    def __init__(self, resources: ResourceTable, counts: PodCounts) -> None:
        self._resources = resources
        self._counts = counts
        self._recent: Memo[tuple[Hashable, bytes], PodShape] = Memo("pod_shapes", most_bytes=self.MOST_BYTES)
        self._shapes: WeakValueDictionary[Hashable, PodShape] = WeakValueDictionary()

    def shape(self, pod: Pod, *, pending: bool = False) -> PodShape:
        """The shape of a pod, compiled if it is the first of its kind.

        The node that a pod runs on is no part of its shape, but the node that a pending pod asks for is.
        """
        if pod.metadata.annotations:
            pod = with_annotation_rules(pod)
        if pod.spec.scheduling_group is not None:
            pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, scheduling_group=_A_GROUP))
        spec, place = pod.spec, _place(pod, pending=pending)
        if spec.volumes:  # which may have names that were made up for this pod
            known_as = (place, _encode(_facts(spec)))
        else:
            known_as = (place, _encode(msgspec.structs.replace(spec, node_name="") if spec.node_name else spec))
        shape = self._recent.get(known_as)
        if shape is None:
            shape = self._by_facts(place, pod, pending=pending)
            self._recent.put(known_as, shape, len(known_as[1]) + _SHAPE_BYTES)
        return shape

    def _by_facts(self, place: Hashable, pod: Pod, *, pending: bool) -> PodShape:
        key = (place, _encode(_facts(pod.spec)))
        shape = self._shapes.get(key)
        if shape is None:
            if not pending:
                pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
            shape = self._shapes[key] = PodShape(key, pod, self._resources, self._counts)
        return shape

    def relabelled(self, shape: PodShape, pod: Pod) -> PodShape:
        """The shape of a pod that had this one before its labels were changed."""
        labels = tuple(pod.metadata.labels.items())
        found = shape.relabelled.get(labels)
        if found is None:
            if len(shape.relabelled) >= _RELABELLED:
                shape.relabelled.clear()
            found = shape.relabelled[labels] = self.shape(pod)
        return found


def _node_rules(spec: PodSpec) -> bytes:
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    return _encode((spec.node_selector, affinity)) if spec.node_selector or affinity is not None else b""


def _place(pod: Pod, *, pending: bool) -> Hashable:
    """What matters of a pod besides its spec, and the node that it asks for."""
    metadata, spec = pod.metadata, pod.spec
    owner = controller_of(pod)
    unique: Hashable = ()
    if spec.resource_claims:
        unique = (metadata.name, metadata.uid, claim_references(pod))
    elif spec.volumes and any(item.ephemeral is not None for item in spec.volumes):
        unique = (metadata.name, metadata.uid)
    return (
        metadata.namespace,
        tuple(metadata.labels.items()),
        (owner.api_version, owner.kind, owner.name, owner.uid) if owner is not None else None,
        unique,
        spec.node_name if pending else "",
    )


def _facts(spec: PodSpec) -> object:
    """What matters of a spec, its node aside."""
    reduced = msgspec.structs.replace(
        spec,
        volumes=tuple([volume for volume in spec.volumes if is_relevant_volume(volume)]) if spec.volumes else (),
        containers=(),
        init_containers=(),
        node_name="",
        **_IRRELEVANT,
    )
    return reduced, _container_facts(spec.containers), _container_facts(spec.init_containers)
