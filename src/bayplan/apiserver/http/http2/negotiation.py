"""Which protocol a connection speaks: what TLS has agreed on (ALPN), and HTTP/1.1 where it has not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

HTTP2: Final = "h2"
HTTP1: Final = "http/1.1"


class Negotiated(asyncio.Protocol):
    """Stands for a new connection until its handshake has been made."""

    __slots__ = ("_http1", "_http2")

    def __init__(self, http1: Callable[[], asyncio.Protocol], http2: Callable[[], asyncio.Protocol]) -> None:
        """Who makes the protocol of a connection."""
        self._http1, self._http2 = http1, http2

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        tls = transport.get_extra_info("ssl_object")
        agreed = tls.selected_alpn_protocol() if tls is not None else None
        protocol = (self._http2 if agreed == HTTP2 else self._http1)()
        cast("asyncio.Transport", transport).set_protocol(protocol)
        protocol.connection_made(transport)
