"""Certificates for tests of what clients present."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bayplan.apiserver.certificates import KeyPair

SERVER = ExtendedKeyUsageOID.SERVER_AUTH
CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH


def issue(
    authority: KeyPair,
    name: str,
    now: float,
    *,
    seconds: float = 3600,
    usages: tuple[x509.ObjectIdentifier, ...] = (CLIENT,),
    is_authority: bool | None = False,
) -> KeyPair:
    """A certificate of an authority (perhaps one that is none) that is good for some seconds. is_authority: None for a certificate that says nothing."""
    ca = x509.load_pem_x509_certificate(authority.certificate)
    ca_key = serialization.load_pem_private_key(authority.key, None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    start = datetime.fromtimestamp(now, UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - timedelta(minutes=5))
        .not_valid_after(start + timedelta(seconds=seconds))
    )
    key_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    builder = builder.add_extension(key_id, critical=False)
    if is_authority is not None:
        builder = builder.add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    made = builder.sign(ca_key, hashes.SHA256() if isinstance(ca_key, ec.EllipticCurvePrivateKey) else None)
    pem = serialization.Encoding.PEM
    encoded = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return KeyPair(made.public_bytes(pem), encoded)


def ed25519_authority() -> KeyPair:
    """An authority with a key of Ed25519, good from 2020 to 2040."""
    key = ed25519.Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2040, 1, 1, tzinfo=UTC))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, None)
    )
    pem = serialization.Encoding.PEM
    encoded = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return KeyPair(made.public_bytes(pem), encoded)


def der(pair: KeyPair) -> bytes:
    """The certificate as TLS sends it."""
    return x509.load_pem_x509_certificate(pair.certificate).public_bytes(serialization.Encoding.DER)
