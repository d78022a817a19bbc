"""TLS at both ends of the API server: for its clients, and where it is a client of kubelets and pods."""

from __future__ import annotations

import ssl

from bayplan.apiserver.certificates import KeyPair
from bayplan.support.private_files import temporary_private_file
from bayplan.support.trust import trust


def tls_context(server: KeyPair, client_ca: bytes | None) -> ssl.SSLContext:
    """TLS for the server; client certificates are asked for, not demanded, if there is an authority for them. Raises OSError, ssl.SSLError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(context, server)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
        trust(context, client_ca.decode())
    return context


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
        context.load_cert_chain(file)
