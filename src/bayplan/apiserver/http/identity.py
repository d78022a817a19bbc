"""Who sends a request over HTTP: by the certificate of the connection, the headers of a front proxy, or a token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from bayplan.apiserver.authentication.authenticator import Authenticator, Unfinished
from bayplan.apiserver.authentication.client_certificates import NO_CERTIFICATE, Certified, ClientCertificates
from bayplan.apiserver.authentication.headers import SocketTokenError, impersonation, socket_token
from bayplan.apiserver.authentication.metrics import AuthenticationMetrics
from bayplan.apiserver.authentication.request_headers import RequestHeaders
from bayplan.apiserver.http.headers import ParsedHeaders
from bayplan.apiserver.requests import ANONYMOUS, User
from bayplan.support.clock import Clock

if TYPE_CHECKING:
    from bayplan.apiserver.http.exchange import Peer

_PROTOCOLS: Final = "Sec-WebSocket-Protocol"
_LOWER_PROTOCOLS: Final = _PROTOCOLS.lower()
NOBODY: Final = User("")
"""Stands for a user that is not known yet."""


class Identities:
    """Finds users for the requests of connections."""

    def __init__(
        self,
        authenticator: Authenticator,
        certificates: ClientCertificates,
        headers: RequestHeaders | None,
        metrics: AuthenticationMetrics,
        clock: Clock,
    ) -> None:
        """headers: in which front proxies say who asks; None if there are none."""
        self.authenticator = authenticator
        self._certificates = certificates
        self._headers = headers
        self._metrics = metrics
        self._clock = clock

    def head(self, headers: Mapping[str, str]) -> ParsedHeaders:
        """What the headers of a request say."""
        pairs = headers.items()
        return ParsedHeaders(
            headers.get("Authorization", ""),
            headers.get("Content-Type", ""),
            headers.get("Accept", ""),
            headers.get("User-Agent", ""),
            impersonation(pairs),
            headers.get("X-Forwarded-For", ""),
            headers.get("X-Real-Ip", ""),
            self._headers.user(pairs) if self._headers is not None else None,
            _socket_token(headers) if _PROTOCOLS in headers else "",
        )

    def is_identity_header(self, name: str) -> bool:
        """Whether front proxies say in a header who asks: it is never passed on as it came."""
        return self._headers is not None and self._headers.names(name)

    def certify(self, connection: Peer) -> Certified:
        """Judge the certificate of a connection."""
        now = self._clock.now()
        connection.certified = found = self._certificates.of(connection.transport, now)
        if found is not NO_CERTIFICATE:
            self._metrics.certified(found.not_after - now)
        return found

    def user(self, connection: Peer, head: ParsedHeaders, path: str) -> User | Unfinished | None:
        """Who sends a request; None if the credentials are wrong, or nobody may come without."""
        certified = connection.certified or self.certify(connection)
        if certified is not NO_CERTIFICATE and certified.not_after < self._clock.now():
            certified = self.certify(connection)
        authorization = head.authorization or (f"Bearer {head.socket_token}" if head.socket_token else "")
        found = self.authenticator.authenticate(authorization, certified, head.proxied, path)
        if found is ANONYMOUS and head.socket_token is None:
            found = None
        if not isinstance(found, Unfinished):
            self._metrics.record_at_once(found)
        return found

    async def finish(self, unfinished: Unfinished) -> User | None:
        """Who sends a request, by the sources that have to be waited for."""
        started = self._clock.monotonic()
        found = await self.authenticator.finish(unfinished)
        self._metrics.record(found, self._clock.monotonic() - started)
        return found


def _socket_token(headers: Mapping[str, str]) -> str | None:
    """See ParsedHeaders."""
    is_socket = headers.get("Upgrade", "").lower() == "websocket" and "upgrade" in headers.get("Connection", "").lower()
    try:
        return (
            socket_token(value for name, value in headers.items() if name.lower() == _LOWER_PROTOCOLS)[0]
            if is_socket
            else ""
        )
    except SocketTokenError:
        return None
