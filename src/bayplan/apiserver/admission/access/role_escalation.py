"""RoleEscalation: nobody writes a role or binding that gives more than they hold. Not one of kube-apiserver's plugins: there the storage of these kinds does it."""

from __future__ import annotations

from bayplan.api.kinds import Kind
from bayplan.apiserver.admission.chain import CREATE, UPDATE, AdmissionPlugin, AdmissionRequest


class RoleEscalation(AdmissionPlugin):
    """See the module. Runs whatever the flags say."""

    name = "RoleEscalation"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return kind.group == "rbac.authorization.k8s.io" and operation in (CREATE, UPDATE)

    def admit(self, request: AdmissionRequest) -> None:
        """Refuse the write."""
        from bayplan.apiserver.authorization.escalation import check_escalation

        check_escalation(request.call, request.obj, request.old)
