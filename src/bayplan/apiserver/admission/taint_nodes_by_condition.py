"""TaintNodesByCondition: a new node takes no pods until the node life cycle finds it ready."""

from __future__ import annotations

from bayplan.api.kinds import Kind
from bayplan.api.types import core_v1
from bayplan.apiserver.admission.chain import CREATE, AdmissionPlugin, AdmissionRequest

NOT_READY = "node.kubernetes.io/not-ready"


class TaintNodesByCondition(AdmissionPlugin):
    """See the module."""

    name = "TaintNodesByCondition"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return kind.kind == "Node" and not kind.group and operation == CREATE and not subresource

    def admit(self, request: AdmissionRequest) -> None:
        """Add the taint."""
        spec = request.obj.spec
        if not any(taint.key == NOT_READY and taint.effect == "NoSchedule" for taint in spec.taints):
            spec.taints = (*spec.taints, core_v1.Taint(key=NOT_READY, effect="NoSchedule"))
