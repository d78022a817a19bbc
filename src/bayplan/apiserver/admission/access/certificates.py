"""CertificateApproval, CertificateSigning, CertificateSubjectRestriction and ClusterTrustBundleAttest: who may decide about certificate requests and trust
bundles, and what nobody may ask for.

Source: Kubernetes' `plugin/pkg/admission/certificates`.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from bayplan.api.errors import ApiError, FieldError, forbidden, forbidden_error, invalid, invalid_object, quoted
from bayplan.api.kinds import Kind
from bayplan.apiserver.admission.chain import CREATE, UPDATE, AdmissionPlugin, AdmissionRequest
from bayplan.apiserver.authorization.attributes import Attributes
from bayplan.apiserver.authorization.interface import MASTERS, Decision
from bayplan.support.timestamps import parse_rfc3339, rfc3339

GROUP = "certificates.k8s.io"
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
_SKEW_SECONDS = 300.0


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


class ClusterTrustBundleAttest(AdmissionPlugin):
    """Who writes a bundle of a signer must be permitted to `attest` for the signer."""

    name = "ClusterTrustBundleAttest"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return kind.group == GROUP and kind.plural == "clustertrustbundles" and operation in (CREATE, UPDATE)

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse the bundle."""
        from bayplan.apiserver.authorization.escalation import only_for_garbage_collector

        signer = request.obj.spec.signer_name
        if not signer or (request.old is not None and only_for_garbage_collector(request.obj, request.old)):
            return
        if not may_act_for(request, "attest", signer):
            raise _refused(request, f"user not permitted to attest for signerName {quoted(signer)}")


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


class PodCertificateIssue(AdmissionPlugin):
    """A certificate of a pod begins about now, and who ends a request must be permitted to `sign`. As the former, not one of kube-apiserver's plugins."""

    name = "PodCertificateIssue"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        is_request = kind.group == GROUP and kind.plural == "podcertificaterequests"
        return is_request and operation == UPDATE and subresource == "status"

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse the change."""
        new, old = request.obj.status, request.old.status
        if new == old:
            return
        now = request.call.context.clock.now()
        if new.not_before is not None and abs(parse_rfc3339(new.not_before) - now) >= _SKEW_SECONDS:
            text = "must be set to within 5 minutes of kube-apiserver's current time"
            raise _invalid(request, invalid("status.notBefore", new.not_before, text))
        signer = request.old.spec.signer_name
        if not may_act_for(request, "sign", signer):
            user = quoted(request.call.request.user.name)
            text = f'User {user} is not permitted to "sign" for signer {quoted(signer)}'
            raise _invalid(request, forbidden("spec.signerName", text))


def _invalid(request: AdmissionRequest, error: FieldError) -> ApiError:
    return invalid_object(request.kind.kind, request.kind.group, request.obj.metadata.name, [error])
