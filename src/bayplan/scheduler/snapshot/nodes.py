"""Reading a node: the facts that the columns keep, and whether a change of the object is a change of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from bayplan.api.quantity import parse
from bayplan.scheduler.snapshot.resources import FIXED, ResourceTable, Vector, amount_of, is_scalar_resource
from bayplan.scheduler.snapshot.taints import TaintKey

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Node


class NodeFacts(NamedTuple):
    """What of a node matters for scheduling. Equal facts mean that nothing needs to be computed again."""

    labels: tuple[tuple[str, str], ...]
    taints: tuple[TaintKey, ...]
    unschedulable: bool
    allocatable: Vector
    pod_limit: int
    images: tuple[tuple[str, int], ...]
    features: frozenset[str]
    troubles: frozenset[str]
    """Conditions that speak against the node: pressures that are true, and `Ready` if it is not."""


def _troubles(node: Node) -> frozenset[str]:
    found = [
        condition.type
        for condition in node.status.conditions
        if (condition.status != "True" if condition.type == "Ready" else condition.status == "True")
    ]
    return frozenset(found) if found else NO_TROUBLES


NO_TROUBLES: Final[frozenset[str]] = frozenset()
NO_FACTS: Final = NodeFacts((), (), False, (), 0, (), frozenset(), NO_TROUBLES)
"""Of no node."""


def node_facts(node: Node, resources: ResourceTable) -> NodeFacts:
    """The facts of a node object."""
    allocatable = node.status.allocatable
    pairs = [
        (resources.column(name), amount_of(name, quantity))
        for name, quantity in allocatable.items()
        if name in FIXED or is_scalar_resource(name)
    ]
    return NodeFacts(
        tuple(sorted(node.metadata.labels.items())),
        tuple(TaintKey(taint.key, taint.value, taint.effect) for taint in node.spec.taints),
        node.spec.unschedulable,
        tuple(sorted(pairs)),
        parse(allocatable["pods"]).value() if "pods" in allocatable else 0,
        tuple((name, image.size_bytes) for image in node.status.images for name in image.names),
        frozenset(node.status.declared_features),
        _troubles(node),
    )
