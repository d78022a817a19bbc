"""The HTTP(S) transport of the API server: aiohttp in front of `ApiServer.handle`. One handler, no routes."""

from __future__ import annotations

import asyncio
import logging
import ssl
from urllib.parse import parse_qsl, unquote

import msgspec
from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from multidict import CIMultiDict

from bayplan.api.errors import ApiError, failure, request_too_large, unauthorized
from bayplan.apiserver.authentication import Authenticator
from bayplan.apiserver.authentication.certificates import CertificateUsers
from bayplan.apiserver.authentication.headers import bearer_token, impersonation
from bayplan.apiserver.http_answer import usual_answer
from bayplan.apiserver.http_body import GZIP_THRESHOLD, pieces_of, send
from bayplan.apiserver.http_relay import Relays
from bayplan.apiserver.http_watch import WatchStreams
from bayplan.apiserver.inflight import InFlight, too_many_requests
from bayplan.apiserver.nonresource import PUBLIC_PATHS
from bayplan.apiserver.requests import ANONYMOUS, Request, Response, User
from bayplan.apiserver.server import ApiServer, error_response
from bayplan.apiserver.tls import client_tls

logger = logging.getLogger(__name__)

_DRAIN_SECONDS = 1.0
_REAP_SECONDS = 5.0
_FAREWELL_SECONDS = 0.02
"""How long clients have to answer the end of TLS; whoever does not would keep the connection open."""
_HEADER_LIMIT = 1 << 20
"""Bytes of a request line or header, as Go's server takes them."""


class HttpServer:
    """Serves an ApiServer on a socket."""

    def __init__(
        self, server: ApiServer, authenticator: Authenticator, kubelet_tls: ssl.SSLContext | None = None
    ) -> None:
        """kubelet_tls: how kubelets are asked; by default without a certificate of the server's own."""
        self.server = server
        self.authenticator = authenticator
        self._certificate_users = CertificateUsers()
        self._limit = server.context.settings.max_request_bytes
        self._is_open = server.context.authorizer.allows_everything
        """Whether everybody who is known may do everything: then the unknown may only see whether the server is well."""
        self._runner: web.ServerRunner | None = None
        self._watches = WatchStreams(server.context)
        self._relays = Relays(server.context.clock, kubelet_tls or client_tls())
        self._reaper: asyncio.Task[None] | None = None
        settings = server.context.settings
        self.in_flight = InFlight(settings.max_requests_inflight, settings.max_mutating_requests_inflight)
        for label, count in (("readOnly", self._reading), ("mutating", self._mutating)):
            server.measured.in_flight.labels(label).set_function(count)
        self._spoken: dict[RequestHandler, User | None] = {}
        """Connections from which a request has come, and the users of their certificates."""
        self._silent: dict[RequestHandler, float] = {}
        """The others, and since when (Unix seconds) they are known."""

    def _reading(self) -> float:
        return float(self.in_flight.reading)

    def _mutating(self) -> float:
        return float(self.in_flight.mutating)

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Listen. Returns the port (chosen by the system if 0 is given). Raises OSError if the address is taken."""
        handler = web.Server(
            self._handle,
            access_log=None,
            keepalive_timeout=300,
            lingering_time=_DRAIN_SECONDS,
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
        self._watches.close()
        await self._relays.close()
        if self._runner is not None:
            server = self._runner.server
            left = [one.transport for one in server.connections if one.transport is not None] if server else []
            await self._runner.cleanup()
            self._runner = None
            if left:
                await self.server.context.clock.sleep(_FAREWELL_SECONDS)
            for transport in left:
                transport.abort()

    async def _reap(self) -> None:
        """End watches whose client went away while nothing happened: nobody notices otherwise."""
        while True:
            await self.server.context.clock.sleep(_REAP_SECONDS)
            self._watches.reap()
            self._end_silent_connections()

    def _end_silent_connections(self) -> None:
        """Close connections that have been open for long without a first request."""
        server = self._runner.server if self._runner is not None else None
        if server is None:
            return
        now = self.server.context.clock.now()
        for closed in self._spoken.keys() - server.connections:
            del self._spoken[closed]
        silent = {one: self._silent.get(one, now) for one in server.connections if one not in self._spoken}
        for connection, since in silent.items():
            if now - since > self.server.context.settings.header_timeout:
                connection.force_close()
        self._silent = silent

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        protocol = http.protocol
        if protocol not in self._spoken:
            self._spoken[protocol] = self._certificate_users.of(http.transport)
        try:
            request = await self._request(http)
        except TimeoutError:
            answer = _plain(error_response(_too_slow()))
            answer.force_close()
            return answer
        if isinstance(request, Response):
            return _plain(request)
        changes = self.in_flight.enter(request)
        if changes is None:
            return _plain(too_many_requests())
        try:
            response = await self.server.handle(request)
        finally:
            self.in_flight.leave(changes)
        if response.watcher is not None:
            return await self._watches.serve(http, _headers(response), response.watcher)
        if response.relay is not None:
            try:
                return await self._relays.serve(http, request.body, response.relay)
            except ApiError as error:
                return _plain(error_response(error))
        pretty = wants_pretty(http.raw_path.partition("?")[2], request.user_agent)
        usual = None if pretty else usual_answer(http, response, self.server.context.clock.now())
        return usual if usual is not None else await self._answer(http, response, pretty=pretty)

    async def _answer(self, http: web.BaseRequest, response: Response, *, pretty: bool) -> web.StreamResponse:
        """An answer that is large or has something of its own."""
        seconds = self.server.context.settings.request_timeout
        long_list = response.long_list
        if long_list is not None and not pretty:
            return await send(
                http, response.code, _headers(response), long_list.size + 1, long_list.pieces(b"\n"), seconds
            )
        body = laid_out(response, pretty=pretty)
        if len(body) <= GZIP_THRESHOLD:
            return web.Response(body=body, status=response.code, headers=_headers(response))
        return await send(http, response.code, _headers(response), len(body), pieces_of(body), seconds)

    async def _request(self, http: web.BaseRequest) -> Request | Response:
        headers = http.headers
        path, _, query_string = http.raw_path.partition("?")
        if "%" in path:
            path = unquote(path)
        authorization = headers.get("Authorization", "")
        user = self.authenticator.authenticate(authorization, self._spoken[http.protocol])
        if user is None or (user is ANONYMOUS and self._is_open and not path.startswith(PUBLIC_PATHS)):
            return error_response(unauthorized())
        body = b""
        if http.body_exists:
            length = http.content_length
            if length is not None and length > self._limit:
                return error_response(request_too_large(self._limit))
            content = http.content
            if content.is_eof():
                body = content.read_nowait()
            else:
                async with asyncio.timeout(self.server.context.settings.request_timeout):
                    body = await (self._bounded(http) if length is None else content.read())
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
            impersonation(headers.items()),
            bearer_token(authorization)[1] if user is ANONYMOUS and authorization else user.warning,
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


def _too_slow() -> ApiError:
    return failure(504, "Timeout", "Timeout: request did not complete within the allotted timeout")


def _plain(response: Response) -> web.Response:
    return web.Response(body=laid_out(response, pretty=False), status=response.code, headers=_headers(response))


def laid_out(response: Response, *, pretty: bool) -> bytes:
    """The body as it is sent: JSON ends with a newline, or is indented."""
    body = response.whole_body()
    if not response.content_type.startswith("application/json") or body[:1] != b"{" or response.is_final:
        return body
    return msgspec.json.format(body, indent=2) if pretty else body + b"\n"
