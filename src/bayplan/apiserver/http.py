"""The HTTP(S) transport of the API server: aiohttp in front of `ApiServer.handle`. One handler, no routes."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import unquote

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from bayplan.api.errors import ApiError, failure, request_too_large, unauthorized
from bayplan.apiserver.authentication import Authenticator
from bayplan.apiserver.authentication.certificates import CertificateUsers
from bayplan.apiserver.authentication.headers import bearer_token, impersonation
from bayplan.apiserver.http_answer import usual_answer, wants_pretty
from bayplan.apiserver.http_body import GZIP_THRESHOLD, pieces_of, send
from bayplan.apiserver.http_connection import NO_QUERY, Connection, ConnectionServer, Head, Heads
from bayplan.apiserver.http_origins import origin_of
from bayplan.apiserver.http_relay import Relays
from bayplan.apiserver.http_watch import WatchStreams
from bayplan.apiserver.inflight import InFlight, too_many_requests
from bayplan.apiserver.nonresource import PUBLIC_PATHS
from bayplan.apiserver.relays import Relay
from bayplan.apiserver.requests import ANONYMOUS, Request, Response
from bayplan.apiserver.server import ApiServer, error_response
from bayplan.apiserver.tls import client_tls

logger = logging.getLogger(__name__)

_DRAIN_SECONDS = 1.0
_REAP_SECONDS = 5.0
_KEPT_SECONDS = 300.0
"""How long a connection may wait for its next request."""
_NEVER = 1e9
_FAREWELL_SECONDS = 0.02
"""How long clients have to answer the end of TLS; whoever does not would keep the connection open."""
_AUDIT_ID = "Audit-Id"
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
        self.heads = Heads()

    def _reading(self) -> float:
        return float(self.in_flight.reading)

    def _mutating(self) -> float:
        return float(self.in_flight.mutating)

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Listen. Returns the port (chosen by the system if 0 is given). Raises OSError if the address is taken."""
        handler = ConnectionServer(
            self._handle,
            self,
            access_log=None,
            keepalive_timeout=_NEVER,
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
            self._end_unused_connections()

    def _end_unused_connections(self) -> None:
        """Close connections that have been open for long without a first request, and those without a further one for longer."""
        server = self._runner.server if self._runner is not None else None
        if server is None:
            return
        now, first = self.now(), self.server.context.settings.header_timeout
        for connection in server.connections:
            assert isinstance(connection, Connection)
            since = connection.rests_since
            if since is not None and now - since > (_KEPT_SECONDS if connection.has_spoken else first):
                connection.force_close()

    def now(self) -> float:
        """See Desk."""
        return self.server.context.clock.now()

    async def answer(self, request: Request) -> Response:
        """See Desk."""
        changes = self.in_flight.enter(request)
        if changes is None:
            auditor = self.server.auditor
            return too_many_requests() if auditor is None else await auditor.refused(request, too_many_requests())
        try:
            return await self.server.handle(request)
        finally:
            self.in_flight.leave(changes)

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        connection = http.protocol
        assert isinstance(connection, Connection)
        answered = connection.take_answered()
        if answered is None:
            try:
                request = await self._read(http, connection)
            except TimeoutError:
                late = _plain(await self._noted(http, connection, error_response(_too_slow())))
                late.force_close()
                return late
            if isinstance(request, Response):
                return _plain(await self._noted(http, connection, request))
            response = await self.answer(request)
        else:
            request, response = answered
        if response.watcher is not None:
            return await self._watches.serve(http, _headers(response), response.watcher)
        if response.relay is not None:
            return await self._relayed(http, request, response, response.relay)
        usual = usual_answer(http, request, response, self.now())
        return usual if usual is not None else await self._answer(http, response, pretty=wants_pretty(request))

    async def _relayed(
        self, http: web.BaseRequest, request: Request, response: Response, relay: Relay
    ) -> web.StreamResponse:
        """What somebody else answers, or why nobody does."""
        trail = response.trail
        try:
            answer = await self._relays.serve(http, request.body, relay, trail.begun if trail is not None else None)
            if trail is not None:
                trail.begun(answer.status)
        except ApiError as error:
            refusal = error_response(error)
            refusal.audit_id = response.audit_id
            if trail is not None:
                trail.refused(refusal)
            return _plain(refusal)
        finally:
            if trail is not None:
                trail.ended()
        return answer

    async def _noted(self, http: web.BaseRequest, connection: Connection, response: Response) -> Response:
        """The answer to a request that the server does not see, noted in the audit log if there is one."""
        auditor = self.server.auditor
        if auditor is None:
            return response
        head, path = _head(http.headers), unquote(http.raw_path.partition("?")[0])
        user = self.authenticator.authenticate(head.authorization, connection.user) or ANONYMOUS
        request = Request(http.method, path, http.query, user, user_agent=head.user_agent)
        self._add_origin(http, connection, head, request)
        if response.code == HTTPStatus.UNAUTHORIZED:
            return await auditor.unauthenticated(request, response)
        return await auditor.refused(request, response)

    def _add_origin(self, http: web.BaseRequest, connection: Connection, head: Head, request: Request) -> None:
        """Say from where a request comes."""
        request.origin = origin = origin_of(connection, head)
        origin.uri, origin.audit_id = http.raw_path, http.headers.get(_AUDIT_ID, "")

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

    async def _read(self, http: web.BaseRequest, connection: Connection) -> Request | Response:
        """The request, or what its sender gets instead. Raises TimeoutError if it does not come."""
        headers = http.headers
        path, _, query_string = http.raw_path.partition("?")
        if "%" in path:
            path = unquote(path)
        head = _head(headers)
        request = self.request(connection, head, http.method, path, http.query if query_string else NO_QUERY, b"")
        if isinstance(request, Response):
            return request
        if request.origin is not None:
            self._add_origin(http, connection, head, request)
        if http.body_exists:
            length = http.content_length
            if length is not None and length > self._limit:
                return error_response(request_too_large(self._limit))
            content = http.content
            if content.is_eof():
                request.body = content.read_nowait()
            else:
                async with asyncio.timeout(self.server.context.settings.request_timeout):
                    request.body = await (self._bounded(http) if length is None else content.read())
            if len(request.body) > self._limit:
                return error_response(request_too_large(self._limit))
        if _AUDIT_ID not in headers:  # which differs from request to request
            connection.learn(head)
        return request

    def request(
        self, connection: Connection, head: Head, method: str, path: str, query: Mapping[str, str], body: bytes
    ) -> Request | Response:
        """See Desk."""
        if not connection.has_spoken:
            connection.has_spoken = True
            connection.user = self._certificate_users.of(connection.transport)
        authorization = head.authorization
        user = self.authenticator.authenticate(authorization, connection.user)
        if user is None or (user is ANONYMOUS and self._is_open and not path.startswith(PUBLIC_PATHS)):
            return error_response(unauthorized())
        if len(body) > self._limit:
            return error_response(request_too_large(self._limit))
        request = Request(
            method,
            path,
            query,
            user,
            body,
            head.content_type,
            head.accept,
            head.user_agent,
            head.impersonation,
            bearer_token(authorization)[1] if user is ANONYMOUS and authorization else user.warning,
        )
        if self.server.auditor is not None:
            request.origin = origin_of(connection, head)
        return request

    async def _bounded(self, http: web.BaseRequest) -> bytes:
        """A chunked body, but not more than one byte over the limit."""
        chunks, size = [], 0
        async for chunk in http.content.iter_any():
            chunks.append(chunk)
            size += len(chunk)
            if size > self._limit:
                break
        return b"".join(chunks)


_BLANKS = {**dict.fromkeys(range(32), " "), 127: " "}
"""Control characters, which no header may have."""


def _head(headers: Mapping[str, str]) -> Head:
    return Head(
        headers.get("Authorization", ""),
        headers.get("Content-Type", ""),
        headers.get("Accept", ""),
        headers.get("User-Agent", ""),
        impersonation(headers.items()),
        headers.get("X-Forwarded-For", ""),
        headers.get("X-Real-Ip", ""),
    )


def _headers(response: Response) -> CIMultiDict[str]:
    headers: CIMultiDict[str] = CIMultiDict(response.headers)
    if response.audit_id:
        headers[_AUDIT_ID] = response.audit_id
    if response.content_type:
        headers["Content-Type"] = response.content_type
    headers["Cache-Control"] = "no-cache, private"
    for warning in response.warnings:
        escaped = warning.replace("\\", "\\\\").replace('"', '\\"').translate(_BLANKS)
        headers.add("Warning", f'299 - "{escaped}"')
    return headers


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
