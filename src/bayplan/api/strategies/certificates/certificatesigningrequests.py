"""Certificate signing requests. Who asks is written by the API server, not by the client."""

from __future__ import annotations

import base64
import binascii

from bayplan.api.errors import FieldError, duplicate, forbidden, invalid, required, unsupported
from bayplan.api.managedfields.fieldset import FieldSet, of_paths, recursive_difference
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import certificates_v1
from bayplan.api.validation.fields import CONDITION_STATUSES, Errors, repeats
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.signers import check_signer_name
from bayplan.api.validation.values.der import certificate_request_problem, certificates_problem, pem_blocks

_USAGES = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)
_SHORTEST = 600
_LEGACY_SIGNER = "kubernetes.io/legacy-unknown"


_NOT_APPROVAL = of_paths(("f:spec",), ("f:status", "f:certificate"))


class CertificateSigningRequestStrategy(Strategy):
    """Rules of certificate signing requests: the spec never changes."""

    update_checks = status_checks = UpdateChecks(whole=1)
    has_status = True
    reset_by_update = of_paths(("f:spec",), ("f:status",))
    reset_by_status = of_paths(("f:spec",), ("f:status", "f:conditions"))
    name_is_checked_as = "any"
    selectable_field_names = frozenset(("spec.signerName",))

    def prepare_update(
        self, obj: certificates_v1.CertificateSigningRequest, old: certificates_v1.CertificateSigningRequest
    ) -> None:
        obj.spec, obj.status = old.spec, old.status

    def prepare_status_update(
        self, obj: certificates_v1.CertificateSigningRequest, old: certificates_v1.CertificateSigningRequest
    ) -> None:
        obj.spec = old.spec
        for kind in ("Approved", "Denied"):
            held = [one for one in old.status.conditions if one.type == kind]
            if len(held) == sum(one.type == kind for one in obj.status.conditions):
                kept = iter(held)
                obj.status.conditions = tuple(next(kept) if one.type == kind else one for one in obj.status.conditions)

    def prepare_subresource_update(
        self,
        subresource: str,
        obj: certificates_v1.CertificateSigningRequest,
        old: certificates_v1.CertificateSigningRequest,
    ) -> None:
        obj.spec = old.spec  # `approval`
        obj.status.certificate = old.status.certificate

    def ownable(self, subresource: str, fields: FieldSet) -> FieldSet:
        """See Strategy; `approval` writes all of the status but the certificate."""
        return (
            recursive_difference(fields, _NOT_APPROVAL)
            if subresource == "approval"
            else super().ownable(subresource, fields)
        )

    def validate(self, obj: certificates_v1.CertificateSigningRequest) -> list[FieldError]:
        errors: list[FieldError] = []
        spec = obj.spec
        problem = _request_problem(spec.request)
        if problem:
            errors.append(invalid("spec.request", spec.request, problem))
        if not spec.usages:
            errors.append(required("spec.usages"))
        again = repeats(spec.usages)
        for index, usage in enumerate(spec.usages):
            if usage not in _USAGES:
                errors.append(unsupported(f"spec.usages[{index}]", usage, _USAGES))
            if index in again:
                errors.append(duplicate(f"spec.usages[{index}]", usage))
        _check_signer_name(errors, "spec.signerName", spec.signer_name)
        seconds = spec.expiration_seconds
        if seconds is not None and seconds < _SHORTEST:
            text = "may not specify a duration less than 600 seconds (10 minutes)"
            errors.append(invalid("spec.expirationSeconds", seconds, text))
        _check_conditions(errors, obj.status)
        return errors

    def validate_status_update(
        self, obj: certificates_v1.CertificateSigningRequest, old: certificates_v1.CertificateSigningRequest
    ) -> list[FieldError]:
        errors: list[FieldError] = []
        _check_conditions(errors, obj.status)
        problem = certificates_problem(_decoded(obj.status.certificate)) if obj.status.certificate else ""
        if problem:
            errors.append(invalid("status.certificate", "<certificate data>", problem))
        _check_kept(errors, obj.status, old.status)
        _check_approval(errors, obj.status, old.status)
        if old.status.certificate and obj.status.certificate != old.status.certificate:
            errors.append(forbidden("status.certificate", "updates may not modify existing certificate content"))
        return errors

    def validate_subresource_update(
        self,
        subresource: str,
        obj: certificates_v1.CertificateSigningRequest,
        old: certificates_v1.CertificateSigningRequest,
    ) -> list[FieldError]:
        errors: list[FieldError] = []
        _check_conditions(errors, obj.status)
        _check_kept(errors, obj.status, old.status)
        return errors

    def selectable_fields(self, obj: certificates_v1.CertificateSigningRequest) -> dict[str, str]:
        return {"spec.signerName": obj.spec.signer_name}


def _request_problem(encoded: str | None) -> str:
    blocks = pem_blocks(_decoded(encoded))
    if not blocks or blocks[0].type != "CERTIFICATE REQUEST":
        return "PEM block type must be CERTIFICATE REQUEST"
    return certificate_request_problem(blocks[0].content)


def _decoded(encoded: str | None) -> bytes:
    try:
        return base64.b64decode(encoded or "")
    except binascii.Error:
        return b""


def _check_signer_name(errors: Errors, path: str, name: str) -> None:
    if not name:
        errors.append(required(path))
        return
    if name == _LEGACY_SIGNER:
        text = "the legacy signerName is not allowed via this API version"
        errors.append(invalid(path, name, text))
    check_signer_name(errors, path, name)


def _check_conditions(errors: Errors, status: certificates_v1.CertificateSigningRequestStatus) -> None:
    seen: set[str] = set()
    for index, condition in enumerate(status.conditions):
        path = f"status.conditions[{index}]"
        if not condition.type:
            errors.append(required(f"{path}.type"))
        if not condition.status:
            errors.append(required(f"{path}.status"))
        elif condition.type in ("Approved", "Denied", "Failed") and condition.status != "True":
            errors.append(unsupported(f"{path}.status", condition.status, ("True",)))
        elif condition.status not in CONDITION_STATUSES:
            errors.append(unsupported(f"{path}.status", condition.status, CONDITION_STATUSES))
        if condition.type in seen:
            errors.append(duplicate(f"{path}.type", condition.type))
        seen.add(condition.type)
    if {"Approved", "Denied"} <= seen:
        kind = next(one.type for one in reversed(status.conditions) if one.type in ("Approved", "Denied"))
        errors.append(invalid("status.conditions", kind, "Approved and Denied conditions are mutually exclusive"))


def _check_kept(
    errors: Errors,
    new: certificates_v1.CertificateSigningRequestStatus,
    old: certificates_v1.CertificateSigningRequestStatus,
) -> None:
    """What was decided stays decided."""
    for kind in ("Approved", "Denied", "Failed"):
        held, holds = (any(one.type == kind for one in status.conditions) for status in (old, new))
        if held and not holds:
            errors.append(forbidden("status.conditions", f'updates may not remove a condition of type "{kind}"'))


def _check_approval(
    errors: Errors,
    new: certificates_v1.CertificateSigningRequestStatus,
    old: certificates_v1.CertificateSigningRequestStatus,
) -> None:
    """Only `approval` adds these."""
    for kind in ("Approved", "Denied"):
        held, holds = (sum(one.type == kind for one in status.conditions) for status in (old, new))
        if holds > held:
            errors.append(forbidden("status.conditions", f'updates may not add a condition of type "{kind}"'))


STRATEGY = CertificateSigningRequestStrategy()
