"""The cluster's own certificate authority, made at first start and kept in a directory, and the certificates that it signs."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bayplan.support.system.private_files import make_private_directory, write_private

CA_YEARS, LEAF_YEARS = 10, 1
RENEW_BEFORE = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its key as PEM."""

    certificate: bytes
    key: bytes


def _pem(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), encoded)


def make_authority(now: float) -> KeyPair:
    """A new certificate authority; `now` in unix seconds."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    start = datetime.fromtimestamp(now, UTC)
    usage = x509.KeyUsage(True, False, True, False, False, True, False, False, False)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - timedelta(minutes=5))
        .not_valid_after(start + timedelta(days=365 * CA_YEARS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pem(certificate, key)


def sign(
    authority: KeyPair, now: float, common_name: str, *, organizations: Sequence[str] = (), hosts: Sequence[str] = ()
) -> KeyPair:
    """A certificate for a server (with `hosts`: names and addresses) or a client (user and groups)."""
    ca = x509.load_pem_x509_certificate(authority.certificate)
    ca_key = serialization.load_pem_private_key(authority.key, None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in organizations]
    start = datetime.fromtimestamp(now, UTC)
    usage = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - timedelta(minutes=5))
        .not_valid_after(start + timedelta(days=365 * LEAF_YEARS))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(issuer_key, critical=False)
    )
    if hosts:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False
        )
    return _pem(builder.sign(ca_key, hashes.SHA256()), key)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def is_current(pair: KeyPair, authority: KeyPair, hosts: Sequence[str], now: float) -> bool:
    """Whether a kept server certificate still serves: signed by this authority, for these hosts, not about to expire, and
    with the key that belongs to it (a crash may have come between the two)."""
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    ca = x509.load_pem_x509_certificate(authority.certificate)
    if certificate.not_valid_after_utc < datetime.fromtimestamp(now, UTC) + RENEW_BEFORE:
        return False
    try:
        certificate.verify_directly_issued_by(ca)
        if serialization.load_pem_private_key(pair.key, None).public_key() != certificate.public_key():
            return False
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except Exception:  # cryptography raises many kinds; whatever is wrong, a new certificate is right
        return False
    return {_general_name(host) for host in hosts} <= set(names)


def load(directory: Path, name: str) -> KeyPair | None:
    """A pair that `save` wrote, or None."""
    certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
    return KeyPair(certificate.read_bytes(), key.read_bytes()) if certificate.exists() and key.exists() else None


def save(directory: Path, name: str, pair: KeyPair) -> None:
    """Write a pair; both are readable by their owner only. Raises OSError."""
    make_private_directory(directory)
    write_private(directory / f"{name}.key", pair.key)
    write_private(directory / f"{name}.crt", pair.certificate)


class RequestError(ValueError):
    """A certificate request cannot be read."""


@dataclass(frozen=True, slots=True)
class RequestedSubject:
    """What a certificate request asks for."""

    common_name: str
    organizations: tuple[str, ...]


def parse_request(encoded: str | None) -> RequestedSubject:
    """The subject of a certificate request (PEM in base64, as objects carry it). Raises RequestError."""
    try:
        request = x509.load_pem_x509_csr(base64.b64decode(encoded or ""))
    except ValueError as error:
        raise RequestError(str(error)) from error
    names = request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    organizations = request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return RequestedSubject(str(names[-1].value) if names else "", tuple(str(one.value) for one in organizations))
