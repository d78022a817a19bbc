"""The in-process way in: an API server as the client's transport wants it, entered as one user, without sockets or HTTP."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.api.types import meta_v1
from bayplan.apiserver.relays import not_over_http
from bayplan.apiserver.requests import Request, Response, User
from bayplan.apiserver.server import ApiServer, error_response
from bayplan.apiserver.watching import BOOKMARK, ERROR, Entry, Event, Watcher
from bayplan.support.clock import Timer

_NO_QUERY: Final[Mapping[str, str]] = MappingProxyType({})


class InProcessDoor:
    """See `bayplan.client.in_process.Door`."""

    def __init__(self, server: ApiServer, user: User) -> None:
        self._server = server
        self._user = user
        self._user_agent = user.name.rpartition(":")[2]

    async def call(
        self, method: str, path: str, query: Mapping[str, str], body: bytes, content_type: str
    ) -> tuple[int, bytes]:
        """Answer one request."""
        return await self._answer(
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

    async def send(self, asks: Sequence[tuple[str, str, bytes, str]]) -> tuple[int, bytes]:
        """Answer requests (method, path, body, content type) one after the other until one fails: what that one, or the last, is answered.

        Those that are certain to succeed are not waited for, so that the store commits together what belongs together.
        """
        begun: list[Coroutine[Any, Any, Response]] = []
        last = 0, b""
        try:
            for method, path, body, content_type in asks:
                request = Request(
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
                ending = self._server.begin(request)
                if ending is not None:
                    begun.append(ending)
                    continue
                last = await self._answer(request)
                if last[0] >= 300:
                    break
            for ending in begun:
                response = await ending
                if response.code >= 300 or not last[0]:
                    last = response.code, response.body
            return last
        finally:
            for ending in begun:
                ending.close()

    async def _answer(self, request: Request) -> tuple[int, bytes]:
        response = await self._server.handle(request)
        if response.relay is not None:
            trail = response.trail
            response = error_response(not_over_http(response.relay))
            if trail is not None:
                trail.refused(response)
        return response.code, response.whole_body()

    async def open(self, path: str, query: Mapping[str, str]) -> Response:
        """Open a watch, for who reads its events as they are."""
        return await self._server.handle(Request("GET", path, query, self._user, user_agent=self._user_agent))

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


class _SharedWatch:
    """A watcher as pairs of event type and object."""

    def __init__(self, server: ApiServer, kind: Kind, watcher: Watcher, timer: Timer | None) -> None:
        context = server.context
        self._kind = kind
        self._stored = kind if kind.asks_webhook else context.kinds.storage_kind(kind)
        self._cache = context.objects.cache(self._stored)
        self._watcher = watcher
        self._timer = timer

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
            from bayplan.api.conversion import convert

            return convert(obj, self._stored, self._kind)
        return obj

    def close(self) -> None:
        """See RawWatch."""
        self._watcher.close()
        if self._timer is not None:
            self._timer.cancel()
