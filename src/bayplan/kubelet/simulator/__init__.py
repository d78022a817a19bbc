"""Simulated nodes: leases, node status and the life of pods, played by one service for thousands of nodes.

`pods.next_step` is the pure heart: from a pod and the time to its next status; `containers` says what becomes of each container, `initialization` of init
containers, `resize` of resources that change while a pod runs. `stages` replaces all that by what a user describes. `groups` are nodes that come and go.
`pod_player` and `stage_player` wait and write; `service.NodeSimulator` watches, and keeps the nodes.
"""

from bayplan.kubelet.simulator.service import NodeSimulator
from bayplan.kubelet.simulator.settings import SimulatorSettings

__all__ = ["NodeSimulator", "SimulatorSettings"]
