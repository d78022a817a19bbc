"""Requests of kubelets for certificates of pods."""

from __future__ import annotations

from bayplan.api.errors import FieldError
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import certificates_v1beta1
from bayplan.api.validation.fields import check_unchanged
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.pod_certificates import check_request, check_status

PodCertificateRequest = certificates_v1beta1.PodCertificateRequest
_DAY = 24 * 3600


class PodCertificateRequestStrategy(Strategy):
    """Rules of requests for certificates of pods: the specification never changes, and the status not once it says how the request has ended."""

    allow_unconditional_update = False
    has_status = True
    update_checks = status_checks = UpdateChecks(whole=1)
    selectable_field_names = frozenset(("spec.signerName", "spec.podName", "spec.nodeName"))

    def default(self, obj: PodCertificateRequest) -> None:
        if obj.spec.max_expiration_seconds is None:
            obj.spec.max_expiration_seconds = _DAY

    def validate_create(self, obj: PodCertificateRequest) -> list[FieldError]:
        errors: list[FieldError] = []
        check_request(errors, "spec", obj.spec)
        return errors

    def validate_update(self, obj: PodCertificateRequest, old: PodCertificateRequest) -> list[FieldError]:
        errors: list[FieldError] = []
        check_unchanged(errors, "spec", obj.spec, old.spec)
        return errors

    def validate_status_update(self, obj: PodCertificateRequest, old: PodCertificateRequest) -> list[FieldError]:
        errors: list[FieldError] = []
        check_status(errors, "status", obj, old)
        return errors

    def selectable_fields(self, obj: PodCertificateRequest) -> dict[str, str]:
        spec = obj.spec
        return {"spec.signerName": spec.signer_name, "spec.podName": spec.pod_name, "spec.nodeName": spec.node_name}


STRATEGY = PodCertificateRequestStrategy()
