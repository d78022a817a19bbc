"""Certificates that a kubelet asks the API server for: key, request, CertificateSigningRequest, answer; and the one that it signs itself.

Source: https://kubernetes.io/docs/reference/access-authn-authz/kubelet-tls-bootstrapping/ and .../certificate-signing-requests/.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bayplan.api.errors import ApiError
from bayplan.api.types import certificates_v1, core_v1, meta_v1
from bayplan.client import Client
from bayplan.client.client import WatchStream

KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
CLIENT_USAGES = ("digital signature", "client auth")
SERVING_USAGES = ("digital signature", "server auth")
_YEAR = timedelta(days=365)


class CertificateError(Exception):
    """A certificate was denied, did not come, or cannot be used; the message says which and why."""


@dataclass(frozen=True, slots=True)
class CertificateTemplate:
    """What a certificate of a node is to say, besides the node's name. In order, so that equal ones compare equal."""

    dns_names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


def serving_template(addresses: Iterable[core_v1.NodeAddress]) -> CertificateTemplate | None:
    """For the kubelet's server, by the node's addresses; None as long as there is no IP address."""
    names, ips = set(), set()
    for each in addresses:
        if not each.address:
            continue
        if _is_ip(each.address):
            if each.type in ("Hostname", "ExternalIP", "InternalIP"):
                ips.add(each.address)
        elif each.type in ("Hostname", "ExternalDNS", "InternalDNS"):
            names.add(each.address)
    return CertificateTemplate(tuple(sorted(names)), tuple(sorted(ips))) if ips else None


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def new_key() -> bytes:
    """A new private key as PEM, on the curve P-256."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def load_key(key: bytes) -> ec.EllipticCurvePrivateKey:
    """A key of `new_key`. Raises CertificateError."""
    try:
        found = serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError) as error:
        raise CertificateError(f"the private key cannot be read: {error}") from error
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise CertificateError("the private key is none of an elliptic curve")
    return found


def load_certificate(pem: bytes) -> x509.Certificate:
    """The first certificate of a PEM text. Raises CertificateError."""
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise CertificateError(f"the certificate cannot be read: {error}") from error


def _subject(node_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node_name}"),
        ]
    )


def _alternatives(template: CertificateTemplate) -> x509.SubjectAlternativeName:
    ips = [x509.IPAddress(ipaddress.ip_address(each)) for each in template.addresses]
    return x509.SubjectAlternativeName([*(x509.DNSName(each) for each in template.dns_names), *ips])


def make_request(key: bytes, node_name: str, template: CertificateTemplate) -> bytes:
    """A certificate request as PEM, for the user `system:node:NAME` of the group `system:nodes`. Raises CertificateError."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(_subject(node_name))
    if template.dns_names or template.addresses:
        builder = builder.add_extension(_alternatives(template), critical=False)
    return builder.sign(load_key(key), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def satisfies(certificate: bytes, template: CertificateTemplate) -> bool:
    """Whether a certificate (PEM) says at least what a template wants. Raises CertificateError."""
    try:
        found = load_certificate(certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return not template.dns_names and not template.addresses
    names = set(found.get_values_for_type(x509.DNSName))
    ips = {str(each) for each in found.get_values_for_type(x509.IPAddress)}
    wanted = {str(ipaddress.ip_address(each)) for each in template.addresses}
    return names >= set(template.dns_names) and ips >= wanted


def request_name(key: bytes, node_name: str, usages: Iterable[str]) -> str:
    """The name of a first request: the same for the same key, so that a kubelet that starts again finds the request that it has made. Raises
    CertificateError."""
    public = (
        load_key(key)
        .public_key()
        .public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    parts = [public, f"system:node:{node_name}".encode(), b"system:nodes", *(each.encode() for each in usages)]
    digest = hashlib.sha256(b"|".join(base64.urlsafe_b64encode(part) for part in parts))
    return f"node-csr-{base64.urlsafe_b64encode(digest.digest()).decode().rstrip('=')}"


async def request_certificate(
    client: Client,
    key: bytes,
    node_name: str,
    signer: str,
    usages: tuple[str, ...],
    template: CertificateTemplate | None = None,
    *,
    name: str = "",
    seconds: float = 900.0,
) -> bytes:
    """The certificate (PEM) that the signer gives. name: of the CertificateSigningRequest, found again if there is one; else the server gives it a name.

    Raises CertificateError if it is denied, fails, or does not come within `seconds`; ApiError, TransportError.
    """
    request = make_request(key, node_name, template or CertificateTemplate())
    wanted = certificates_v1.CertificateSigningRequest(
        metadata=meta_v1.ObjectMeta(name=name, generate_name="" if name else "csr-"),
        spec=certificates_v1.CertificateSigningRequestSpec(
            request=base64.b64encode(request).decode(), signer_name=signer, usages=usages
        ),
    )
    try:
        made = await client.create(wanted)
    except ApiError as error:
        if error.reason != "AlreadyExists" or not name:
            raise
        made = await client.get(certificates_v1.CertificateSigningRequest, name)
        _check_own(made, key, signer)
    try:
        async with asyncio.timeout(seconds):
            return await _issued(client, made)
    except TimeoutError as error:
        raise CertificateError(
            f"certificate signing request {made.metadata.name} was not signed within {seconds:g} s: approve it with kubectl certificate approve {made.metadata.name}"
        ) from error


def _check_own(found: certificates_v1.CertificateSigningRequest, key: bytes, signer: str) -> None:
    """Raises CertificateError if a request of this name is not one for this key."""
    asked = x509.load_pem_x509_csr(base64.b64decode(found.spec.request or ""))
    if asked.public_key() != load_key(key).public_key() or found.spec.signer_name != signer:
        raise CertificateError(
            f"certificate signing request {found.metadata.name} is there already, for another key or signer"
        )


async def _issued(client: Client, request: certificates_v1.CertificateSigningRequest) -> bytes:
    """Wait for the certificate of a request."""
    name, uid = request.metadata.name, request.metadata.uid
    while True:
        certificate = _certificate(request)
        if certificate:
            return certificate
        stream = await client.watch(
            certificates_v1.CertificateSigningRequest,
            field_selector=f"metadata.name={name}",
            resource_version=request.metadata.resource_version,
        )
        certificate = await _first(stream)
        if certificate:
            return certificate
        # The watch has ended, as watches do; what was missed shows in the object.
        request = await client.get(certificates_v1.CertificateSigningRequest, name)
        if request.metadata.uid != uid:
            raise CertificateError(f"certificate signing request {name} was deleted and made anew")


async def _first(stream: WatchStream[certificates_v1.CertificateSigningRequest]) -> bytes:
    """The certificate from a watch; empty when it ends without one."""
    try:
        async for event in stream:
            if event.type == "DELETED":
                raise CertificateError(f"certificate signing request {event.object.metadata.name} was deleted")
            if event.type in ("ADDED", "MODIFIED"):
                certificate = _certificate(event.object)
                if certificate:
                    return certificate
    finally:
        stream.close()
    return b""


def _certificate(request: certificates_v1.CertificateSigningRequest) -> bytes:
    """The certificate of a request, empty as long as there is none. Raises CertificateError if there never will be."""
    for condition in request.status.conditions:
        if condition.type in ("Denied", "Failed"):
            text = f"certificate signing request {request.metadata.name} is {condition.type.lower()}"
            raise CertificateError(f"{text}, reason: {condition.reason}, message: {condition.message}")
    return base64.b64decode(request.status.certificate)


def self_signed(host: str, now: float) -> tuple[bytes, bytes]:
    """(certificate, key) as PEM for a server of this name or address, signed by itself; for a year from `now` (seconds since the epoch)."""
    key = ec.generate_private_key(ec.SECP256R1())
    template = CertificateTemplate((), (host,)) if _is_ip(host) else CertificateTemplate((host,), ())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{host}@{int(now)}"[:64])])
    start = datetime.fromtimestamp(now, UTC)
    usage = x509.KeyUsage(True, False, True, False, False, False, False, False, False)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - timedelta(hours=1))
        .not_valid_after(start + _YEAR)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_alternatives(template), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), encoded
