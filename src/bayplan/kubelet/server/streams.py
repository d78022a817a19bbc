"""exec, attach and port-forward: the kubelet asks the runtime where they are served, and passes the upgraded connection there byte by byte."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import aiohttp
import yarl
from aiohttp import web
from multidict import CIMultiDict

from bayplan.kubelet.server.errors import RequestError
from bayplan.support.clock import Clock
from bayplan.support.web.tunnels import tunnel

_HOP_BY_HOP: Final = frozenset(
    ("connection", "keep-alive", "te", "trailer", "transfer-encoding", "authorization", "content-length", "host")
)
_CONNECT_SECONDS = 30.0
_MOST_REFUSAL = 50_000
"""Bytes of a runtime's refusal that are passed on."""


class Streams:
    """Passes upgrades on to the runtime's streaming server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None

    async def serve(self, request: web.BaseRequest, url: str) -> web.StreamResponse:
        """Carry the client's connection to where the runtime serves the stream. Raises RequestError."""
        if "upgrade" not in request.headers.get("Connection", "").lower():
            raise RequestError(400, "Upgrade request required")
        headers = CIMultiDict(
            (name, value) for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP
        )
        headers["Connection"] = "Upgrade"
        try:
            async with self._open().request(
                request.method,
                yarl.URL(url, encoded=True),
                headers=headers,
                allow_redirects=False,
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            ) as answer:
                if answer.status == HTTPStatus.SWITCHING_PROTOCOLS:
                    return await tunnel(request, answer, self._clock)
                body = await answer.content.read(_MOST_REFUSAL)
                kind = answer.headers.get("Content-Type", "text/plain")
                return web.Response(status=answer.status, body=body, headers={"Content-Type": kind})
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
            raise RequestError(500, f"error dialing backend: {error}") from error

    async def close(self) -> None:
        """End what is open."""
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, force_close=True),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            )
        return self._session
