"""The HTTP(S) transport of the API server: aiohttp in front of `ApiServer.handle`. One handler, no routes."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import cast
from urllib.parse import unquote

import msgspec
from aiohttp import web
from aiohttp.web_protocol import RequestPayloadError
from multidict import CIMultiDict

from bayplan.api.errors import ApiError, failure, request_too_large
from bayplan.apiserver.audit.events import printable
from bayplan.apiserver.authentication import Authenticator
from bayplan.apiserver.authentication.authenticator import Unfinished
from bayplan.apiserver.authentication.client_certificates import ClientCertificates
from bayplan.apiserver.authentication.headers import bearer_token
from bayplan.apiserver.authentication.metrics import AuthenticationMetrics
from bayplan.apiserver.authentication.request_headers import RequestHeaders
from bayplan.apiserver.certificates import KeyPair
from bayplan.apiserver.http.answer import simple_response, wants_pretty
from bayplan.apiserver.http.body import GZIP_THRESHOLD, bounded, pieces_of, send
from bayplan.apiserver.http.conditional import conditioned
from bayplan.apiserver.http.connection_share import ConnectionShare
from bayplan.apiserver.http.connections import ConnectionServer
from bayplan.apiserver.http.drain import drain, refusal_while_draining
from bayplan.apiserver.http.exchange import Exchange, OpenConnection, Peer
from bayplan.apiserver.http.head import HEAD_LIMIT
from bayplan.apiserver.http.headers import NO_QUERY, ParsedHeaders, header_cache
from bayplan.apiserver.http.http2_support import http2_metrics, http2_settings
from bayplan.apiserver.http.identity import NOBODY, Identities
from bayplan.apiserver.http.intake import Intake, user_of
from bayplan.apiserver.http.listener import Listener
from bayplan.apiserver.http.origins import origin_of
from bayplan.apiserver.http.relay import Relays
from bayplan.apiserver.http.warnings import warning_headers
from bayplan.apiserver.http.watch import WatchStreams
from bayplan.apiserver.inflight import InFlight, too_many_requests
from bayplan.apiserver.refusals import error_response, refusal, unauthenticated
from bayplan.apiserver.request_info import is_public
from bayplan.apiserver.requests import ANONYMOUS, Request, Response
from bayplan.apiserver.routing.relays import Relay
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.tls import client_tls
from bayplan.apiserver.tracing import HEADERS as TRACE_HEADERS

logger = logging.getLogger(__name__)

_DRAIN_SECONDS = 1.0
_REAP_SECONDS = 5.0
_KEPT_SECONDS = 300.0
"""How long a connection may wait for its next request."""
_NEVER = 1e9
_LEAST_HANDSHAKE_SECONDS = 1.0
_AUDIT_ID = "Audit-Id"


class HttpServer:
    """Serves an ApiServer on a socket."""

    def __init__(
        self,
        server: ApiServer,
        authenticator: Authenticator,
        kubelet_tls: ssl.SSLContext | None = None,
        front_proxy: KeyPair | None = None,
        certificates: ClientCertificates | None = None,
        request_headers: RequestHeaders | None = None,
    ) -> None:
        """kubelet_tls: how kubelets are asked; by default without a certificate of the server's own. front_proxy: with what aggregated servers are asked.

        certificates: whom certificates of clients name; by default all that TLS has verified are users. request_headers: in which front proxies say who asks.
        """
        self.server = server
        self.identities = Identities(
            authenticator,
            certificates or ClientCertificates(),
            request_headers,
            AuthenticationMetrics(server.context.metrics),
            server.context.clock,
        )
        self._limit = server.context.settings.max_request_bytes
        self._listener: Listener | None = None
        self._connections: ConnectionServer | None = None
        self.is_draining = False
        self._watches = WatchStreams(server.context)
        self._relays = Relays(
            server.context.clock,
            server.context.simulated.reason,
            kubelet_tls or client_tls(),
            front_proxy,
            self.identities.is_identity_header,
        )
        server.context.ask_aggregated = self._relays.ask_aggregated
        server.context.kubelet_page = self._relays.kubelet_page
        self._reaper: asyncio.Task[None] | None = None
        settings = server.context.settings
        self._http2 = http2_settings(settings, server.context.randomness)
        self.in_flight = InFlight(settings.max_requests_inflight, settings.max_mutating_requests_inflight)
        for label, count in (("readOnly", self._reading), ("mutating", self._mutating)):
            server.measured.in_flight.labels(label).set_function(count)
        self.header_cache = header_cache()
        self.intake = Intake()

    @property
    def _is_open(self) -> bool:
        """Whether everybody who is known may do everything: then the unknown may only see whether the server is well."""
        return self.server.context.authorizer.is_open

    def _reading(self) -> float:
        gate = self.server.gate
        return float(self.in_flight.reading if gate is None else gate.executing[True])

    def _mutating(self) -> float:
        gate = self.server.gate
        return float(self.in_flight.mutating if gate is None else gate.executing[False])

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Listen. Returns the port (chosen by the system if 0 is given). Raises OSError if the address is taken."""
        listener = self._make_listener(tls)
        found = await listener.start(host, port)
        self._listening(listener)
        return found

    def start_on(self, sockets: Sequence[socket.socket], share: ConnectionShare, tls: ssl.SSLContext | None) -> None:
        """Serve connections of sockets that listen already, and of which other processes accept, too."""
        listener = self._make_listener(tls)
        assert self._connections is not None
        self._connections.share = share
        listener.adopt(sockets, share)
        self._listening(listener)

    def _make_listener(self, tls: ssl.SSLContext | None) -> Listener:
        self._connections = connections = ConnectionServer(
            self._handle,
            self,
            self.server.context.clock,
            self._http2,
            access_log=None,
            keepalive_timeout=_NEVER,
            lingering_time=_DRAIN_SECONDS,
            max_line_size=HEAD_LIMIT,
            max_field_size=HEAD_LIMIT,
            max_headers=HEAD_LIMIT,
            auto_decompress=False,
        )
        clock, timeout = self.server.context.clock, self.server.context.settings.header_timeout
        text = "Number of requests dropped with 'TLS handshake error from' error"
        failures = self.server.metrics.counter("apiserver_tls_handshake_errors_total", text).labels()
        seconds = max(timeout, _LEAST_HANDSHAKE_SECONDS)
        if self._http2 is not None:
            connections.http2_metrics = http2_metrics(self.server.metrics, lambda: float(connections.http2_count))
        return Listener(connections.protocol, tls, clock, handshake_seconds=seconds, failed=failures.inc)

    def _listening(self, listener: Listener) -> None:
        self._listener = listener
        self._reaper = asyncio.create_task(self._reap(), name="watches of clients that have gone")

    def certificates_changed(self, tls: ssl.SSLContext, kubelet_tls: ssl.SSLContext, front_proxy: KeyPair) -> None:
        """Judge the certificates of open connections by the authorities of now, and use new ones for new connections, also to kubelets and aggregated servers."""
        self._relays.use(kubelet_tls, front_proxy)
        if self._listener is not None:
            self._listener.use(tls)
        for connection in self._connections.all() if self._connections is not None else ():
            if connection.has_spoken:
                self.identities.certify(connection)

    async def listen_also(self, host: str, port: int) -> None:
        """Listen on another address, after `start`. Raises OSError if it is taken or not this machine's."""
        assert self._listener is not None
        await self._listener.start(host, port)

    async def stop(self) -> None:
        """Answer what has come, end watches, close. With `shutdown_send_retry_after` new requests are refused until nothing is left to answer."""
        if self._reaper is not None:
            self._reaper.cancel()
        if self._listener is None or self._connections is None:
            return
        self.is_draining = True
        self._connections.leave()
        await drain(
            self._listener,
            self._connections,
            self.server.context.clock,
            most_seconds=self.server.context.settings.request_timeout,
            listens_on=self.server.context.settings.shutdown_send_retry_after,
            end_long_running=self._end_long_running,
        )
        self._listener = self._connections = None

    async def _end_long_running(self) -> None:
        """End watches, and what is passed on."""
        self._watches.close()
        await self._relays.close()

    async def _reap(self) -> None:
        """End watches whose client went away while nothing happened: nobody notices otherwise."""
        while True:
            await self.server.context.clock.sleep(_REAP_SECONDS)
            self._watches.reap()
            self._end_unused_connections()

    def _end_unused_connections(self) -> None:
        """Close connections on which a request's head does not come to its end, or no request comes for long."""
        if self._connections is None:
            return
        now, first = self.now(), self.server.context.settings.header_timeout
        for connection in self._connections.all():
            if _is_unused(connection, now, first):
                connection.force_close()
            elif connection.certified is not None and connection.certified.not_after < now:
                connection.end()  # also what lasts, such as a watch: nobody may go on for ever by a certificate that has expired
                connection.force_close()
        if self._http2 is not None:
            self._connections.check_http2_timeouts(first, self.server.context.settings.request_timeout)

    def now(self) -> float:
        """See ApiHandler."""
        return self.server.context.clock.now()

    @property
    def is_behind(self) -> bool:
        """See ApiHandler."""
        return self.server.context.objects.is_behind

    @property
    def has_requests(self) -> bool:
        """Whether a request, or a part of one, has come and is not answered."""
        return self._connections is not None and any(one.is_busy for one in self._connections.all())

    @property
    def answer_timeout(self) -> float:
        """See ApiHandler."""
        return self.server.context.settings.request_timeout

    def answer_at_once(self, request: Request) -> Response | None:
        """See ApiHandler."""
        return None if request.unfinished is not None else self.server.handle_at_once(request)

    def answer(self, request: Request) -> Awaitable[Response]:
        """See ApiHandler."""
        if (
            request.unfinished is None and self.server.gate is not None
        ):  # which counts requests of other transports, too
            return self.server.handle(request)
        return self._answer_counted(request)

    async def _answer_counted(self, request: Request) -> Response:
        """Answer a request whose user may have to be found, or that no gate counts."""
        if request.unfinished is not None and (refusal := await self._identified(request)) is not None:
            return refusal
        if self.server.gate is not None:
            return await self.server.handle(request)
        changes = self.in_flight.enter(request)
        if changes is None:
            auditor = self.server.auditor
            return too_many_requests() if auditor is None else await auditor.refused(request, too_many_requests())
        try:
            return await self.server.handle(request)
        finally:
            self.in_flight.leave(changes)

    def named(self, response: Response) -> Response:
        """See ApiHandler."""
        if not response.audit_id:
            response.audit_id = self.server.context.randomness.uuid4()
        return response

    def abandon(self, request: Request) -> None:
        """See ApiHandler."""
        if self.server.gate is not None:
            self.server.gate.abandon(request)

    async def _identified(self, request: Request) -> Response | None:
        """Find the user of a request, if that takes time; what its sender gets if there is none."""
        unfinished, request.unfinished = request.unfinished, None
        user = await self.identities.finish(unfinished) if unfinished is not None else request.user
        if user is None:
            response, auditor = unauthenticated(request), self.server.auditor
            return response if auditor is None else await auditor.unauthenticated(request, response)
        request.user = user
        return None

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        connection = cast("Exchange", http.protocol)
        answered = connection.take_answered()
        if answered is None:
            try:
                request = await self._read(http, connection)
            except TimeoutError:
                late = _plain(await self._noted(http, connection, error_response(_too_slow())))
                late.force_close()
                return late
            except RequestPayloadError:
                return connection.bad_request()
            if isinstance(request, Response):
                return _plain(await self._noted(http, connection, request))
            if self.is_draining and (refusal := refusal_while_draining(request, self.server.context.settings)):
                return _plain(await self._noted(http, connection, refusal))
            response = await self.answer(request)
            if self.server.auditor is None and (given := http.headers.get(_AUDIT_ID)):
                response.audit_id = printable(given)
        else:
            request, response = answered
        self.named(response)
        connection.user = user_of(request, response)
        connection.is_long_running = response.watcher is not None or response.relay is not None
        if response.watcher is not None:
            return await self._watches.serve(http, _headers(response), response.watcher)
        if response.relay is not None:
            return await self._relayed(http, request, response, response.relay)
        simple = simple_response(http, request, response, self.now())
        return simple if simple is not None else await self._answer(http, response, pretty=wants_pretty(request))

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
            refused = refusal(request, error)
            refused.audit_id, refused.flow = response.audit_id, response.flow
            if trail is not None:
                trail.refused(refused)
            return _plain(refused)
        finally:
            if response.when_relayed is not None:
                response.when_relayed()
            if trail is not None:
                trail.ended()
        return answer

    async def _noted(self, http: web.BaseRequest, connection: Exchange, response: Response) -> Response:
        """The answer to a request that the server does not see, noted in the audit log if there is one."""
        auditor = self.server.auditor
        if auditor is None:
            response.audit_id = printable(http.headers.get(_AUDIT_ID, ""))
            return self.named(response)
        head, path = self.identities.head(http.headers), unquote(http.raw_path.partition("?")[0])
        found = ANONYMOUS if response.code == HTTPStatus.UNAUTHORIZED else self.identities.user(connection, head, path)
        user = await self.identities.finish(found) if isinstance(found, Unfinished) else found
        request = Request(http.method, path, http.query, user or ANONYMOUS, user_agent=head.user_agent)
        self._add_origin(http, connection, head, request)
        if response.code == HTTPStatus.UNAUTHORIZED:
            return await auditor.unauthenticated(request, response)
        return await auditor.refused(request, response)

    def _add_origin(self, http: web.BaseRequest, connection: Exchange, head: ParsedHeaders, request: Request) -> None:
        """Say from where a request comes."""
        request.origin = origin = origin_of(connection, head)
        origin.uri, origin.audit_id = http.raw_path, http.headers.get(_AUDIT_ID, "")
        if self.server.context.tracing is not None:
            origin.trace = {name: http.headers[name] for name in TRACE_HEADERS if name in http.headers}

    async def _answer(self, http: web.BaseRequest, response: Response, *, pretty: bool) -> web.StreamResponse:
        """An answer that is large or has something of its own."""
        if response.code == HTTPStatus.OK and ("ETag" in response.headers or "Last-Modified" in response.headers):
            response = conditioned(response, http.method, http.headers)
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

    async def _read(self, http: web.BaseRequest, connection: Exchange) -> Request | Response:
        """The request, or what its sender gets instead. Raises TimeoutError if it does not come."""
        headers = http.headers
        path, _, query_string = http.raw_path.partition("?")
        if path[:1] != "/":
            path = "/" + path.partition("://")[2].partition("/")[2]  # the absolute form, which proxies are asked with
        if "%" in path:
            path = unquote(path)
        head, query = self.identities.head(headers), http.query if query_string else NO_QUERY
        if self.is_behind:  # another process may have made the user, or deleted it
            with suppress(ApiError):
                await self.server.context.objects.catch_up()
        request = self.request(connection, head, http.method, path, query, b"")
        if isinstance(request, Response):
            return request
        if request.origin is not None:
            self._add_origin(http, connection, head, request)
        if request.unfinished is not None:
            user = await self.identities.finish(request.unfinished)
            if user is None:
                return unauthenticated(request)
            request.user, request.unfinished = user, None
        if http.body_exists:
            length = http.content_length
            if length is not None and length > self._limit:
                return error_response(request_too_large(self._limit))
            content = http.content
            if content.is_eof():
                request.body = content.read_nowait()
            else:
                if "Expect" in headers:
                    connection.expect_body()
                async with asyncio.timeout(self.server.context.settings.request_timeout):
                    request.body = await (bounded(http, self._limit) if length is None else content.read())
            if len(request.body) > self._limit:
                return error_response(request_too_large(self._limit))
        if _AUDIT_ID not in headers and TRACE_HEADERS[0] not in headers:  # which differ from request to request
            connection.learn(head)
        return request

    def request(
        self, connection: Peer, head: ParsedHeaders, method: str, path: str, query: Mapping[str, str], body: bytes
    ) -> Request | Response:
        """See ApiHandler."""
        connection.has_spoken = True
        authorization = head.authorization
        found = self.identities.user(connection, head, path)
        unfinished = found if isinstance(found, Unfinished) else None
        user = NOBODY if isinstance(found, Unfinished) else found
        if user is None or (user is ANONYMOUS and self._is_open and not is_public(path)):
            return unauthenticated(Request(method, path, query, NOBODY, accept=head.accept))
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
            unfinished=unfinished,
        )
        if self.server.auditor is not None or self.server.context.tracing is not None:
            request.origin = origin_of(connection, head)
        return request


def _is_unused(connection: OpenConnection, now: float, first: float) -> bool:
    """Whether a request's head does not come to its end, or no request comes for long. first: seconds for a head, and for the first request."""
    head, rest = connection.head_since, connection.rests_since
    is_late = head is not None and now - head > first
    return is_late or (rest is not None and now - rest > (_KEPT_SECONDS if connection.has_spoken else first))


def _headers(response: Response) -> CIMultiDict[str]:
    headers: CIMultiDict[str] = CIMultiDict(response.headers)
    if response.audit_id:
        headers[_AUDIT_ID] = response.audit_id
    if response.flow is not None:
        headers.update(response.flow.headers)
    if response.content_type:
        headers["Content-Type"] = response.content_type
    headers.setdefault("Cache-Control", "no-cache, private")
    for warning in warning_headers(response.warnings) if response.warnings else ():
        headers.add("Warning", warning)
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
