"""The HTTP(S) transport of the API server: aiohttp in front of `ApiServer.handle`. One handler, no routes."""

from __future__ import annotations

import asyncio
import logging
import ssl
import tempfile
from pathlib import Path
from urllib.parse import parse_qsl, unquote

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from bayplan.api.errors import gone, request_too_large, unauthorized
from bayplan.apiserver.authentication import Authenticator
from bayplan.apiserver.certificates import KeyPair
from bayplan.apiserver.http_answer import usual_answer
from bayplan.apiserver.nonresource import PUBLIC_PATHS
from bayplan.apiserver.requests import ANONYMOUS, Request, Response, User
from bayplan.apiserver.server import ApiServer, error_response
from bayplan.apiserver.verbs.read import bookmark_entry
from bayplan.apiserver.watching import BOOKMARK, Watcher

logger = logging.getLogger(__name__)

_DRAIN_SECONDS = 1.0
_LARGE, _PIECE = 1 << 20, 1 << 17
_REAP_SECONDS = 5.0
_HEADER_LIMIT = 1 << 20
"""Bytes of a request line or header, as Go's server takes them."""


class HttpServer:
    """Serves an ApiServer on a socket."""

    def __init__(self, server: ApiServer, authenticator: Authenticator) -> None:
        self.server = server
        self.authenticator = authenticator
        self._limit = server.context.settings.max_request_bytes
        self._runner: web.ServerRunner | None = None
        self._streams: dict[Watcher, web.BaseRequest] = {}
        self._reaper: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Listen. Returns the port (chosen by the system if 0 is given). Raises OSError if the address is taken."""
        handler = web.Server(
            self._handle,
            access_log=None,
            keepalive_timeout=300,
            max_line_size=_HEADER_LIMIT,
            max_field_size=_HEADER_LIMIT,
        )
        runner = web.ServerRunner(handler, shutdown_timeout=_DRAIN_SECONDS)
        await runner.setup()
        site = web.TCPSite(runner, host, port, ssl_context=tls, backlog=1024)
        try:
            await site.start()
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        self._reaper = asyncio.create_task(self._reap(), name="watches of clients that have gone")
        return int(runner.addresses[0][1])

    async def stop(self) -> None:
        """End watches, let running requests finish for a moment, close."""
        if self._reaper is not None:
            self._reaper.cancel()
        for watcher in tuple(self._streams):
            watcher.close()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _reap(self) -> None:
        """End watches whose client went away while nothing happened: nobody notices otherwise."""
        while True:
            await self.server.context.clock.sleep(_REAP_SECONDS)
            for watcher, http in tuple(self._streams.items()):
                if http.transport is None or http.transport.is_closing():
                    watcher.close()

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        request = await self._request(http)
        if isinstance(request, Response):
            return _plain(request)
        response = await self.server.handle(request)
        if response.watcher is not None:
            return await self._stream(http, response, response.watcher)
        pretty = wants_pretty(http.raw_path.partition("?")[2], request.user_agent)
        usual = None if pretty else usual_answer(http, response, self.server.context.clock.now())
        if usual is not None:
            return usual
        answer = _plain(response, pretty=pretty)
        return answer if len(response.body) < _LARGE else await self._in_pieces(http, answer)

    async def _in_pieces(self, http: web.BaseRequest, answer: web.Response) -> web.StreamResponse:
        """A large body in pieces: TLS buffers that grow to the whole body cost more than making it."""
        body = memoryview(answer.body if isinstance(answer.body, bytes) else b"")
        stream = web.StreamResponse(status=answer.status, headers=answer.headers)
        stream.content_length = len(body)
        await stream.prepare(http)
        for start in range(0, len(body), _PIECE):
            await stream.write(body[start : start + _PIECE])
        await stream.write_eof()
        return stream

    async def _request(self, http: web.BaseRequest) -> Request | Response:
        headers = http.headers
        path, _, query_string = http.raw_path.partition("?")
        if "%" in path:
            path = unquote(path)
        user = self._user(http, headers.get("Authorization", ""))
        if user is None or (user is ANONYMOUS and not path.startswith(PUBLIC_PATHS)):
            return error_response(unauthorized())
        body = b""
        if http.body_exists:
            length = http.content_length
            if length is not None and length > self._limit:
                return error_response(request_too_large(self._limit))
            if length is None:
                body = await self._bounded(http)
            else:
                content = http.content
                body = content.read_nowait() if content.is_eof() else await content.read()
            if len(body) > self._limit:
                return error_response(request_too_large(self._limit))
        return Request(
            http.method,
            path,
            http.query if query_string else _NO_QUERY,
            user,
            body,
            headers.get("Content-Type", ""),
            headers.get("Accept", ""),
            headers.get("User-Agent", ""),
        )

    async def _bounded(self, http: web.BaseRequest) -> bytes:
        """A chunked body, but not more than one byte over the limit."""
        chunks, size = [], 0
        async for chunk in http.content.iter_any():
            chunks.append(chunk)
            size += len(chunk)
            if size > self._limit:
                break
        return b"".join(chunks)

    def _user(self, http: web.BaseRequest, authorization: str) -> User | None:
        if authorization:
            return self.authenticator.authenticate(authorization)
        name: str = ""
        groups: tuple[str, ...] = ()
        transport = http.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        if certificate:
            subject = [pair for row in certificate.get("subject", ()) for pair in row]
            name = next((value for key, value in subject if key == "commonName"), "")
            groups = tuple(value for key, value in subject if key == "organizationName")
        return self.authenticator.authenticate("", name, groups)

    async def _stream(self, http: web.BaseRequest, response: Response, watcher: Watcher) -> web.StreamResponse:
        stream = web.StreamResponse(headers=_headers(response))
        stream.enable_chunked_encoding()
        await stream.prepare(http)
        self._streams[watcher] = http
        timer = self.server.context.clock.call_later(watcher.timeout or 0, watcher.close) if watcher.timeout else None
        bookmarks = asyncio.create_task(self._bookmark(watcher)) if watcher.bookmarks else None
        try:
            while batch := await watcher.next_batch():
                await stream.write(b"".join([watcher.line(*event) for event in batch]))
            if watcher.overrun:
                status = msgspec.json.encode(gone("the watch was too slow and has been ended").status)
                await stream.write(b'{"type":"ERROR","object":%b}\n' % status)
            await stream.write_eof()
        except (ConnectionResetError, asyncio.CancelledError):
            pass  # the client has gone; there is nobody to tell
        finally:
            watcher.close()
            del self._streams[watcher]
            if timer is not None:
                timer.cancel()
            if bookmarks is not None:
                bookmarks.cancel()
        return stream

    async def _bookmark(self, watcher: Watcher) -> None:
        """Tell the client now and then how far it is."""
        context = self.server.context
        while not watcher.closed:
            await context.clock.sleep(context.settings.bookmark_interval)
            watcher.put(BOOKMARK, bookmark_entry(context.objects.revision), None)


_NO_QUERY: dict[str, str] = {}
_BLANKS = {**dict.fromkeys(range(32), " "), 127: " "}
"""Control characters, which no header may have."""


def _headers(response: Response) -> CIMultiDict[str]:
    headers: CIMultiDict[str] = CIMultiDict(response.headers)
    if response.content_type:
        headers["Content-Type"] = response.content_type
    headers["Cache-Control"] = "no-cache, private"
    for warning in response.warnings:
        escaped = warning.replace("\\", "\\\\").replace('"', '\\"').translate(_BLANKS)
        headers.add("Warning", f'299 - "{escaped}"')
    return headers


def wants_pretty(query: str, user_agent: str) -> bool:
    """Whether JSON is to be indented: asked for with `pretty`, or for tools that people look at."""
    if "pretty" in query:
        value = next((value for key, value in parse_qsl(query) if key == "pretty"), "")
        if value:
            return value.lower() in ("1", "t", "true")
    return user_agent.startswith(_READ_BY_PEOPLE)


_READ_BY_PEOPLE = ("curl", "Wget", "Mozilla/5.0")


def _plain(response: Response, *, pretty: bool = False) -> web.Response:
    body = response.body
    if response.content_type.startswith("application/json") and body[:1] == b"{" and not response.is_final:
        body = msgspec.json.format(body, indent=2) if pretty else body + b"\n"
    return web.Response(body=body, status=response.code, headers=_headers(response))


def tls_context(server: KeyPair, client_ca: bytes | None) -> ssl.SSLContext:
    """TLS for the server; client certificates are asked for, not demanded, if there is an authority for them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.TemporaryDirectory() as directory:  # the ssl module reads certificates from files only
        certificate, key = Path(directory, "tls.crt"), Path(directory, "tls.key")
        certificate.write_bytes(server.certificate)
        key.touch(mode=0o600)
        key.write_bytes(server.key)
        context.load_cert_chain(certificate, key)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=client_ca.decode())
    return context
