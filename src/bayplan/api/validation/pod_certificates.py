"""Rules of requests for certificates of pods, and of what signers answer.

Source: Kubernetes' `pkg/apis/certificates/validation`. That a certificate begins about now is checked by the API server, which has a clock.
"""

from __future__ import annotations

import base64
import binascii
import datetime
from collections.abc import Mapping
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

from bayplan.api.errors import OMITTED, invalid, required, too_long, unsupported
from bayplan.api.types import certificates_v1beta1
from bayplan.api.validation.fields import Errors, check_conditions, check_format
from bayplan.api.validation.meta import ANNOTATIONS_LIMIT
from bayplan.api.validation.signers import check_signer_name, is_kubernetes_signer
from bayplan.api.validation.values import formats
from bayplan.api.validation.values.der import PemBlock, pem_blocks
from bayplan.support.timestamps import parse_rfc3339

ISSUED, DENIED, FAILED = "Issued", "Denied", "Failed"
_ENDS: Final = (ISSUED, DENIED, FAILED)
_SHORTEST, _LONGEST_OF_KUBERNETES, _LONGEST = 3600, 24 * 3600, 91 * 24 * 3600
"""Seconds for which a certificate may be asked for."""
_MOST_KEY, _MOST_CHAIN, _MOST_UID = 10 * 1024, 100 * 1024, 128
_REFRESH_SECONDS: Final = 600
_RSA_SIZES: Final = (3072, 4096)
_CURVES: Final = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}
_OTHER_CURVES: Final = {"secp224r1": "P-224"}
Spec = certificates_v1beta1.PodCertificateRequestSpec
Request = certificates_v1beta1.PodCertificateRequest
Status = certificates_v1beta1.PodCertificateRequestStatus


def check_request(errors: Errors, path: str, spec: Spec) -> None:
    """What a kubelet asks for."""
    check_signer_name(errors, f"{path}.signerName", spec.signer_name)
    _check_annotations(errors, f"{path}.unverifiedUserAnnotations", spec.unverified_user_annotations)
    check_format(errors, f"{path}.podName", spec.pod_name, formats.dns_subdomain)
    _check_uid(errors, f"{path}.podUID", spec.pod_uid)
    check_format(errors, f"{path}.serviceAccountName", spec.service_account_name, formats.dns_subdomain)
    _check_uid(errors, f"{path}.serviceAccountUID", spec.service_account_uid)
    check_format(errors, f"{path}.nodeName", spec.node_name, formats.dns_subdomain)
    _check_uid(errors, f"{path}.nodeUID", spec.node_uid)
    if spec.max_expiration_seconds is None:
        errors.append(required(f"{path}.maxExpirationSeconds", "must be set"))
        return
    longest = _LONGEST_OF_KUBERNETES if is_kubernetes_signer(spec.signer_name) else _LONGEST
    if not _SHORTEST <= spec.max_expiration_seconds <= longest:
        text = f"must be in the range [{_SHORTEST}, {longest}]"
        errors.append(invalid(f"{path}.maxExpirationSeconds", spec.max_expiration_seconds, text))
    key, proof, request = spec.pkix_public_key, spec.proof_of_possession, spec.stub_pkcs10_request
    if request and not (key or proof):
        _check_stub(errors, f"{path}.stubPKCS10Request", request)
    elif key and proof and not request:
        _check_key(errors, path, spec)
    else:
        text = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"
        errors.append(invalid(path, OMITTED, text))


def _check_annotations(errors: Errors, path: str, annotations: Mapping[str, str]) -> None:
    for key in sorted(annotations):
        lowered = key.lower()
        problems = formats.label_key(lowered)
        errors.extend(invalid(path, lowered, one) for one in problems)
        if not problems and "/" not in lowered:
            errors.append(invalid(path, lowered, 'must be a domain-prefixed key (such as "acme.io/foo")'))
    if sum(formats.size(key) + formats.size(value) for key, value in annotations.items()) > ANNOTATIONS_LIMIT:
        errors.append(too_long(path, ANNOTATIONS_LIMIT))


def _check_uid(errors: Errors, path: str, uid: str) -> None:
    if not uid:
        errors.append(invalid(path, uid, "must not be empty"))
    if formats.size(uid) > _MOST_UID:
        errors.append(too_long(path, _MOST_UID))


def _decoded(text: str | None) -> bytes:
    try:
        return base64.b64decode(text or "")
    except binascii.Error:
        return b""


def _check_stub(errors: Errors, path: str, request: str) -> None:
    der = _decoded(request)
    if len(der) > _MOST_KEY:
        errors.append(too_long(path, _MOST_KEY))
        return
    try:
        parsed = x509.load_der_x509_csr(der)
        key = parsed.public_key()
    except UnsupportedAlgorithm:
        text = "unknown public key type; supported types are Ed25519, ECDSA, and RSA"
        errors.append(invalid(path, OMITTED, text))
        return
    except ValueError:
        errors.append(invalid(path, OMITTED, "must be a valid PKCS#10 CSR"))
        return
    if not _is_allowed(errors, path, key, OMITTED, "elliptic public keys must use curve P256, P384, or P521"):
        return
    if not parsed.is_signature_valid:
        errors.append(invalid(path, OMITTED, "invalid signature"))


def _check_key(errors: Errors, path: str, spec: Spec) -> None:
    """The older form of a request: a public key, and the pod's uid signed with the private one."""
    key_path, proof_path = f"{path}.pkixPublicKey", f"{path}.proofOfPossession"
    der, proof = _decoded(spec.pkix_public_key), _decoded(spec.proof_of_possession)
    for where, data in ((key_path, der), (proof_path, proof)):
        if len(data) > _MOST_KEY:
            errors.append(too_long(where, _MOST_KEY))
            return
    try:
        key = load_der_public_key(der)
    except (ValueError, UnsupportedAlgorithm):
        errors.append(invalid(key_path, spec.pkix_public_key, "must be a valid PKIX-serialized public key"))
        return
    text = "elliptic public keys must use curve P256 or P384"
    if not _is_allowed(errors, key_path, key, spec.pkix_public_key, text):
        return
    try:
        _verify(key, proof, spec.pod_uid.encode())
    except InvalidSignature:
        errors.append(invalid(proof_path, OMITTED, "could not verify proof-of-possession signature"))


def _is_allowed(errors: Errors, path: str, key: Any, shown: Any, wrong_curve: str) -> bool:
    """Whether a public key is of an algorithm and a size that are allowed; says why not."""
    if isinstance(key, ec.EllipticCurvePublicKey):
        if key.curve.name not in _CURVES:
            name = _OTHER_CURVES.get(key.curve.name, key.curve.name)
            errors.append(invalid(path, f"curve {name}", wrong_curve))
            return False
    elif isinstance(key, rsa.RSAPublicKey):
        if key.key_size not in _RSA_SIZES:
            text = "RSA keys must have modulus size 3072 or 4096"
            errors.append(invalid(path, f"{key.key_size}-bit modulus", text))
            return False
    elif not isinstance(key, ed25519.Ed25519PublicKey):
        text = "unknown public key type; supported types are Ed25519, ECDSA, and RSA"
        errors.append(invalid(path, shown, text))
        return False
    return True


def _verify(key: Any, signature: bytes, data: bytes) -> None:
    """Raises InvalidSignature."""
    if isinstance(key, ed25519.Ed25519PublicKey):
        key.verify(signature, data)
    elif isinstance(key, ec.EllipticCurvePublicKey):
        key.verify(signature, data, ec.ECDSA(SHA256()))
    else:
        key.verify(signature, data, padding.PSS(padding.MGF1(SHA256()), padding.PSS.AUTO), SHA256())


def check_status(errors: Errors, path: str, new: Request, old: Request) -> None:
    """A change of status: a request ends once, and only one that is issued gets a certificate."""
    status, known = new.status, 0
    before = len(errors)
    for index, condition in enumerate(status.conditions):
        where = f"{path}.conditions.[{index}]"
        if condition.type not in _ENDS:
            errors.append(unsupported(f"{where}.type", condition.type, _ENDS))
            continue
        known += 1
        if known > 1:
            text = 'There may be at most one condition with type "Issued", "Denied", or "Failed"'
            errors.append(invalid(f"{where}.type", condition.type, text))
        if condition.status != "True":
            errors.append(unsupported(f"{where}.status", condition.status, ("True",)))
    check_conditions(errors, f"{path}.conditions", status.conditions)
    if len(errors) > before:
        return
    if has_ended(old.status):
        if status != old.status:
            text = "immutable after PodCertificateRequest is issued, denied, or failed"
            errors.append(invalid(path, OMITTED, text))
    elif _has(status, DENIED) or _has(status, FAILED):
        if status != Status(conditions=status.conditions):
            text = "non-condition status fields must be empty when denying or failing the PodCertificateRequest"
            errors.append(invalid(path, OMITTED, text))
    elif _has(status, ISSUED):
        _check_issued(errors, path, status, old.spec)
    elif status != old.status:
        text = 'status is immutable unless transitioning to "Issued", "Denied", or "Failed"'
        errors.append(invalid(path, OMITTED, text))


def has_ended(status: Status) -> bool:
    """Whether a request was issued, denied, or has failed."""
    return any(_has(status, one) for one in _ENDS)


def _has(status: Status, condition: str) -> bool:
    return any(one.type == condition and one.status == "True" for one in status.conditions)


def _check_issued(errors: Errors, path: str, status: Status, spec: Spec) -> None:
    where, chain = f"{path}.certificateChain", status.certificate_chain
    if len(chain.encode()) > _MOST_CHAIN:
        errors.append(too_long(where, _MOST_CHAIN))
        return
    blocks = pem_blocks(chain.encode())
    leaf = _leaf(errors, where, chain, blocks)
    if leaf is None:
        return
    wanted = _wanted_key(spec)
    if wanted is not None and _key_bytes(leaf.public_key()) != wanted:
        errors.append(invalid(where, chain, "leaf certificate was not issued to the requested public key"))
        return
    if not _has_valid_times(errors, path, status, leaf, spec):
        return
    for block in blocks[1:]:
        if block.type != "CERTIFICATE":
            errors.append(
                invalid(where, chain, "issued certificate chain must consist entirely of CERTFICATE PEM blocks")
            )
            return
        if _parsed(block) is None:
            errors.append(invalid(where, chain, "intermediate certificate does not parse as valid X.509"))
            return


def _leaf(errors: Errors, path: str, chain: str, blocks: list[PemBlock]) -> x509.Certificate | None:
    """The certificate of the pod; None, with the reason told, if there is none that is well-formed."""
    if not blocks:
        errors.append(invalid(path, chain, "issued certificate chain must contain at least one certificate"))
        return None
    if blocks[0].type != "CERTIFICATE":
        errors.append(invalid(path, chain, "issued certificate chain must consist entirely of CERTIFICATE PEM blocks"))
        return None
    leaf = _parsed(blocks[0])
    if leaf is None:
        errors.append(invalid(path, chain, "leaf certificate does not parse as valid X.509"))
        return None
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return leaf
    for name in names.get_values_for_type(x509.DNSName):
        if not name:
            errors.append(invalid(path, name, "leaf certificate should not contain empty DNSName"))
        if ".." in name:
            errors.append(invalid(path, name, "leaf certificate's DNSName should not contain '..'"))
        if name.startswith(".") or name.endswith("."):
            errors.append(invalid(path, name, "leaf certificate's DNSName should not start or end with '.'"))
    for address in names.get_values_for_type(x509.RFC822Name):
        local, at, domain = address.rpartition("@")
        if not (local and at and domain) or " " in address:
            errors.append(invalid(path, address, "leaf certificate should not contain invalid EmailAddress"))
    return leaf


def _parsed(block: PemBlock) -> x509.Certificate | None:
    try:
        return x509.load_der_x509_certificate(block.content)
    except ValueError:
        return None


def _wanted_key(spec: Spec) -> bytes | None:
    """The public key for which a certificate was asked; None if that cannot be read, though it was checked when it was sent."""
    try:
        if spec.stub_pkcs10_request:
            return _key_bytes(x509.load_der_x509_csr(_decoded(spec.stub_pkcs10_request)).public_key())
        return _key_bytes(load_der_public_key(_decoded(spec.pkix_public_key)))
    except (ValueError, UnsupportedAlgorithm):
        return None


def _key_bytes(key: Any) -> bytes:
    found: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return found


def _has_valid_times(errors: Errors, path: str, status: Status, leaf: x509.Certificate, spec: Spec) -> bool:
    """Whether times of a status fit its certificate; says why not."""
    if status.not_before is None:
        errors.append(required(f"{path}.notBefore", "must be present and consistent with the issued certificate"))
    if status.not_after is None:
        errors.append(required(f"{path}.notAfter", "must be present and consistent with the issued certificate"))
    if status.begin_refresh_at is None:
        text = "must be present and in the range [notbefore+10min, notafter-10min]"
        errors.append(required(f"{path}.beginRefreshAt", text))
    if errors or status.not_before is None or status.not_after is None or status.begin_refresh_at is None:
        return False
    start, end = _seconds(leaf.not_valid_before_utc), _seconds(leaf.not_valid_after_utc)
    refresh, lifetime = parse_rfc3339(status.begin_refresh_at), end - start
    most = spec.max_expiration_seconds or 0
    rules = (
        (
            parse_rfc3339(status.not_before) == start,
            ("notBefore", status.not_before, "must be set to the NotBefore time encoded in the leaf certificate"),
        ),
        (
            parse_rfc3339(status.not_after) == end,
            ("notAfter", status.not_after, "must be set to the NotAfter time encoded in the leaf certificate"),
        ),
        (
            lifetime >= _SHORTEST,
            ("certificateChain", int(lifetime * 1e9), "leaf certificate lifetime must be >= 1 hour"),
        ),
        (
            lifetime <= most,
            (
                "certificateChain",
                int(lifetime * 1e9),
                f"leaf certificate lifetime must be <= spec.maxExpirationSeconds ({most})",
            ),
        ),
        (
            refresh >= start + _REFRESH_SECONDS,
            ("beginRefreshAt", status.begin_refresh_at, "must be at least 10 minutes after status.notBefore"),
        ),
        (
            refresh <= end - _REFRESH_SECONDS,
            ("beginRefreshAt", status.begin_refresh_at, "must be at least 10 minutes before status.notAfter"),
        ),
    )
    for holds, (field, value, text) in rules:
        if not holds:
            errors.append(invalid(f"{path}.{field}", value, text))
            return False
    return True


def _seconds(time: datetime.datetime) -> float:
    return time.timestamp()
