"""Requests that somebody else answers: passed on over HTTP(S), or as a tunnel once both ends speak another protocol.

Source: kube-apiserver's UpgradeAwareHandler, proxy transport and LocationStreamer. Pages of HTML get links that lead through the proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import posixpath
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlsplit, urlunsplit

import aiohttp
import yarl
from aiohttp import web
from multidict import CIMultiDict

from bayplan.api.errors import ApiError, bad_request, failure, internal_error
from bayplan.apiserver.aggregation.forwarding import is_identity_header
from bayplan.apiserver.aggregation.probing import Page, Question
from bayplan.apiserver.authentication.headers import without_token
from bayplan.apiserver.certificates import KeyPair
from bayplan.apiserver.http.body import sends_chunks
from bayplan.apiserver.http.html_pages import LONGEST_PAGE, is_rewritable, rewrite_page
from bayplan.apiserver.http.messages import LogContent, send_messages
from bayplan.apiserver.http.stream_translation import is_translated, translate
from bayplan.apiserver.routing.dialing import request_problem
from bayplan.apiserver.routing.relays import Purpose, Relay, log_refusal, unavailable
from bayplan.apiserver.routing.resolving import Resolver
from bayplan.apiserver.tls import aggregated_tls, client_tls
from bayplan.streaming.interface import Stream, StreamError
from bayplan.support.clock import Clock
from bayplan.support.web.tunnels import tunnel
from bayplan.support.web.upgrades import is_websocket_request, wants_upgrade

_HOP_BY_HOP: Final = frozenset(
    ("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding")
)
_OWN: Final = ("authorization", "content-length")
"""Headers of the request that are for the API server alone."""
_NOT_ADDED: Final = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
"""Headers that only the client may set."""
_PATH_SAFE: Final = "/:@!$&'()*+,;=~"
_CONNECT_SECONDS = 30.0
_LOOK_SECONDS = 5.0
"""Between two looks whether the client of a silent stream is still there."""
_PAGE_SECONDS = 10.0
"""How long a kubelet may take for a page that the server itself asks for."""
_REFUSAL_BYTES = 50_000
"""Bytes of a refusal that are read."""
_HEADER_BYTES = 10 << 20
"""How long a header of an answer may be: as many bytes as Go's HTTP client takes of all headers."""


class Relays:
    """Passes requests on, with connections that are kept."""

    def __init__(
        self,
        clock: Clock,
        refuses: Callable[[str], str],
        kubelet_tls: ssl.SSLContext,
        front_proxy: KeyPair | None = None,
        is_identity_header: Callable[[str], bool] = is_identity_header,
    ) -> None:
        """is_identity_header: whether a header is one in which front proxies say who asks, besides the usual ones; it is not passed on.

        refuses: why an address must not be dialled; "" if it may. front_proxy: with what the server shows aggregated servers that it may tell them who asks."""
        self._clock = clock
        self._refuses = refuses
        self._any_tls = client_tls()
        self.use(kubelet_tls, front_proxy)
        self._drops = is_identity_header
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False
        self._streams: set[asyncio.Future[web.StreamResponse]] = set()
        """What this process serves itself."""

    def use(self, kubelet_tls: ssl.SSLContext, front_proxy: KeyPair | None) -> None:
        """Make new connections with these."""
        self._kubelet_tls = kubelet_tls
        self._aggregated_tls = functools.lru_cache(64)(functools.partial(aggregated_tls, front_proxy))

    async def serve(
        self, http: web.BaseRequest, body: bytes, relay: Relay, started: Callable[[int], None] | None = None
    ) -> web.StreamResponse:
        """Ask, and pass the answer on as it comes. started: told of the status of an answer that goes on. Raises ApiError."""
        if relay.log is not None:
            return await self._pass_on_log(http, relay.log, started)
        upgrades = wants_upgrade(http)
        if relay.purpose is Purpose.STREAM and not upgrades:
            raise bad_request("Upgrade request required")
        if relay.stream is not None:
            return await self._serve_stream(http, relay.stream, started)
        if relay.purpose is Purpose.PROXY and not upgrades and not relay.path and http.method in ("GET", "HEAD"):
            path, mark, query = http.raw_path.partition("?")
            return web.Response(status=301, headers={"Location": f"{path}/{mark}{query}"})
        url = _url(http, relay)
        if is_translated(http, relay):
            send = functools.partial(self._send_upgrade, relay, url)
            return await self._serve_stream(http, lambda _: translate(http, relay, send, self._clock), started)
        try:
            asking = self._open().request(
                "GET" if relay.purpose is Purpose.LOG else http.method,
                url,
                data=body or None,
                headers=_request_headers(http, relay, self._drops, upgrades=upgrades),
                ssl=self._tls_of(relay),
                server_hostname=relay.tls_name or None,
                allow_redirects=False,
                skip_auto_headers=_NOT_ADDED,
            )
            async with await _answer_of(http, asking) as answer:
                if started is not None and not (relay.purpose is Purpose.LOG and not _is_log(answer)):
                    started(answer.status)
                if answer.status == HTTPStatus.SWITCHING_PROTOCOLS:
                    return await self._tunnel(http, answer)
                return await self._pass_on(http, relay, answer)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _unreachable(relay, url, request_problem(error, relay.host, _port(relay))) from error

    @contextlib.asynccontextmanager
    async def _send_upgrade(
        self, relay: Relay, url: yarl.URL, headers: Mapping[str, str]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A kubelet's answer to a POST of the server itself. Raises StreamError."""
        try:
            answer = await self._open().post(
                url, headers=headers, ssl=self._tls_of(relay), allow_redirects=False, skip_auto_headers=_NOT_ADDED
            )
        except ApiError as error:
            raise StreamError(str(error)) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            problem = request_problem(error, relay.host, _port(relay))
            raise StreamError(f'error sending request: Post "{url}": {problem}') from error
        async with answer:
            yield answer

    def _tls_of(self, relay: Relay) -> ssl.SSLContext:
        """How a connection is made. Raises ApiError (503) for authorities that cannot be read."""
        if relay.purpose is Purpose.AGGREGATED:
            try:
                return self._aggregated_tls(relay.tls_authority, is_checked=bool(relay.tls_name))
            except (ssl.SSLError, UnicodeDecodeError, OSError) as error:
                raise unavailable(f"service unavailable: the authority of {relay.subject}: {error}") from error
        return self._kubelet_tls if relay.is_kubelet else self._any_tls

    async def ask_aggregated(self, relay: Relay, question: Question) -> Page:
        """Send a question of this process to an aggregated server. Raises ApiError (503) if it does not answer in time."""
        url = yarl.URL(f"{relay.scheme}://{relay.authority}{quote(relay.path, safe=_PATH_SAFE)}", encoded=True)
        headers = CIMultiDict([*relay.identity, ("Accept", question.accept)])
        if question.content_type:
            headers["Content-Type"] = question.content_type
        try:
            async with self._open().request(
                question.method,
                url,
                params=question.query,
                data=question.body or None,
                headers=headers,
                ssl=self._tls_of(relay),
                server_hostname=relay.tls_name or None,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=question.seconds),
            ) as answer:
                return Page(answer.status, answer.content_type, await answer.read())
        except TimeoutError:
            problem = "no answer in time"
        except aiohttp.ClientError as error:
            problem = request_problem(error, relay.host, relay.port)
        raise unavailable(f'{question.method} "{url}": {problem}')

    async def kubelet_page(self, host: str, port: str, path: str) -> bytes:
        """A page of a kubelet. Raises ApiError (503) if it does not answer with one in time."""
        relay = Relay(purpose=Purpose.PROXY, scheme="https", host=host, port=port, path=path, query="", is_kubelet=True)
        url = yarl.URL(f"https://{relay.authority}{path}", encoded=True)
        limit = aiohttp.ClientTimeout(total=_PAGE_SECONDS)
        try:
            async with self._open().get(url, ssl=self._kubelet_tls, allow_redirects=False, timeout=limit) as answer:
                if answer.status != HTTPStatus.OK:
                    text = (await answer.content.read(_REFUSAL_BYTES)).decode(errors="replace")
                    raise unavailable(f"{url} answered {answer.status}: {text}")
                return await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise unavailable(f"{url} does not answer: {error or type(error).__name__}") from error

    async def close(self) -> None:
        """Close the connections."""
        self._is_closed = True
        for stream in self._streams:
            stream.cancel()
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        """Connections that are kept. Raises ApiError (503) when the server stops: nobody would close them."""
        if self._is_closed:
            raise unavailable("the server is shutting down")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, resolver=Resolver(self._refuses)),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                max_field_size=_HEADER_BYTES,
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
        if relay.purpose is Purpose.PROXY and http.method != "HEAD" and is_rewritable(answer.headers):
            return await self._pass_on_page(http, relay, answer, stream)
        has_body = answer.status not in (204, 304) and http.method != "HEAD"
        if "Content-Length" not in stream.headers and has_body and sends_chunks(http):
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

    async def _pass_on_log(
        self, http: web.BaseRequest, log: AsyncIterator[bytes], started: Callable[[int], None] | None
    ) -> web.StreamResponse:
        """A log that this process has, until it or the server ends or the client has gone."""
        if started is not None:
            started(HTTPStatus.OK)
        if is_websocket_request(http):
            return await send_messages(http, LogContent(self._while_wanted(http, log)))
        stream = web.StreamResponse(headers={"Content-Type": "text/plain", "Cache-Control": "no-cache, private"})
        if sends_chunks(http):
            stream.enable_chunked_encoding()
        await stream.prepare(http)
        with contextlib.suppress(ConnectionError):  # if the client has gone
            async for piece in self._while_wanted(http, log):
                if piece:
                    await stream.write(piece)
            await stream.write_eof()
        return stream

    async def _serve_stream(
        self, http: web.BaseRequest, stream: Stream, started: Callable[[int], None] | None
    ) -> web.StreamResponse:
        """A connection that this process serves, until it or the server ends or the client has gone."""
        if started is not None:
            started(HTTPStatus.SWITCHING_PROTOCOLS)
        serving = asyncio.ensure_future(stream(http))
        self._streams.add(serving)
        try:
            return await serving
        except ConnectionError as error:
            raise failure(500, "", str(error), details=False) from error
        finally:
            self._streams.discard(serving)

    async def _while_wanted(self, http: web.BaseRequest, log: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for piece in log:
            if self._is_closed or _has_gone(http):
                return
            yield piece

    async def _pass_on_page(
        self, http: web.BaseRequest, relay: Relay, answer: aiohttp.ClientResponse, stream: web.StreamResponse
    ) -> web.StreamResponse:
        """A page whose links lead through the proxy; one that is very long is passed on as it is."""
        read = bytearray()
        try:
            while len(read) <= LONGEST_PAGE and (piece := await self._next_piece(http, answer.content)) is not None:
                read += piece
        except aiohttp.ClientError as error:
            raise unavailable(f"error trying to reach service: {error}") from error
        body = bytes(read)
        if len(body) <= LONGEST_PAGE:
            encoding = answer.headers.get("Content-Encoding", "")
            body = rewrite_page(body, encoding, lambda link: _through_proxy(link, http, relay, is_page=True))
            stream.headers["Content-Length"] = str(len(body))
        elif "Content-Length" not in stream.headers and sends_chunks(http):
            stream.enable_chunked_encoding()
        await stream.prepare(http)
        with contextlib.suppress(ConnectionError):  # if the client has gone
            await stream.write(body)
            if len(body) > LONGEST_PAGE:
                while (piece := await self._next_piece(http, answer.content)) is not None:
                    await stream.write(piece)
            await stream.write_eof()
        return stream

    async def _tunnel(self, http: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        try:
            return await tunnel(http, answer, self._clock)
        except ConnectionError as error:
            raise failure(500, "", str(error), details=False) from error

    async def _next_piece(self, http: web.BaseRequest, content: aiohttp.StreamReader) -> bytes | None:
        """What comes next, b"" if nothing does for a while; None at the end, also if the client has gone."""
        if _has_gone(http):
            return None
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                return await content.readany() or None
        except TimeoutError:
            return b""


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
    """What is asked for: of a proxied request the query stays as it came, of one for an aggregated server the path, too."""
    if relay.purpose is Purpose.AGGREGATED:
        path, _, query = http.raw_path.partition("?")
    else:
        query = http.raw_path.partition("?")[2] if relay.purpose is Purpose.PROXY else relay.query
        path = quote(relay.path, safe=_PATH_SAFE) or "/"
    return yarl.URL(urlunsplit((relay.scheme, relay.authority, path, query, "")), encoded=True)


def _request_headers(
    http: web.BaseRequest, relay: Relay, drops: Callable[[str], bool], *, upgrades: bool
) -> CIMultiDict[str]:
    headers: CIMultiDict[str] = CIMultiDict()
    if relay.purpose is Purpose.LOG:
        return headers
    for name, value in http.headers.items():
        lower = name.lower()
        if lower not in _HOP_BY_HOP and lower not in _OWN and not lower.startswith("impersonate-"):
            if is_identity_header(lower) or drops(lower) or (relay.purpose is Purpose.AGGREGATED and lower == "host"):
                continue
            if lower == "sec-websocket-protocol" and not (value := without_token(value)):
                continue
            headers.add(name, value)
    for name, value in relay.identity:
        headers.add(name, value)
    if upgrades:
        headers["Connection"] = "Upgrade"
    else:
        headers.popall("Upgrade", None)
    came_from = [*http.headers.getall("X-Forwarded-For", []), *([http.remote] if http.remote else [])]
    headers["X-Forwarded-For"] = ", ".join(came_from)
    if relay.purpose in (Purpose.PROXY, Purpose.AGGREGATED) and not upgrades:
        headers["X-Forwarded-Uri"] = http.raw_path.partition("?")[0]
        headers["X-Forwarded-Host"] = http.host
        headers["X-Forwarded-Proto"] = "https"
    return headers


def _answer_headers(http: web.BaseRequest, relay: Relay, answer: aiohttp.ClientResponse) -> CIMultiDict[str]:
    headers: CIMultiDict[str] = CIMultiDict(
        (name, value) for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP
    )
    if relay.purpose is not Purpose.AGGREGATED and (location := headers.get("Location")):
        headers["Location"] = _through_proxy(location, http, relay)
    return headers


def _through_proxy(location: str, http: web.BaseRequest, relay: Relay, *, is_page: bool = False) -> str:
    """Where a redirect, or a link of a page, leads for a client that comes through the API server: what is on the same host gets the proxy's path.

    Raises ApiError (500) for a redirect that is no URL.
    """
    try:
        parts = urlsplit(location)
    except ValueError as error:
        if is_page:
            return location
        raise internal_error(f"failed to parse Location header: {error}") from None
    is_elsewhere = parts.netloc not in ("", relay.authority, http.host)
    if is_elsewhere or not parts.path.startswith("/"):
        return location
    own = http.raw_path.partition("?")[0]
    prefix = own.removesuffix(quote(relay.path, safe=_PATH_SAFE)) or own
    path = parts.path
    if not path.startswith(prefix):
        path = posixpath.join(prefix, path.lstrip("/"))
    return urlunsplit((*(("", "") if is_page else ("https", http.host)), path, parts.query, parts.fragment))


def _port(relay: Relay) -> str:
    return relay.port or ("443" if relay.scheme == "https" else "80")


def _unreachable(relay: Relay, url: yarl.URL, problem: str) -> ApiError:
    """The error for somebody who does not answer."""
    if relay.purpose is Purpose.LOG:
        return failure(500, "", f'Get "{url}": {problem}', details=False)
    if relay.purpose is Purpose.STREAM:
        return failure(500, "", f"error dialing backend: {problem}", details=False)
    return unavailable(f"error trying to reach service: {problem}")
