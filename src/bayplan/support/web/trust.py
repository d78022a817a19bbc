"""Whom a TLS connection believes, by the rules of Go, and how clients learn that they are not believed."""

from __future__ import annotations

import ssl


def trust(context: ssl.SSLContext, certificates: str) -> None:
    """Believe whoever shows one of these certificates (PEM), or one that they vouch for. As in Go, they need not be authorities: a server's own certificate is
    enough, which is what a webhook's `caBundle` often is. Raises ssl.SSLError."""
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=certificates)


class _RefusalsSent(ssl.SSLObject):
    """The server's side of a connection whose client is told why it is refused.

    An event loop that hears of a failed handshake closes the connection, and with it goes the alert that OpenSSL has written for the other side, which sees no
    more than an end (TLS 1.3 lets it believe meanwhile that all is well). Here the failure waits until the alert is sent: the handshake seems to want more
    data first, and fails when some come, when the client hangs up, or when its time is over.
    """

    _refusal: ssl.SSLError | None = None

    def do_handshake(self) -> None:
        """See SSLObject."""
        if self._refusal is not None:
            raise self._refusal
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            self._refusal = error
            raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "the alert is sent first") from error


def ask_for_client_certificates(context: ssl.SSLContext) -> None:
    """Have a server ask its clients for certificates, without demanding any. One that shows a certificate nobody vouches for gets a TLS alert that says so."""
    context.verify_mode = ssl.CERT_OPTIONAL
    context.sslobject_class = _RefusalsSent
