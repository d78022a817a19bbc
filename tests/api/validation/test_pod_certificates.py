"""Requests of kubelets for certificates of pods. Bounds and texts are those of `pkg/apis/certificates/validation`."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Sequence
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from bayplan.api import codec
from bayplan.api.errors import FieldError
from bayplan.api.types import certificates_v1beta1
from bayplan.api.validation.pod_certificates import check_request, check_status

HOUR, DAY = 3600, 24 * 3600
KEY = ec.derive_private_key(7, ec.SECP256R1())
OTHER = ec.derive_private_key(8, ec.SECP256R1())
START = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
EXACTLY = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"


def kind(value: object) -> str:
    """Part of a case's name: signatures differ each time."""
    return type(value).__name__


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def public(key: Any) -> str:
    return text(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def stub(key: Any = KEY) -> str:
    digest = None if isinstance(key, ed25519.Ed25519PrivateKey) else SHA256()
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, digest)
    return text(request.public_bytes(Encoding.DER))


def proof(key: ec.EllipticCurvePrivateKey = KEY, uid: str = "u") -> str:
    return text(key.sign(uid.encode(), ec.ECDSA(SHA256())))


def request(**spec: Any) -> certificates_v1beta1.PodCertificateRequestSpec:
    tree = {
        "signerName": "example.com/signer",
        "podName": "p",
        "podUID": "u",
        "serviceAccountName": "s",
        "serviceAccountUID": "v",
        "nodeName": "n",
        "nodeUID": "w",
        "maxExpirationSeconds": DAY,
        "stubPKCS10Request": stub(),
        **spec,
    }
    tree = {name: value for name, value in tree.items() if value is not None}
    return codec.from_tree(certificates_v1beta1.PodCertificateRequestSpec, tree)


def problems(**spec: Any) -> list[str]:
    errors: list[FieldError] = []
    check_request(errors, "spec", request(**spec))
    return [f"{error.field}: {error.detail}" for error in errors]


@pytest.mark.parametrize(
    ("signer", "seconds", "longest"),
    [
        ("example.com/signer", HOUR, None),
        ("example.com/signer", HOUR - 1, 91 * DAY),
        ("example.com/signer", 91 * DAY, None),
        ("example.com/signer", 91 * DAY + 1, 91 * DAY),
        ("kubernetes.io/signer", HOUR, None),
        ("kubernetes.io/signer", HOUR - 1, DAY),
        ("kubernetes.io/signer", DAY, None),
        ("kubernetes.io/signer", DAY + 1, DAY),
    ],
)
def test_how_long_a_certificate_may_be_good(signer: str, seconds: int, longest: int | None) -> None:
    expected = [] if longest is None else [f"spec.maxExpirationSeconds: must be in the range [3600, {longest}]"]
    assert problems(signerName=signer, maxExpirationSeconds=seconds) == expected


def test_how_long_a_certificate_is_to_be_good_is_said() -> None:
    assert problems(maxExpirationSeconds=None) == ["spec.maxExpirationSeconds: must be set"]


@pytest.mark.parametrize("name", ["podUID", "serviceAccountUID", "nodeUID"])
@pytest.mark.parametrize(
    ("length", "expected"), [(0, ["must not be empty"]), (1, []), (128, []), (129, ["may not be more than 128 bytes"])]
)
def test_uids(name: str, length: int, expected: list[str]) -> None:
    assert problems(**{name: "u" * length}) == [f"spec.{name}: {one}" for one in expected]


@pytest.mark.parametrize(
    ("key", "proven", "stubbed", "is_complete"),
    [
        (True, True, False, True),
        (False, False, True, True),
        (True, True, True, False),
        (True, False, False, False),
        (False, True, False, False),
        (True, False, True, False),
        (False, True, True, False),
        (False, False, False, False),
    ],
)
def test_a_key_is_proven_in_one_way(key: bool, proven: bool, stubbed: bool, is_complete: bool) -> None:
    found = problems(
        pkixPublicKey=public(KEY.public_key()) if key else None,
        proofOfPossession=proof() if proven else None,
        stubPKCS10Request=stub() if stubbed else None,
    )
    assert found == ([] if is_complete else [f"spec: {EXACTLY}"])


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"acme.io/foo": "x"}, []),
        ({"ACME.io/foo": "x"}, []),
        ({"foo": "x"}, ['must be a domain-prefixed key (such as "acme.io/foo")']),
        ({"a.b/c": "x" * (256 * 1024 - 5)}, []),
        ({"a.b/c": "x" * (256 * 1024 - 4)}, ["may not be more than 262144 bytes"]),
    ],
)
def test_annotations_for_the_signer(annotations: dict[str, str], expected: list[str]) -> None:
    found = problems(unverifiedUserAnnotations=annotations)
    assert found == [f"spec.unverifiedUserAnnotations: {one}" for one in expected]


def test_a_name_that_is_none_needs_no_domain_besides() -> None:
    [found] = problems(unverifiedUserAnnotations={"a b": "x"})
    assert "domain-prefixed" not in found


def modulus(bits: int) -> rsa.RSAPublicKey:
    return rsa.RSAPublicNumbers(65537, 1 << bits - 1 | 1).public_key()


UNPROVEN = "spec.proofOfPossession: could not verify proof-of-possession signature"
CURVE = "spec.pkixPublicKey: elliptic public keys must use curve P256 or P384"
MODULUS = "spec.pkixPublicKey: RSA keys must have modulus size 3072 or 4096"


@pytest.mark.parametrize(
    ("key", "proven", "expected"),
    [
        (public(KEY.public_key()), proof(), []),
        (public(KEY.public_key()), proof(OTHER), [UNPROVEN]),
        (public(KEY.public_key()), proof(uid="other"), [UNPROVEN]),
        (public(ec.derive_private_key(7, ec.SECP224R1()).public_key()), proof(), [CURVE]),
        (public(ec.derive_private_key(7, ec.SECP256K1()).public_key()), proof(), [CURVE]),
        (public(ec.derive_private_key(7, ec.SECP521R1()).public_key()), proof(), [UNPROVEN]),
        (public(modulus(2048)), proof(), [MODULUS]),
        (public(modulus(3072)), proof(), [UNPROVEN]),
        (public(modulus(4096)), proof(), [UNPROVEN]),
        (public(ed25519.Ed25519PrivateKey.from_private_bytes(b"7" * 32).public_key()), proof(), [UNPROVEN]),
        (
            public(ed448.Ed448PrivateKey.from_private_bytes(b"7" * 57).public_key()),
            proof(),
            ["spec.pkixPublicKey: unknown public key type; supported types are Ed25519, ECDSA, and RSA"],
        ),
        (text(b"x" * 10240), proof(), ["spec.pkixPublicKey: must be a valid PKIX-serialized public key"]),
        (text(b"x" * 10241), proof(), ["spec.pkixPublicKey: may not be more than 10240 bytes"]),
        (public(KEY.public_key()), text(b"x" * 10240), [UNPROVEN]),
        (public(KEY.public_key()), text(b"x" * 10241), ["spec.proofOfPossession: may not be more than 10240 bytes"]),
    ],
    ids=kind,
)
def test_keys_and_their_proofs(key: str, proven: str, expected: list[str]) -> None:
    assert problems(pkixPublicKey=key, proofOfPossession=proven, stubPKCS10Request=None) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (stub(ed25519.Ed25519PrivateKey.from_private_bytes(b"7" * 32)), []),
        (stub(ec.derive_private_key(7, ec.SECP521R1())), []),
        (stub(ec.derive_private_key(7, ec.SECP224R1())), ["elliptic public keys must use curve P256, P384, or P521"]),
        (text(b"x" * 10240), ["must be a valid PKCS#10 CSR"]),
        (text(b"x" * 10241), ["may not be more than 10240 bytes"]),
        (text(base64.b64decode(stub())[:-1] + b"\x00"), ["invalid signature"]),
    ],
    ids=kind,
)
def test_requests_that_are_signed(given: str, expected: list[str]) -> None:
    assert problems(stubPKCS10Request=given) == [f"spec.stubPKCS10Request: {one}" for one in expected]


def told(error: FieldError) -> str:
    return f'{error.type.name} "{error.value}"'


def certificate(
    key: ec.EllipticCurvePrivateKey = KEY, seconds: int = DAY, names: Sequence[x509.GeneralName] = ()
) -> bytes:
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(x509.Name([]))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(START)
        .not_valid_after(START + datetime.timedelta(seconds=seconds))
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(OTHER, SHA256()).public_bytes(Encoding.PEM)


def time(seconds: int) -> str:
    return (START + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(kind: str, status: str = "True") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": "R", "message": "m", "lastTransitionTime": time(0)}


def status(chain: bytes = b"", kind: str = "Issued", lifetime: int = DAY, **more: Any) -> dict[str, Any]:
    tree = {
        "conditions": [condition(kind)],
        "certificateChain": chain.decode(),
        "notBefore": time(0),
        "notAfter": time(lifetime),
        "beginRefreshAt": time(600),
        **more,
    }
    return {name: value for name, value in tree.items() if value}


def changed(new: dict[str, Any], old: dict[str, Any] | None = None, **spec: Any) -> list[str]:
    def made(tree: dict[str, Any]) -> certificates_v1beta1.PodCertificateRequest:
        found = codec.from_tree(certificates_v1beta1.PodCertificateRequest, {"status": tree})
        found.spec = request(**spec)
        return found

    errors: list[FieldError] = []
    check_status(errors, "status", made(new), made(old or {}))
    return [
        f"{error.field.removeprefix('status').removeprefix('.')}: {error.detail or told(error)}" for error in errors
    ]


LEAF = certificate()
AGAIN = b"-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n"
FOREIGN = AGAIN.replace(b"CERTIFICATE", b"PRIVATE KEY")
AT_MOST_ONE = 'There may be at most one condition with type "Issued", "Denied", or "Failed"'
ENDED = "immutable after PodCertificateRequest is issued, denied, or failed"
EMPTY = "non-condition status fields must be empty when denying or failing the PodCertificateRequest"
UNTOLD = 'status is immutable unless transitioning to "Issued", "Denied", or "Failed"'


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ({}, None, []),
        ({"notBefore": time(0)}, None, [f": {UNTOLD}"]),
        ({"notBefore": time(0)}, {"notBefore": time(0)}, []),
        ({"conditions": [condition("Denied")]}, None, []),
        ({"conditions": [condition("Failed")]}, None, []),
        ({"conditions": [condition("Denied")], "notBefore": time(0)}, None, [f": {EMPTY}"]),
        ({"conditions": [condition("Failed")], "notBefore": time(0)}, None, [f": {EMPTY}"]),
        ({"conditions": [condition("Denied"), condition("Failed")]}, None, [f"conditions.[1].type: {AT_MOST_ONE}"]),
        ({"conditions": [condition("Denied", "False")]}, None, ['conditions.[0].status: NOT_SUPPORTED "False"']),
        (
            {"conditions": [condition("Else")]},
            None,
            ['conditions.[0].type: NOT_SUPPORTED "Else"'],
        ),
        ({"conditions": [condition("Denied")]}, {"conditions": [condition("Denied")]}, []),
        ({"conditions": [condition("Failed")]}, {"conditions": [condition("Denied")]}, [f": {ENDED}"]),
        (status(LEAF), status(LEAF), []),
        (status(LEAF, notBefore=time(1)), status(LEAF), [f": {ENDED}"]),
    ],
)
def test_a_request_ends_once(new: dict[str, Any], old: dict[str, Any] | None, expected: list[str]) -> None:
    assert changed(new, old) == expected


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        (LEAF, []),
        (LEAF + LEAF, []),
        (b"", ["issued certificate chain must contain at least one certificate"]),
        (FOREIGN + LEAF, ["issued certificate chain must consist entirely of CERTIFICATE PEM blocks"]),
        (AGAIN, ["leaf certificate does not parse as valid X.509"]),
        (LEAF + FOREIGN, ["issued certificate chain must consist entirely of CERTFICATE PEM blocks"]),
        (LEAF + AGAIN, ["intermediate certificate does not parse as valid X.509"]),
        (certificate(OTHER), ["leaf certificate was not issued to the requested public key"]),
        (LEAF.ljust(100 * 1024, b"\n"), []),
        (LEAF.ljust(100 * 1024 + 1, b"\n"), ["may not be more than 102400 bytes"]),
        (certificate(names=[x509.DNSName("a.b")]), []),
        (certificate(names=[x509.DNSName("")]), ["leaf certificate should not contain empty DNSName"]),
        (certificate(names=[x509.DNSName("a..b")]), ["leaf certificate's DNSName should not contain '..'"]),
        (certificate(names=[x509.DNSName(".a")]), ["leaf certificate's DNSName should not start or end with '.'"]),
        (certificate(names=[x509.DNSName("a.")]), ["leaf certificate's DNSName should not start or end with '.'"]),
        (certificate(names=[x509.RFC822Name("a@b.c")]), []),
        *(
            (certificate(names=[x509.RFC822Name(one)]), ["leaf certificate should not contain invalid EmailAddress"])
            for one in ("a", "@b", "a b@c")
        ),
    ],
    ids=kind,
)
def test_chains(chain: bytes, expected: list[str]) -> None:
    assert changed(status(chain)) == [f"certificateChain: {one}" for one in expected]
    asked: dict[str, Any] = {
        "pkixPublicKey": public(KEY.public_key()),
        "proofOfPossession": proof(),
        "stubPKCS10Request": None,
    }
    assert changed(status(chain), **asked) == [f"certificateChain: {one}" for one in expected]


PRESENT = "must be present and consistent with the issued certificate"
REFRESH = "must be present and in the range [notbefore+10min, notafter-10min]"


@pytest.mark.parametrize(
    ("lifetime", "times", "expected"),
    [
        (DAY, {"notBefore": None}, [f"notBefore: {PRESENT}"]),
        (DAY, {"notAfter": None}, [f"notAfter: {PRESENT}"]),
        (DAY, {"beginRefreshAt": None}, [f"beginRefreshAt: {REFRESH}"]),
        (DAY, {"notBefore": time(1)}, ["notBefore: must be set to the NotBefore time encoded in the leaf certificate"]),
        (DAY, {"notAfter": time(1)}, ["notAfter: must be set to the NotAfter time encoded in the leaf certificate"]),
        (HOUR, {}, []),
        (HOUR - 1, {}, ["certificateChain: leaf certificate lifetime must be >= 1 hour"]),
        (DAY + 1, {}, [f"certificateChain: leaf certificate lifetime must be <= spec.maxExpirationSeconds ({DAY})"]),
        (DAY, {"beginRefreshAt": time(599)}, ["beginRefreshAt: must be at least 10 minutes after status.notBefore"]),
        (DAY, {"beginRefreshAt": time(DAY - 600)}, []),
        (
            DAY,
            {"beginRefreshAt": time(DAY - 599)},
            ["beginRefreshAt: must be at least 10 minutes before status.notAfter"],
        ),
    ],
)
def test_times_of_a_certificate(lifetime: int, times: dict[str, Any], expected: list[str]) -> None:
    assert changed(status(certificate(seconds=lifetime), lifetime=lifetime, **times)) == expected


def test_times_are_not_compared_where_names_are_wrong() -> None:
    leaf = certificate(names=[x509.DNSName("a..b")])
    assert changed(status(leaf, notBefore=time(1))) == [
        "certificateChain: leaf certificate's DNSName should not contain '..'"
    ]
