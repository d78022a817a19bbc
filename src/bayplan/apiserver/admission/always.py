"""AlwaysAdmit and AlwaysDeny: plugins without a judgement, which old configurations name.

Source: Kubernetes' `plugin/pkg/admission/admit` and `deny`.
"""

from __future__ import annotations

from bayplan.api.errors import forbidden_error
from bayplan.api.kinds import Kind
from bayplan.apiserver.admission.chain import AdmissionPlugin, AdmissionRequest
from bayplan.apiserver.bootstrap.publishing import LOOPBACK


class AlwaysAdmit(AdmissionPlugin):
    """Lets everything pass."""

    name = "AlwaysAdmit"


class AlwaysDeny(AdmissionPlugin):
    """Refuses everything that is not a read, but for what the server writes itself: it would not come up (kube-apiserver does not)."""

    name = "AlwaysDeny"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return True

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse the request."""
        if request.call.request.user is LOOPBACK:
            return
        kind = request.kind
        raise forbidden_error(kind.plural, kind.group, request.name, "admission control is denying all modifications")
