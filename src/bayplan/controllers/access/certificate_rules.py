"""Certificate signing requests: which signer takes which request, what the certificate says, and which requests have served their time. Pure functions, besides
the arithmetic of signing.

Source of the behaviour: Kubernetes' `pkg/controller/certificates` (signer, authority policy, approver, cleaner) and `pkg/apis/certificates/helpers.go`.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ed448, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from bayplan.api.types import certificates_v1
from bayplan.support.timestamps import parse_rfc3339

CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
LEGACY = "kubernetes.io/legacy-unknown"
SIGNERS = (CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY)
YEAR = 365 * 86400.0
_SHORTEST = 600.0
_BACKDATE = 300.0
_DECIDED_KEPT, _PENDING_KEPT = 3600.0, 86400.0

_KEY_USAGES = {
    "signing": "digital_signature",
    "digital signature": "digital_signature",
    "content commitment": "content_commitment",
    "key encipherment": "key_encipherment",
    "key agreement": "key_agreement",
    "data encipherment": "data_encipherment",
    "cert sign": "key_cert_sign",
    "crl sign": "crl_sign",
    "encipher only": "encipher_only",
    "decipher only": "decipher_only",
}
_EXTENDED = {
    "any": ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
    "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "s/mime": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "ipsec end system": ObjectIdentifier("1.3.6.1.5.5.7.3.5"),
    "ipsec tunnel": ObjectIdentifier("1.3.6.1.5.5.7.3.6"),
    "ipsec user": ObjectIdentifier("1.3.6.1.5.5.7.3.7"),
    "timestamping": ExtendedKeyUsageOID.TIME_STAMPING,
    "ocsp signing": ExtendedKeyUsageOID.OCSP_SIGNING,
    "microsoft sgc": ObjectIdentifier("1.3.6.1.4.1.311.10.3.3"),
    "netscape sgc": ObjectIdentifier("2.16.840.1.113730.4.1"),
}


class BadRequest(ValueError):
    """A signer must not sign a request; the text says why, in Kubernetes' words."""


@dataclass(frozen=True, slots=True)
class Authority:
    """Who signs: certificate and key as PEM, and for how many seconds at most."""

    certificate: bytes
    key: bytes
    duration: float = YEAR


def parse(csr: certificates_v1.CertificateSigningRequest) -> x509.CertificateSigningRequest:
    """The request that an object carries. Raises ValueError."""
    return x509.load_pem_x509_csr(base64.b64decode(csr.spec.request or ""))


def condition(csr: certificates_v1.CertificateSigningRequest, kind: str) -> Any | None:
    """The condition of a type, or None."""
    return next((one for one in csr.status.conditions if one.type == kind), None)


def is_to_be_signed(csr: certificates_v1.CertificateSigningRequest) -> bool:
    """Whether the request is approved, for one of our signers, and has neither a certificate nor failed."""
    if csr.spec.signer_name not in SIGNERS or csr.status.certificate:
        return False
    return condition(csr, "Approved") is not None and condition(csr, "Denied") is None and not condition(csr, "Failed")


@dataclass(frozen=True, slots=True)
class _Names:
    common_name: str
    organizations: tuple[str, ...]
    dns: tuple[str, ...]
    ips: tuple[Any, ...]
    emails: tuple[str, ...]
    uris: tuple[str, ...]


def _names(request: x509.CertificateSigningRequest) -> _Names:
    common = [str(one.value) for one in request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    organizations = request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    alternatives: x509.SubjectAlternativeName | None
    try:
        alternatives = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        alternatives = None

    def of(kind: type[Any]) -> tuple[Any, ...]:
        return tuple(alternatives.get_values_for_type(kind)) if alternatives is not None else ()

    return _Names(
        common[-1] if common else "",
        tuple(str(one.value) for one in organizations),
        of(x509.DNSName),
        of(x509.IPAddress),
        of(x509.RFC822Name),
        of(x509.UniformResourceIdentifier),
    )


def check(request: x509.CertificateSigningRequest, usages: Sequence[str], signer: str) -> None:
    """Whether a signer may sign a request. Raises BadRequest."""
    if signer == CLIENT:
        for usage in usages:
            if usage not in ("digital signature", "key encipherment", "client auth"):
                raise BadRequest(f"invalid usage for client certificate: {usage}")
        if "client auth" not in usages:
            raise BadRequest("missing required usage for client certificate: client auth")
    elif signer in (KUBELET_CLIENT, KUBELET_SERVING):
        _check_kubelet(_names(request), usages, serving=signer == KUBELET_SERVING)


def _check_kubelet(names: _Names, usages: Sequence[str], *, serving: bool) -> None:
    if names.organizations != ("system:nodes",):
        raise BadRequest("subject organization is not system:nodes")
    if serving and not names.dns and not names.ips:
        raise BadRequest("DNS or IP subjectAltName is required")
    if not serving and names.dns:
        raise BadRequest("DNS subjectAltNames are not allowed")
    if names.emails:
        raise BadRequest("Email subjectAltNames are not allowed")
    if not serving and names.ips:
        raise BadRequest("IP subjectAltNames are not allowed")
    if names.uris:
        raise BadRequest("URI subjectAltNames are not allowed")
    if not names.common_name.startswith("system:node:"):
        raise BadRequest("subject common name does not begin with system:node: ")
    needed = {"digital signature", "server auth" if serving else "client auth"}
    if set(usages) not in (needed, needed | {"key encipherment"}):
        raise BadRequest(f"usages did not match [{' '.join(sorted(needed | {'key encipherment'}))}]")


def approvals(csr: certificates_v1.CertificateSigningRequest) -> list[tuple[str, str]]:
    """(subresource that the requester has to be allowed to create, message of the approval) for a kubelet's request; empty for others. Raises ValueError."""
    if csr.spec.signer_name != KUBELET_CLIENT:
        return []
    request = parse(csr)
    try:
        check(request, csr.spec.usages, KUBELET_CLIENT)
    except BadRequest:
        return []
    found = [("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.")]
    if csr.spec.username == _names(request).common_name:
        found.insert(0, ("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."))
    return found


def signed(
    authority: Authority,
    request: x509.CertificateSigningRequest,
    usages: Sequence[str],
    expiration_seconds: int | None,
    serial: int,
    now: float,
) -> bytes:
    """The certificate as PEM; valid from five minutes ago for as long as asked for, at least ten minutes, at most what the authority gives. Raises BadRequest,
    ValueError."""
    if not request.is_signature_valid:
        raise BadRequest("invalid signature of the certificate request")
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    key: Any = serialization.load_pem_private_key(authority.key, None)
    lasts = authority.duration
    if expiration_seconds is not None:
        lasts = min(lasts, max(float(expiration_seconds), _SHORTEST))
    start = datetime.fromtimestamp(int(now - _BACKDATE), UTC)
    end = min(datetime.fromtimestamp(int(now + lasts), UTC), issuer.not_valid_after_utc)
    if end <= datetime.fromtimestamp(now, UTC):
        raise BadRequest("the signer has expired: refusing to sign a certificate that expired in the past")
    builder = (
        x509.CertificateBuilder()
        .subject_name(request.subject)
        .issuer_name(issuer.subject)
        .public_key(request.public_key())
        .serial_number(serial)
        .not_valid_before(start)
        .not_valid_after(max(end, start + timedelta(seconds=1)))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key()), critical=False)  # type: ignore[arg-type]
    )
    for extension, critical in _usage_extensions(usages):
        builder = builder.add_extension(extension, critical=critical)
    try:
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        builder = builder.add_extension(names, critical=False)
    except x509.ExtensionNotFound:
        names = None
    digest = None if isinstance(key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey) else hashes.SHA256()
    return builder.sign(key, digest).public_bytes(serialization.Encoding.PEM)


def _usage_extensions(usages: Sequence[str]) -> list[tuple[x509.ExtensionType, bool]]:
    """(extension, critical)."""
    asked = {_KEY_USAGES[usage] for usage in usages if usage in _KEY_USAGES}
    flags = {name: name in asked for name in dict.fromkeys(_KEY_USAGES.values())}
    flags["encipher_only"] &= flags["key_agreement"]
    flags["decipher_only"] &= flags["key_agreement"]
    extended = list(dict.fromkeys(_EXTENDED[usage] for usage in sorted(usages) if usage in _EXTENDED))
    result: list[tuple[x509.ExtensionType, bool]] = []
    if any(flags.values()):
        result.append((x509.KeyUsage(**flags), True))
    if extended:
        result.append((x509.ExtendedKeyUsage(extended), False))
    return result


def has_served(csr: certificates_v1.CertificateSigningRequest, now: float) -> bool:
    """Whether a request may be cleaned away: decided or failed for an hour, never decided for a day, or its certificate has expired."""

    def older(stamp: str | None, seconds: float) -> bool:
        return bool(stamp) and now - parse_rfc3339(stamp or "") > seconds

    if any(
        one.type in ("Approved", "Denied", "Failed") and older(one.last_update_time, _DECIDED_KEPT)
        for one in csr.status.conditions
    ):
        return True
    if not csr.status.conditions and older(csr.metadata.creation_timestamp, _PENDING_KEPT):
        return True
    return bool(csr.status.certificate) and _expired(csr.status.certificate, now)


def _expired(certificate: str, now: float) -> bool:
    try:
        found = x509.load_pem_x509_certificate(base64.b64decode(certificate))
    except ValueError:
        return False  # whoever wrote that may want to look at it
    return found.not_valid_after_utc < datetime.fromtimestamp(now, UTC)
