"""Simulated nodes: leases, node status and the life of pods, played by one service for thousands of nodes.

`pods.next_step` is the pure heart: from a pod and the time to its next status. `runtime_memory` reads from the status what a runtime would have of the pod,
`containers` says what becomes of each container, `starting` what keeps it from starting, `allocation` which resources it has; `pod_sync` lets the kubelet's
core decide about that, and `fast_path` comes to the same for most steps. `stages` replaces all that by what a user describes. `groups` are nodes that come and
go, `pressure` evicts pods of nodes that run out of memory. `pod_player` and `stage_player` wait and write; `registration`
makes nodes known; `service.NodeSimulator` watches, and keeps the nodes.
"""

from bayplan.kubelet.simulator.service import NodeSimulator
from bayplan.kubelet.simulator.settings import SimulatorSettings

__all__ = ["NodeSimulator", "SimulatorSettings"]
