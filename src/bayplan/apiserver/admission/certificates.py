"""CertificateApproval, CertificateSigning and CertificateSubjectRestriction: who may decide about certificate requests, and what nobody may ask for.

Source: Kubernetes' `plugin/pkg/admission/certificates`.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from bayplan.api.errors import ApiError, forbidden_error, quoted
from bayplan.api.kinds import Kind
from bayplan.apiserver.admission.chain import CREATE, UPDATE, AdmissionPlugin, AdmissionRequest
from bayplan.apiserver.authorization.attributes import Attributes
from bayplan.apiserver.authorization.interface import MASTERS, Decision
from bayplan.support.timestamps import rfc3339

GROUP = "certificates.k8s.io"
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"


def _is_request(kind: Kind) -> bool:
    return kind.group == GROUP and kind.plural == "certificatesigningrequests"


def _refused(request: AdmissionRequest, text: str) -> ApiError:
    return forbidden_error(request.kind.plural, request.kind.group, request.name, text)


def may_act_for(request: AdmissionRequest, verb: str, signer: str) -> bool:
    """Whether the user may `approve` or `sign` for a signer, by its name or by all of its domain (`example.com/*`)."""
    call = request.call
    for name in (signer, f"{signer.partition('/')[0]}/*"):
        asked = Attributes(call.request.user, verb, group=GROUP, version="*", resource="signers", name=name)
        if call.context.authorizer.authorize(asked).decision is Decision.ALLOW:
            return True
    return False


class CertificateApproval(AdmissionPlugin):
    """Who approves or denies must be permitted to `approve` for the signer."""

    name = "CertificateApproval"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return _is_request(kind) and operation == UPDATE and subresource == "approval"

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse the decision."""
        signer = request.obj.spec.signer_name
        if not may_act_for(request, "approve", signer):
            raise _refused(request, f"user not permitted to approve requests with signerName {quoted(signer)}")


class CertificateSigning(AdmissionPlugin):
    """Who writes a certificate or a condition must be permitted to `sign` for the signer."""

    name = "CertificateSigning"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return _is_request(kind) and operation == UPDATE and subresource == "status"

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse the signature."""
        new, old, signer = request.obj.status, request.old.status, request.old.spec.signer_name
        if (new.certificate, tuple(new.conditions)) == (old.certificate, tuple(old.conditions)):
            return
        if not may_act_for(request, "sign", signer):
            raise _refused(request, f"user not permitted to sign requests with signerName {quoted(signer)}")


class CertificateSubjectRestriction(AdmissionPlugin):
    """Nobody asks for a client certificate of the group that may do everything."""

    name = "CertificateSubjectRestriction"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return _is_request(kind) and operation == CREATE and not subresource

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse the request."""
        if request.obj.spec.signer_name != CLIENT_SIGNER:
            return
        from bayplan.apiserver.certificates import RequestError, parse_request

        try:
            subject = parse_request(request.obj.spec.request)
        except RequestError as error:
            raise _refused(request, f"failed to parse CSR: {error}") from None
        if MASTERS in subject.organizations:
            raise _refused(request, f"use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed")


class CertificateConditionTimes(AdmissionPlugin):
    """Conditions that come without times get them. Not one of kube-apiserver's plugins: there the storage does it. Runs whatever the flags say."""

    name = "CertificateConditionTimes"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return _is_request(kind) and operation == UPDATE and subresource in ("approval", "status")

    def admit(self, request: AdmissionRequest) -> None:
        """Fill in the times; a condition that was there with the same status keeps its transition."""
        now = rfc3339(request.call.context.clock.now())
        since = {(one.type, one.status): one.last_transition_time for one in request.old.status.conditions}
        conditions: list[Any] = [
            replace(
                one,
                last_update_time=one.last_update_time or now,
                last_transition_time=one.last_transition_time or since.get((one.type, one.status)) or now,
            )
            for one in request.obj.status.conditions
        ]
        request.obj.status.conditions = tuple(conditions)
