"""DenyServiceExternalIPs: services get no external addresses, which would let anybody take the traffic to them."""

from __future__ import annotations

from bayplan.api.errors import forbidden_error
from bayplan.api.kinds import Kind
from bayplan.apiserver.admission.chain import CREATE, UPDATE, AdmissionPlugin, AdmissionRequest


class DenyServiceExternalIPs(AdmissionPlugin):
    """See the module."""

    name = "DenyServiceExternalIPs"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return kind.kind == "Service" and not kind.group and operation in (CREATE, UPDATE) and not subresource

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse addresses that were not there before."""
        former = request.old.spec.external_ips if request.old is not None else ()
        if not set(request.obj.spec.external_ips) <= set(former):
            raise forbidden_error("services", "", request.name, "Use of external IPs is denied by admission control")
