"""TLS at both ends of the API server: for its clients, and where it is a client of kubelets and pods."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bayplan.apiserver.certificates import KeyPair
from bayplan.support.system.private_files import temporary_private_file
from bayplan.support.web.trust import ask_for_client_certificates, trust


@dataclass(frozen=True, slots=True)
class NamedPair:
    """A certificate that clients see who ask for the server by one of these names."""

    pair: KeyPair
    names: tuple[str, ...] = ()
    """Domain names, perhaps with `*.` in front; none: those in the certificate."""


def tls_context(
    server: KeyPair, client_ca: bytes | None, named: Sequence[NamedPair] = (), protocols: Sequence[str] = ()
) -> ssl.SSLContext:
    """TLS for the server; client certificates are asked for, not demanded, if there is an authority for them.

    named: further certificates; names that are given go before those in certificates, earlier pairs before later ones. protocols: what is spoken
    above TLS, as clients may choose it (ALPN); none: they are not asked. Raises OSError, ssl.SSLError, ValueError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(context, server)
    if client_ca is not None:
        ask_for_client_certificates(context)
        trust(context, client_ca.decode())
    if protocols:
        context.set_alpn_protocols(list(protocols))
    if named:
        context.sni_callback = _choice([(one, tls_context(one.pair, client_ca, (), protocols)) for one in named])
    return context


def _choice(
    named: Sequence[tuple[NamedPair, ssl.SSLContext]],
) -> Callable[[ssl.SSLObject | ssl.SSLSocket, str | None, ssl.SSLContext], None]:
    """What chooses the certificate by the name that a client asks for. Source: Go's `crypto/tls`, `getCertificate`."""
    by_name: dict[str, ssl.SSLContext] = {}
    for has_names in (False, True):
        for one, context in reversed(named):
            if bool(one.names) is has_names:
                by_name |= {name.lower(): context for name in one.names or _names_in(one.pair.certificate)}

    def choose(connection: ssl.SSLObject | ssl.SSLSocket, asked: str | None, default: ssl.SSLContext) -> None:
        name = (asked or "").lower().rstrip(".")
        found = by_name.get(name) or by_name.get("*." + name.partition(".")[2])
        if found is not None:
            connection.context = found

    return choose


def _names_in(certificate: bytes) -> tuple[str, ...]:
    """The domain names that a certificate (PEM) is for. Addresses are left out: clients do not ask by them. Raises ValueError."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    found = x509.load_pem_x509_certificate(certificate)
    common = [str(one.value) for one in found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    try:
        alternative = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return tuple(common)
    return (*common, *alternative.get_values_for_type(x509.DNSName))


def client_tls(pair: KeyPair | None = None, authority: bytes = b"") -> ssl.SSLContext:
    """TLS for a request to a kubelet or a pod.

    pair: with what the server shows who it is. authority: who vouches for the other side (PEM); b"": nobody, any certificate will do, as with
    kube-apiserver. Raises OSError, ssl.SSLError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if authority:
        trust(context, authority.decode())
    else:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if pair is not None:
        _load(context, pair)
    return context


def aggregated_tls(pair: KeyPair | None, authority: bytes, *, is_checked: bool) -> ssl.SSLContext:
    """TLS for a request to an aggregated server.

    pair: with what the server shows that it is the front proxy. authority: who vouches for the other side (PEM); b"": the authorities of the system.
    is_checked: whether somebody must. Raises OSError, ssl.SSLError, UnicodeDecodeError.
    """
    if authority or not is_checked:
        return client_tls(pair, authority if is_checked else b"")
    context = ssl.create_default_context()
    if pair is not None:
        _load(context, pair)
    return context


def _load(context: ssl.SSLContext, pair: KeyPair) -> None:
    """The ssl module reads certificates from files only."""
    with temporary_private_file(pair.certificate + b"\n" + pair.key) as file:
        context.load_cert_chain(file, password=_no_password)


def _no_password() -> str:
    """Called for the password of an encrypted key, which would be asked for at the terminal. Raises ssl.SSLError."""
    raise ssl.SSLError("the private key is encrypted, and nothing says with which password")
