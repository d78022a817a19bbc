"""The in-process endpoint: an API server as the client's in-process transport calls it, for one user, without sockets or HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.api.types import meta_v1
from bayplan.apiserver.aggregation.probing import Question
from bayplan.apiserver.reads.watching import BOOKMARK, ERROR, Entry, Event, Watcher
from bayplan.apiserver.refusals import error_response
from bayplan.apiserver.requests import Request, Response, User
from bayplan.apiserver.routing.relays import Purpose, Relay, not_over_http
from bayplan.apiserver.server import ApiServer, PendingResponse
from bayplan.support.clock import Timer

SentRequest = tuple[str, str, bytes, str]
"""A request whose response is not read: method, path, body, content type."""
_MOST_FAILURES: Final = 4
"""Sequences in a row of which no write could be submitted at once, after which others of the same message are not tried: the user has had his turn, or
nothing is known of such writes. They take no harm, but for that they wait for each other."""
_AGGREGATED_SECONDS: Final = 30.0
"""How long an aggregated server may take for a request of this process."""
_NO_QUERY: Final[Mapping[str, str]] = MappingProxyType({})


class InProcessEndpoint:
    """See `bayplan.client.in_process.Endpoint`."""

    def __init__(self, server: ApiServer, user: User) -> None:
        self._server = server
        self._user = user
        self._user_agent = user.name.rpartition(":")[2]

    async def call(
        self, method: str, path: str, query: Mapping[str, str], body: bytes, content_type: str
    ) -> tuple[int, bytes]:
        """Answer one request."""
        return await self.answer(
            Request(
                method,
                path,
                query,
                self._user,
                body,
                content_type,
                user_agent=self._user_agent,
                reads_warnings=False,
            )
        )

    def send(self, sequences: Sequence[Sequence[SentRequest]]) -> Awaitable[list[tuple[int, bytes]]]:
        """Answer sequences of requests. Those of a sequence are made one after the other until one fails; its result is the response to that one, or to the last.

        Writes that are certain to succeed are submitted when this returns, without waiting for each, so that the store commits them together. Returns a
        future if these are all.
        """
        started: list[_RequestSequence] = []
        failures = 0
        for requests in sequences:
            sequence = _RequestSequence(self, requests, submits=failures < _MOST_FAILURES)
            failures = 0 if sequence.pending else failures + 1
            started.append(sequence)
        commits = [one.committed for sequence in started for one in sequence.pending]
        if not (commits and all(sequence.is_submitted for sequence in started)):
            return _finished(started)
        answers: asyncio.Future[list[tuple[int, bytes]]] = asyncio.get_running_loop().create_future()
        left = len(commits)

        def one_committed(_: asyncio.Future[int]) -> None:
            nonlocal left
            left -= 1
            if not (left or answers.done()):
                answers.set_result([sequence.response() for sequence in started])

        for committed in commits:
            committed.add_done_callback(one_committed)
        return answers

    def submit(self, sent: SentRequest) -> tuple[Request, PendingResponse | None]:
        """A request whose response is not read, and that response if its write could be submitted."""
        request = self.request_of(sent)
        return request, self._server.submit(request)

    def request_of(self, sent: SentRequest) -> Request:
        """A request whose response is not read."""
        method, path, body, content_type = sent
        return Request(
            method,
            path,
            _NO_QUERY,
            self._user,
            body,
            content_type,
            user_agent=self._user_agent,
            reads_warnings=False,
            reads_answer=False,
        )

    async def answer(self, request: Request) -> tuple[int, bytes]:
        """HTTP status code and body."""
        response = await self._server.handle(request)
        if response.relay is not None:
            trail = response.trail
            when_relayed = response.when_relayed
            try:
                response = await self._asked_elsewhere(request, response.relay)
            finally:
                if when_relayed is not None:
                    when_relayed()
            if trail is not None:
                trail.refused(response)
        return response.code, response.whole_body()

    async def _asked_elsewhere(self, request: Request, relay: Relay) -> Response:
        """The answer of an aggregated server; for anything else there is no connection to hand on."""
        call = self._server.context.ask_aggregated
        if relay.purpose is not Purpose.AGGREGATED or call is None:
            return error_response(not_over_http(relay))
        question = Question(
            request.method, request.query, request.body, request.content_type, seconds=_AGGREGATED_SECONDS
        )
        try:
            page = await call(relay, question)
        except ApiError as error:
            return error_response(error)
        return Response(page.code, page.body, page.content_type)

    async def open(self, path: str, query: Mapping[str, str]) -> Response:
        """Open a watch, for who reads its events as they are."""
        response = await self._server.handle(Request("GET", path, query, self._user, user_agent=self._user_agent))
        if response.relay is None:
            return response
        if response.when_relayed is not None:
            response.when_relayed()
        return error_response(not_over_http(response.relay))

    def time_out(self, watcher: Watcher) -> Timer | None:
        """End a watch when its time is over, if that is limited."""
        return self._server.context.clock.call_later(watcher.timeout, watcher.close) if watcher.timeout else None

    async def watch(self, kind: Kind, path: str, query: Mapping[str, str]) -> tuple[int, bytes, _SharedWatch | None]:
        """Open a watch whose objects are decoded once for everybody in this process."""
        response = await self.open(path, query)
        watcher = response.watcher
        if watcher is None:
            return response.code, response.body, None
        return response.code, b"", _SharedWatch(self._server, kind, watcher, self.time_out(watcher))


class _RequestSequence:
    """Requests that are made one after the other until one fails. The writes of as many as possible are submitted at once."""

    def __init__(self, endpoint: InProcessEndpoint, requests: Sequence[SentRequest], *, submits: bool) -> None:
        """submits: whether to try to submit writes at once."""
        self._endpoint = endpoint
        self._requests = iter(requests)
        self.pending: list[PendingResponse] = []
        """Of the requests whose write is submitted."""
        self._next: Request | None = None
        """The first request whose write could not be submitted without waiting."""
        if submits:
            self._submit()
        elif (first := next(self._requests, None)) is not None:
            self._next = endpoint.request_of(first)

    def _submit(self) -> None:
        self._next = None
        for sent in self._requests:
            request, pending_response = self._endpoint.submit(sent)
            if pending_response is None:
                self._next = request
                return
            self.pending.append(pending_response)

    @property
    def is_submitted(self) -> bool:
        """Whether the writes of all requests are submitted."""
        return self._next is None

    async def finish(self) -> tuple[int, bytes]:
        """Make the remaining requests. Returns HTTP status code and body of the first response that is an error, or of the last."""
        code, body = await self._all_responses()
        while self._next is not None and code < 300:
            code, body = await self._endpoint.answer(self._next)
            if code < 300:
                self._submit()
                if self.pending:
                    code, body = await self._all_responses()
        return code, body

    async def _all_responses(self) -> tuple[int, bytes]:
        if self.pending:
            await asyncio.wait([one.committed for one in self.pending])
        return self.response()

    def response(self) -> tuple[int, bytes]:
        """HTTP status code and body of the first response that is an error, or of the last, of the requests whose writes are committed."""
        responses = [one.response() for one in self.pending]
        self.pending.clear()
        for one in responses:
            if one.code >= 300:
                return one.code, one.body
        return (responses[-1].code if responses else 200), b""


async def _finished(sequences: Sequence[_RequestSequence]) -> list[tuple[int, bytes]]:
    """Finish sequences, which run at the same time."""
    tasks = {sequence: asyncio.create_task(sequence.finish()) for sequence in sequences[1:]}
    return [await (tasks[sequence] if sequence in tasks else sequence.finish()) for sequence in sequences]


class _SharedWatch:
    """A watcher as pairs of event type and object."""

    def __init__(self, server: ApiServer, kind: Kind, watcher: Watcher, timer: Timer | None) -> None:
        context = server.context
        self._kind = kind
        self._stored = kind if kind.asks_webhook else context.kinds.storage_kind(kind)
        self._cache = context.objects.cache(self._stored)
        self._cache.sharers += 1
        self._watcher = watcher
        self._timer = timer
        self._is_closed = False

    async def next_batch(self) -> Sequence[tuple[str, Any]]:
        """See RawWatch."""
        batch = await self._watcher.next_batch()
        return [(event_type, self._object(event_type, entry, event)) for event_type, entry, event in batch]

    def _object(self, event_type: str, entry: Entry, event: Event | None) -> Any:
        if event_type == BOOKMARK:
            return self._kind.type(metadata=meta_v1.ObjectMeta(resource_version=str(entry.revision)))
        if event_type == ERROR:
            raise ApiError(entry.decoded)
        obj = self._cache.shared(entry)
        if self._kind is not self._stored:
            from bayplan.api.conversions.kinds import convert

            return convert(obj, self._stored, self._kind)
        return obj

    def close(self) -> None:
        """See RawWatch."""
        if not self._is_closed:
            self._is_closed = True
            self._cache.sharers -= 1
        self._watcher.close()
        if self._timer is not None:
            self._timer.cancel()
