"""Settings of simulated nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bayplan.kubelet.simulator.answers.objects import AnswerObject
    from bayplan.kubelet.simulator.nodes.groups import NodeGroupSettings
    from bayplan.kubelet.simulator.stages.stages import Stage

USUAL_LEASE: Final = 40
"""Seconds that a kubelet's lease says it lasts, if nothing else is configured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatorSettings:
    """How many nodes, of which shape, and how their pods behave."""

    nodes: int = 0
    """Nodes to create at start, if they are not there."""
    zones: int = 3
    """Zones over which the nodes are spread."""
    name_prefix: str = "node"
    """Nodes are called `PREFIX-1` and so on, with as many digits as the last one needs."""
    capacity: dict[str, str] = field(
        default_factory=lambda: {"cpu": "4", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
    )
    """Capacity of each node, whole: a resource that is not named is not there. All of it is allocatable."""
    labels: dict[str, str] = field(default_factory=dict)
    """Further labels of each node."""
    groups: tuple[NodeGroupSettings, ...] = ()
    """Further nodes that come and go with demand."""
    adopts: bool = False
    """Whether nodes that others made for the simulator are played even if there are none of its own."""
    stages: tuple[Stage, ...] = ()
    """What happens to pods and nodes, as users describe it; without any of pods it is what `pods` says."""
    answers: tuple[AnswerObject, ...] = ()
    """What pods answer to logs, exec, attach and port-forward, as users describe it; without any, what happened to them."""
    events: str = "warnings"
    """What is told about pods as events: `none`, `warnings` and what explains them, or `all` that a kubelet tells, ordinary starts and stops as well."""
    missing_config: str = "wait"
    """What becomes of containers whose ConfigMaps or Secrets, or keys of them, do not exist: they `wait` for them, as on a kubelet, or start (`ignore`), since
    programs that would make them do not run. A pod's annotation wins."""
    start_seconds: float = 0.2
    """From the moment a pod is bound until its containers run (jittered by half of it)."""
    unseen_seconds: float = 0.5
    """A start that takes less is written once, when the pod runs, and a pod that goes away is not shown with ended containers first: nobody would see that.
    Pods whose ends somebody counts (restartPolicy, finalizers) are shown. 0 writes every state."""
    run_seconds: float = 2.0
    """How long the containers of pods that end by themselves (restartPolicy Never or OnFailure) run, if nothing else says so."""
    stop_seconds: float = 1.0
    """How long containers take to stop, at most the grace period."""
    resize_seconds: float = 0.2
    """From the moment a node accepts other resources for a container until it has them."""
    lease_seconds: float | None = None
    """Seconds between two renewals of a node's lease, by default 40; less than the grace period of the node lifecycle controller (50 s), unless that controller
    trusts leases. A kubelet renews more often, so that a node's silence is noticed about as long after its last sign of life as the grace period is; a simulated
    node gives that sign when it falls silent."""

    @property
    def renewal_seconds(self) -> float:
        """Seconds between two renewals."""
        return USUAL_LEASE if self.lease_seconds is None else self.lease_seconds

    @property
    def promised_seconds(self) -> int:
        """How long a lease says that its node is well."""
        return USUAL_LEASE if self.renewal_seconds <= USUAL_LEASE else int(self.renewal_seconds) + USUAL_LEASE

    @property
    def has_node_stages(self) -> bool:
        """Whether users describe what happens to nodes."""
        return any(one.kind == "Node" for one in self.stages)

    @property
    def plays_nodes(self) -> bool:
        """Whether there is anything to play."""
        return bool(self.nodes or self.groups or self.adopts)
