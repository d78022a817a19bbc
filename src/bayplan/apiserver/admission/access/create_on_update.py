"""CreateOnUpdate: who makes an object by an update or an apply must be permitted to create it, too.

Not one of kube-apiserver's plugins: there the handlers of these verbs do it. Runs whatever the flags say.
"""

from __future__ import annotations

from bayplan.api.kinds import Kind
from bayplan.apiserver.admission.chain import CREATE, AdmissionPlugin, AdmissionRequest
from bayplan.apiserver.authorization.attributes import attributes_of
from bayplan.apiserver.authorization.interface import Decision


class CreateOnUpdate(AdmissionPlugin):
    """See the module."""

    name = "CreateOnUpdate"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return operation == CREATE and not subresource

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse the creation."""
        call = request.call
        if call.path.verb in ("", "create"):
            return
        asked = attributes_of(call.request)
        asked.verb = "create"
        verdict = call.context.authorizer.authorize(asked)
        if verdict.decision is not Decision.ALLOW:
            raise asked.refused(verdict.reason)
