"""Services count for themselves, for node ports and for load balancers."""

from __future__ import annotations

from typing import Any

from bayplan.api.kinds import Kind
from bayplan.api.quantity import Quantity
from bayplan.api.quota.amounts import ONE, ZERO, Amounts
from bayplan.api.quota.evaluators import CREATE, UPDATE, Evaluator
from bayplan.api.types import core_v1

NODE_PORTS, LOAD_BALANCERS = "services.nodeports", "services.loadbalancers"


class ServiceEvaluator(Evaluator):
    """See the module."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(kind)
        self.names = (self.count_name, "services", NODE_PORTS, LOAD_BALANCERS)

    def handles(self, operation: str, subresource: str) -> bool:
        return operation in (CREATE, UPDATE) and not subresource

    def usage(self, obj: Any, now: float) -> Amounts:
        spec: core_v1.ServiceSpec = obj.spec
        balanced = spec.type == "LoadBalancer"
        return {
            self.count_name: ONE,
            "services": ONE,
            NODE_PORTS: Quantity(_node_ports(spec)),
            LOAD_BALANCERS: ONE if balanced else ZERO,
        }


def _node_ports(spec: core_v1.ServiceSpec) -> int:
    """How many node ports the service has or will get."""
    if spec.type == "LoadBalancer" and spec.allocate_load_balancer_node_ports is False:
        return sum(1 for port in spec.ports if port.node_port)
    return len(spec.ports) if spec.type in ("NodePort", "LoadBalancer") else 0
