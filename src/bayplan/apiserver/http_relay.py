"""Requests that somebody else answers: passed on over HTTP(S), or as a tunnel once both ends speak another protocol.

Source: kube-apiserver's UpgradeAwareHandler, proxy transport and LocationStreamer. Links inside HTML pages are left as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
import ssl
from collections import deque
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlsplit, urlunsplit

import aiohttp
import yarl
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict

from bayplan.api.errors import ApiError, bad_request, failure, internal_error
from bayplan.apiserver.dialing import dial_problem
from bayplan.apiserver.http_messages import is_websocket_request, send_messages
from bayplan.apiserver.relays import Purpose, Relay, log_refusal, unavailable
from bayplan.apiserver.tls import client_tls
from bayplan.support.clock import Clock

_HOP_BY_HOP: Final = frozenset(
    ("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding")
)
_OWN: Final = ("authorization", "content-length")
"""Headers of the request that are for the API server alone."""
_CONNECT_SECONDS = 30.0
_LOOK_SECONDS = 5.0
"""Between two looks whether the client of a silent stream is still there."""
_DRAIN_SECONDS = 0.005
_TUNNEL_BYTES = 1 << 18
"""Bytes that may wait for a kubelet in a tunnel before the client is asked to wait, and in the buffer of either end."""
_TUNNEL_BYTES_BACK = 1 << 26
"""Bytes that may wait for a client before the kubelet is asked to wait. Very many: a TLS connection that is paused when its other end closes keeps the last
bytes to itself with uvloop."""
_LINGER_SECONDS = 2.0
"""For a client to read all and close, after a kubelet has closed."""
_REFUSAL_BYTES = 50_000
"""Bytes of a refusal that are read."""


class Relays:
    """Passes requests on, with connections that are kept."""

    def __init__(self, clock: Clock, kubelet_tls: ssl.SSLContext) -> None:
        self._clock = clock
        self._kubelet_tls, self._any_tls = kubelet_tls, client_tls()
        self._session: aiohttp.ClientSession | None = None

    async def serve(
        self, http: web.BaseRequest, body: bytes, relay: Relay, begun: Callable[[int], None] | None = None
    ) -> web.StreamResponse:
        """Ask, and pass the answer on as it comes. begun: told of the status of an answer that goes on. Raises ApiError."""
        upgrades = "upgrade" in http.headers.get("Connection", "").lower()
        if relay.purpose is Purpose.STREAM and not upgrades:
            raise bad_request("Upgrade request required")
        if relay.purpose is Purpose.PROXY and not upgrades and not relay.path and http.method in ("GET", "HEAD"):
            path, mark, query = http.raw_path.partition("?")
            return web.Response(status=301, headers={"Location": f"{path}/{mark}{query}"})
        url = _url(http, relay)
        try:
            asking = self._open().request(
                "GET" if relay.purpose is Purpose.LOG else http.method,
                url,
                data=body or None,
                headers=_request_headers(http, relay, upgrades=upgrades),
                ssl=self._kubelet_tls if relay.is_kubelet else self._any_tls,
                allow_redirects=False,
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            )
            async with await _answer_of(http, asking) as answer:
                if begun is not None and not (relay.purpose is Purpose.LOG and not _is_log(answer)):
                    begun(answer.status)
                if answer.status == HTTPStatus.SWITCHING_PROTOCOLS:
                    return await self._tunnel(http, answer)
                return await self._pass_on(http, relay, answer)
        except aiohttp.ClientConnectorCertificateError as error:
            raise _unreachable(relay, url, f"tls: failed to verify certificate: {error.certificate_error}") from error
        except aiohttp.ClientConnectorError as error:
            port = relay.port or ("443" if relay.scheme == "https" else "80")
            raise _unreachable(relay, url, dial_problem(error, relay.host, port)) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _unreachable(relay, url, str(error) or type(error).__name__) from error

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            )
        return self._session

    async def _pass_on(self, http: web.BaseRequest, relay: Relay, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        """An answer with a body, piece by piece."""
        is_log = relay.purpose is Purpose.LOG
        if is_log and not _is_log(answer):
            text = (await answer.content.read(_REFUSAL_BYTES)).decode(errors="replace")
            raise log_refusal(answer.status, text, relay.subject)
        if is_log and is_websocket_request(http):
            return await send_messages(http, answer.content)
        stream = web.StreamResponse(status=answer.status, reason=answer.reason)
        if is_log:
            stream.headers["Content-Type"] = "text/plain"
            stream.headers["Cache-Control"] = "no-cache, private"
        else:
            stream.headers.extend(_answer_headers(http, relay, answer))
        if "Content-Length" not in stream.headers and answer.status not in (204, 304) and http.method != "HEAD":
            stream.enable_chunked_encoding()
        await stream.prepare(http)
        try:
            while (piece := await self._next_piece(http, answer.content)) is not None:
                if piece:
                    await stream.write(piece)
        except aiohttp.ClientError:
            # It is too late for another answer: a log ends here, all else breaks off for the client as well.
            if not is_log and http.transport is not None:
                http.transport.abort()
        with contextlib.suppress(ConnectionError):  # if the client has gone
            await stream.write_eof()
        return stream

    async def _next_piece(self, http: web.BaseRequest, content: aiohttp.StreamReader) -> bytes | None:
        """What comes next, b"" if nothing does for a while; None at the end, also if the client has gone."""
        if _has_gone(http):
            return None
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                return await content.readany() or None
        except TimeoutError:
            return b""

    async def _tunnel(self, http: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        """Tell the client that the protocol changes, and carry bytes both ways until one end closes."""
        connection, client = answer.connection, http.transport
        if connection is None or connection.transport is None or connection.protocol is None or client is None:
            raise failure(500, "", "the connection is closed", details=False)
        backend = connection.transport
        head = b"".join(b"%b: %b\r\n" % pair for pair in answer.raw_headers)
        client.write(b"HTTP/1.1 101 Switching Protocols\r\n%b\r\n" % head)
        there = _Direction(self._clock, client, _TUNNEL_BYTES)
        back = _Direction(self._clock, backend, _TUNNEL_BYTES_BACK)
        http.protocol.set_parser(there)  # type: ignore[arg-type]  # what aiohttp needs of a parser
        connection.protocol.set_parser(back, None)
        carried = [asyncio.create_task(there.carry(backend)), asyncio.create_task(back.carry(client))]
        try:
            await asyncio.wait(carried, return_when=asyncio.FIRST_COMPLETED)
            if backend.is_closing() and not client.is_closing():
                await carried[1]  # what came last
                # To close on a client that still sends takes from it what it has not read yet.
                await there.ended(_LINGER_SECONDS)
        finally:
            for task in carried:
                task.cancel()
            backend.close()
            client.close()
        return _Sent(status=HTTPStatus.SWITCHING_PROTOCOLS)


class _Direction:
    """What goes one way through a tunnel. aiohttp feeds it as it feeds the parser of a protocol; its source is paused without aiohttp,
    which would pause its own parser."""

    def __init__(self, clock: Clock, source: asyncio.Transport, most: int) -> None:
        """most: bytes that may wait before the source is asked to wait."""
        self._clock = clock
        self._source = source
        self._most = most
        self._pieces: deque[bytes] = deque()
        self._waiting = 0
        self._is_paused = self._has_ended = False
        self._news = asyncio.Event()

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """More from the source."""
        self._pieces.append(bytes(data))
        self._waiting += len(data)
        if self._waiting > self._most and not self._is_paused:
            self._is_paused = True
            self._source.pause_reading()
        self._news.set()
        return False, b""

    def feed_eof(self) -> None:
        """The source has closed."""
        self._has_ended = True
        self._news.set()

    async def ended(self, seconds: float) -> None:
        """Return when the source has closed, or so many seconds have passed. What it still sends goes nowhere."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._has_ended:
                    self._pieces.clear()
                    self._waiting = 0
                    self._news.clear()
                    await self._news.wait()

    async def carry(self, target: asyncio.Transport) -> None:
        """Write what comes, as fast as the target takes it, until one of the two closes."""
        while not target.is_closing():
            if self._pieces:
                piece = self._pieces.popleft()
                self._waiting -= len(piece)
                target.write(piece)
                while target.get_write_buffer_size() > _TUNNEL_BYTES and not target.is_closing():
                    await self._clock.sleep(_DRAIN_SECONDS)
            elif self._has_ended:
                return
            else:
                if self._is_paused:
                    self._is_paused = False
                    self._source.resume_reading()
                self._news.clear()
                await self._news.wait()


class _Sent(web.StreamResponse):
    """An answer that has been given already, after which the connection is of no further use."""

    @property
    def keep_alive(self) -> bool:
        """Never."""
        return False

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Nothing is left to send."""
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to send."""


def _is_log(answer: aiohttp.ClientResponse) -> bool:
    return 200 <= answer.status <= 206


def _has_gone(http: web.BaseRequest) -> bool:
    return http.transport is None or http.transport.is_closing()


async def _answer_of(
    http: web.BaseRequest, asking: Coroutine[Any, Any, aiohttp.ClientResponse]
) -> aiohttp.ClientResponse:
    """The head of an answer, which nobody waits for when the client has gone. Raises aiohttp.ClientError."""
    asked = asyncio.create_task(asking)
    try:
        while not (await asyncio.wait((asked,), timeout=_LOOK_SECONDS))[0]:
            if _has_gone(http):
                raise aiohttp.ClientConnectionResetError("the client has gone")
    finally:
        asked.cancel()  # which an answer that is there does not mind
    return await asked


def _url(http: web.BaseRequest, relay: Relay) -> yarl.URL:
    """What is asked for: of a proxied request the query stays as it came."""
    query = http.raw_path.partition("?")[2] if relay.purpose is Purpose.PROXY else relay.query
    path = quote(relay.path, safe="/:@!$&'()*+,;=~") or "/"
    return yarl.URL(urlunsplit((relay.scheme, relay.authority, path, query, "")), encoded=True)


def _request_headers(http: web.BaseRequest, relay: Relay, *, upgrades: bool) -> CIMultiDict[str]:
    headers: CIMultiDict[str] = CIMultiDict()
    if relay.purpose is Purpose.LOG:
        return headers
    for name, value in http.headers.items():
        lower = name.lower()
        if lower not in _HOP_BY_HOP and lower not in _OWN and not lower.startswith("impersonate-"):
            headers.add(name, value)
    if upgrades:
        headers["Connection"] = "Upgrade"
    else:
        headers.popall("Upgrade", None)
    came_from = [*http.headers.getall("X-Forwarded-For", []), *([http.remote] if http.remote else [])]
    headers["X-Forwarded-For"] = ", ".join(came_from)
    if relay.purpose is Purpose.PROXY and not upgrades:
        headers["X-Forwarded-Uri"] = http.raw_path.partition("?")[0]
        headers["X-Forwarded-Host"] = http.host
        headers["X-Forwarded-Proto"] = "https"
    return headers


def _answer_headers(http: web.BaseRequest, relay: Relay, answer: aiohttp.ClientResponse) -> CIMultiDict[str]:
    headers: CIMultiDict[str] = CIMultiDict(
        (name, value) for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP
    )
    if location := headers.get("Location"):
        headers["Location"] = _through_proxy(location, http, relay)
    return headers


def _through_proxy(location: str, http: web.BaseRequest, relay: Relay) -> str:
    """Where a redirect leads for a client that comes through the API server: what is on the same host gets the proxy's path. Raises ApiError (500)."""
    try:
        parts = urlsplit(location)
    except ValueError as error:
        raise internal_error(f"failed to parse Location header: {error}") from None
    is_elsewhere = parts.netloc not in ("", relay.authority, http.host)
    if is_elsewhere or not parts.path.startswith("/"):
        return location
    own = http.raw_path.partition("?")[0]
    prefix = own.removesuffix(quote(relay.path, safe="/:@!$&'()*+,;=~")) or own
    path = parts.path
    if not path.startswith(prefix):
        path = posixpath.join(prefix, path.lstrip("/"))
    return urlunsplit(("https", http.host, path, parts.query, parts.fragment))


def _unreachable(relay: Relay, url: yarl.URL, problem: str) -> ApiError:
    """The error for somebody who does not answer."""
    if relay.purpose is Purpose.LOG:
        return failure(500, "", f'Get "{url}": {problem}', details=False)
    if relay.purpose is Purpose.STREAM:
        return failure(500, "", f"error dialing backend: {problem}", details=False)
    return unavailable(f"error trying to reach service: {problem}")
