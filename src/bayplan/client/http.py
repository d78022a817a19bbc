"""The HTTP(S) transport, over aiohttp."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from bayplan import __version__
from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.api.types import meta_v1
from bayplan.client.credentials import Credentials
from bayplan.client.errors import TransportError
from bayplan.client.transport import Decode, RawWatch, Transport, decode_event, status_of

_CHUNK = 1 << 20
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10)


_ALERT = re.compile(r"\[SSL: (?:TLSV1|TLSV13|SSLV3)_ALERT_(\w+)\]")
_ALERTS = {
    "UNKNOWN_CA": "it does not know who signed the client certificate",
    "BAD_CERTIFICATE": "it does not take the client certificate",
    "CERTIFICATE_EXPIRED": "the client certificate has expired",
    "CERTIFICATE_REQUIRED": "it wants a client certificate",
}


def reason_of(error: Exception) -> str:
    """Why a request got no answer; an alert of TLS in words."""
    text = str(error) or type(error).__name__
    alert = _ALERT.search(text)
    if alert is None:
        return text
    name = alert.group(1)
    return f"the server refuses the TLS connection: {_ALERTS.get(name, name.lower().replace('_', ' '))}"


class HttpTransport(Transport):
    """A `Transport` to any Kubernetes API server."""

    def __init__(
        self, credentials: Credentials, *, user_agent: str = f"bayplan/{__version__}", connections: int = 64
    ) -> None:
        self._base = credentials.server.rstrip("/")
        headers = CIMultiDict({"User-Agent": user_agent, "Accept": "application/json"})
        headers.extend(credentials.headers)
        if credentials.token:
            headers["Authorization"] = f"Bearer {credentials.token}"
        self._headers = headers
        self._source = credentials.source
        self._tls = credentials.tls
        self._options: dict[str, Any] = {}
        """What each request is sent with."""
        if credentials.tls_server_name:
            self._options["server_hostname"] = credentials.tls_server_name
        if credentials.proxy:
            self._options["proxy"] = credentials.proxy
        self._connections = connections
        self._opened: aiohttp.ClientSession | None = None

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            connector = aiohttp.TCPConnector(limit=0, limit_per_host=0, ssl=self._tls or True, keepalive_timeout=60)
            self._opened = aiohttp.ClientSession(
                connector=connector,
                headers=self._headers,
                auto_decompress=True,
                read_bufsize=_CHUNK,
                timeout=_NO_TIMEOUT,
            )
        return self._opened

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes = b"",
        content_type: str = "application/json",
    ) -> bytes:
        """See Transport."""
        headers = await self._authorization()
        if body:
            headers["Content-Type"] = content_type
        try:
            async with self._session.request(
                method,
                self._url(path, query),
                data=io.BytesIO(body) if len(body) > _CHUNK else body or None,
                headers=headers,
                **self._options,
            ) as response:
                data = await response.read()
                code = response.status
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise TransportError(f"{method} {self._base}{path}: {reason_of(error)}") from error
        if code >= 300:
            self._note_refusal(code, headers)
            raise ApiError(status_of(code, data))
        return data

    async def watch(self, kind: Kind, path: str, query: Mapping[str, str], decode: Decode) -> RawWatch:
        """See Transport."""
        return _HttpWatch(await self.open_text(path, query), decode)

    async def open_text(self, path: str, query: Mapping[str, str]) -> aiohttp.ClientResponse:
        """An answer that goes on for long; close it. Raises ApiError, TransportError."""
        headers = await self._authorization()
        try:
            response = await self._session.get(self._url(path, query), headers=headers, **self._options)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise TransportError(f"watch {self._base}{path}: {reason_of(error)}") from error
        if response.status >= 300:
            data = await response.read()
            self._note_refusal(response.status, headers)
            raise ApiError(status_of(response.status, data))
        return response

    async def open_socket(
        self, path: str, query: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> aiohttp.ClientWebSocketResponse:
        """A WebSocket; close it. Raises ApiError, TransportError."""
        headers = {**await self._authorization(), "Accept": "*/*"}  # what comes is of no type that servers know
        url = URL(self._base + path).with_query(query)
        try:
            socket: aiohttp.ClientWebSocketResponse = await self._session.ws_connect(
                url, protocols=protocols, headers=headers, heartbeat=30.0, max_msg_size=0, **self._options
            )
        except aiohttp.WSServerHandshakeError as error:
            self._note_refusal(error.status, headers)
            raise ApiError(await self._refusal(path, query, error.status)) from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise TransportError(f"connect {self._base}{path}: {reason_of(error)}") from error
        return socket

    async def _refusal(self, path: str, query: Sequence[tuple[str, str]], code: int) -> meta_v1.Status:
        """Why a WebSocket was refused with this code: what the same request is answered without one, if that has the code, since handshakes lose their bodies."""
        try:
            url = URL(self._base + path).with_query(query)
            async with self._session.get(url, headers=await self._authorization(), **self._options) as response:
                data = await response.content.read(_CHUNK) if response.status == code else b""
        except (aiohttp.ClientError, OSError, TimeoutError):
            data = b""
        return status_of(code, data)

    async def _authorization(self) -> dict[str, str]:
        """The headers that may differ from request to request. Raises TransportError."""
        token = await self._source.token() if self._source is not None else ""
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _note_refusal(self, code: int, headers: Mapping[str, str]) -> None:
        """Have another token for the next request if the server did not take this one."""
        if code == 401 and self._source is not None:
            self._source.refuse(headers.get("Authorization", "").removeprefix("Bearer "))

    def _url(self, path: str, query: Mapping[str, str]) -> URL | str:
        return URL(self._base + path).with_query(query) if query else self._base + path

    async def close(self) -> None:
        """Close all connections."""
        if self._opened is not None:
            await self._opened.close()
            self._opened = None


class _HttpWatch:
    """Lines of a chunked answer."""

    def __init__(self, response: aiohttp.ClientResponse, decode: Decode) -> None:
        self._response = response
        self._decode = decode
        self._rest = b""
        self._closed = False

    async def next_batch(self) -> Sequence[tuple[str, Any]]:
        """See RawWatch."""
        while not self._closed:
            try:
                chunk = await self._response.content.readany()
            except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError) as error:
                self.close()
                raise TransportError(f"watch {self._response.url.path}: {reason_of(error)}") from error
            if not chunk:
                break
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            if lines:
                return self._events(lines)
        self.close()
        return ()

    def _events(self, lines: list[bytes]) -> list[tuple[str, Any]]:
        try:
            return [decode_event(line, self._decode) for line in lines if line]
        except ApiError:
            self.close()
            raise

    def close(self) -> None:
        """See RawWatch."""
        if not self._closed:
            self._closed = True
            self._response.close()
