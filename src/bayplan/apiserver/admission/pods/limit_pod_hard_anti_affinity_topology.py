"""LimitPodHardAntiAffinityTopology: required anti-affinity keeps pods from a node, not from a whole zone."""

from __future__ import annotations

from bayplan.api.errors import forbidden_error
from bayplan.api.kinds import Kind
from bayplan.api.pods.execution_rules import required_pod_terms
from bayplan.apiserver.admission.chain import CREATE, UPDATE, AdmissionPlugin, AdmissionRequest

HOSTNAME = "kubernetes.io/hostname"


class LimitPodHardAntiAffinityTopology(AdmissionPlugin):
    """See the module."""

    name = "LimitPodHardAntiAffinityTopology"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return kind.kind == "Pod" and not kind.group and operation in (CREATE, UPDATE) and not subresource

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse other topology keys."""
        affinity = request.obj.spec.affinity
        anti = affinity.pod_anti_affinity if affinity is not None else None
        if anti is None:
            return
        for term in required_pod_terms(anti):
            if term.topology_key != HOSTNAME:
                detail = (
                    "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey "
                    f"{term.topology_key} but only key {HOSTNAME} is allowed"
                )
                raise forbidden_error("pods", "", request.name, detail)
