"""Whom a TLS connection believes, by the rules of Go."""

from __future__ import annotations

import ssl


def trust(context: ssl.SSLContext, certificates: str) -> None:
    """Believe whoever shows one of these certificates (PEM), or one that they vouch for. As in Go, they need not be authorities: a server's own certificate is
    enough, which is what a webhook's `caBundle` often is. Raises ssl.SSLError."""
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=certificates)
