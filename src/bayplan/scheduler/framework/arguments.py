"""Arguments of the built-in plugins (`pluginConfig[].args`), typed and with Kubernetes' defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import NodeAffinity, TopologySpreadConstraint


@dataclass(frozen=True, slots=True)
class ResourceWeight:
    """A resource and how much it counts (1-100)."""

    name: str
    weight: int = 1


CPU_AND_MEMORY = (ResourceWeight("cpu"), ResourceWeight("memory"))


@dataclass(frozen=True, slots=True)
class ShapePoint:
    """At `utilization` (0-100 %) a resource scores `score` (0-10)."""

    utilization: int
    score: int


@dataclass(frozen=True, slots=True)
class NodeResourcesFitArgs:
    """NodeResourcesFit: `strategy` is LeastAllocated, MostAllocated or RequestedToCapacityRatio (then with `shape`)."""

    ignored_resources: frozenset[str] = frozenset()
    ignored_resource_groups: frozenset[str] = frozenset()
    strategy: str = "LeastAllocated"
    resources: tuple[ResourceWeight, ...] = CPU_AND_MEMORY
    shape: tuple[ShapePoint, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeResourcesBalancedAllocationArgs:
    """NodeResourcesBalancedAllocation: the resources whose use should be even."""

    resources: tuple[ResourceWeight, ...] = CPU_AND_MEMORY


@dataclass(frozen=True, slots=True)
class NodeAffinityArgs:
    """NodeAffinity: affinity added to that of every pod."""

    added_affinity: NodeAffinity | None = None


@dataclass(frozen=True, slots=True)
class InterPodAffinityArgs:
    """InterPodAffinity: weight (0-100) of existing pods' required affinity when scoring."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


@dataclass(frozen=True, slots=True)
class PodTopologySpreadArgs:
    """PodTopologySpread: constraints for pods that have none, built in (`System`) or listed (`List`)."""

    defaulting_type: str = "System"
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()


@dataclass(frozen=True, slots=True)
class DefaultPreemptionArgs:
    """DefaultPreemption: how many candidate nodes are looked at, at least."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100


@dataclass(frozen=True, slots=True)
class VolumeBindingArgs:
    """VolumeBinding: how long binding may take (seconds), and how free capacity scores."""

    bind_timeout_seconds: int = 600
    shape: tuple[ShapePoint, ...] = field(default=(ShapePoint(0, 0), ShapePoint(100, 10)))


@dataclass(frozen=True, slots=True)
class NodeConditionArgs:
    """NodeCondition: the condition that a node must not have (`Ready`: that it must have)."""

    condition: str


@dataclass(frozen=True, slots=True)
class ImageLocalityArgs:
    """ImageLocality under its older name; profiles have no arguments for it."""

    of_containers_alone: bool = True
    """Whether images of init containers and of volumes do not count."""


@dataclass(frozen=True, slots=True)
class NodeLabelArgs:
    """NodeLabel: labels that a node has to have and to lack, and those that it had better have and lack."""

    present: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    present_preference: tuple[str, ...] = ()
    absent_preference: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServiceAffinityArgs:
    """ServiceAffinity: labels of which the pods of a service share the values, and those over whose values they are spread."""

    affinity_labels: tuple[str, ...] = ()
    anti_affinity_labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DynamicResourcesArgs:
    """DynamicResources: how long devices may take to get ready for a pod, and how long the search for devices may take
    on one node (seconds; 0: as long as it likes)."""

    binding_timeout_seconds: float = 600.0
    filter_timeout_seconds: float = 10.0
