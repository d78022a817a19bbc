"""Serves the process at the other end of a pipe (see `bayplan.client.piped`): requests, and watches as lines of JSON.

    event -> Watcher.put -> idle_sink: the watcher is ready -> one callback of the loop tells of what all ready watchers have

So what several watches have in common, such as the pods of scheduler and controllers, goes through the pipe once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from bayplan.apiserver.in_process import InProcessEndpoint, SentRequest
from bayplan.apiserver.reads.watching import DELETED, MODIFIED, Item, Watcher
from bayplan.support.pipe import MalformedCall, Pipe

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 50
"""Events of one watch in one message: many small frames are read more smoothly than a large one."""


def _is_passing(one: Item, following: Item) -> bool:
    """Whether what an event says of an object holds only until the next event."""
    return one[0] == MODIFIED and following[0] in (MODIFIED, DELETED) and one[1].uid == following[1].uid != ""


def _has_types(call: Sequence[Any], *types: type) -> bool:
    return len(call) == len(types) and all(type(one) is wanted for one, wanted in zip(call, types, strict=True))


def _is_query(value: dict[Any, Any]) -> bool:
    return all(type(key) is str and type(item) is str for key, item in value.items())


def _is_sequence(value: Any) -> bool:
    return type(value) is list and all(type(one) is list and _has_types(one, str, str, bytes, str) for one in value)


class PipedRequests:
    """Answers what comes through a pipe. Who is at the other end is trusted to say as whom it asks. If the pipe ends, what has been taken up goes on to its end:
    a write that is broken off halfway would keep what it has allocated, or give back what the store then has."""

    def __init__(self, pipe: Pipe, endpoint: Callable[[str], InProcessEndpoint]) -> None:
        """endpoint: makes the endpoint of a user."""
        self._pipe = pipe
        self._make_endpoint = endpoint
        self._endpoints: dict[str, InProcessEndpoint] = {}
        self._watches: dict[int, asyncio.Task[None]] = {}
        self._numbers: dict[Watcher, int] = {}
        self._ready: list[Watcher] = []
        """Watchers with idle readers that have events."""
        pipe.request_handlers["request"] = self._request
        pipe.request_handlers["send"] = self._send
        pipe.request_handlers["watch"] = self._watch
        pipe.notification_handlers["close"] = self._close

    def _endpoint(self, user: str) -> InProcessEndpoint:
        endpoint = self._endpoints.get(user)
        if endpoint is None:
            endpoint = self._endpoints[user] = self._make_endpoint(user)
        return endpoint

    def _request(self, *call: Any) -> Awaitable[tuple[int, bytes]]:
        """HTTP status code and body of the answer to (user, method, path, query, body, content type)."""
        if not (_has_types(call, str, str, str, dict, bytes, str) and _is_query(call[3])):
            raise MalformedCall("a request is user, method, path, query, body and content type")
        return asyncio.shield(self._endpoint(call[0]).call(*call[1:]))

    def _send(self, *call: Any) -> Awaitable[list[tuple[int, bytes]]]:
        """For each of (user, turns) HTTP status code and body of the first answer that is an error, or of the last."""
        if not (_has_types(call, str, list) and all(_is_sequence(turn) for turn in call[1])):
            raise MalformedCall("what is sent are a user and turns of requests: method, path, body and content type")
        sequences: Sequence[Sequence[SentRequest]] = call[1]
        return asyncio.shield(self._endpoint(call[0]).send(sequences))

    def _watch(self, *call: Any) -> Awaitable[tuple[int, bytes]]:
        """Open a watch by (number, user, path, query): status code, and body of an error. Its events are told as `lines`, and at last `ended`."""
        if not (_has_types(call, int, str, str, dict) and _is_query(call[3])):
            raise MalformedCall("a watch is a number, user, path and query")
        return self._opened(*call)

    async def _opened(self, number: int, user: str, path: str, query: Mapping[str, str]) -> tuple[int, bytes]:
        if number in self._watches:
            raise MalformedCall(f"watch {number} is open")
        response = await self._endpoint(user).open(path, query)
        if response.watcher is None:
            return response.code, response.whole_body()
        if self._pipe.is_lost:
            response.watcher.close()
            return response.code, b""
        self._watches[number] = asyncio.create_task(self._stream(number, response.watcher, self._endpoint(user)))
        return response.code, b""

    async def _stream(self, number: int, watcher: Watcher, endpoint: InProcessEndpoint) -> None:
        """A watch from its begin to its end. It sleeps here while its events are told, and is woken if that has to wait."""
        timer = endpoint.time_out(watcher)
        self._numbers[watcher] = number
        watcher.idle_sink = self._is_ready
        try:
            while await watcher.wait():
                await self._pipe.drained()
                self._tell([watcher])
        except Exception:
            logger.exception("a watch ends")
        finally:
            del self._watches[number], self._numbers[watcher]
            self._pipe.notify("ended", number)
            watcher.close()
            if timer is not None:
                timer.cancel()

    def _is_ready(self, watcher: Watcher) -> None:
        self._ready.append(watcher)
        if len(self._ready) == 1:
            asyncio.get_running_loop().call_soon(self._tell_of_ready)

    def _tell_of_ready(self) -> None:
        ready, self._ready = [one for one in self._ready if one.is_idle], []
        if self._pipe.is_full:
            for watcher in ready:
                watcher.wake()
        else:
            self._tell(ready)

    def _tell(self, watchers: Sequence[Watcher]) -> None:
        """Tell of the events that watchers have, some of each in turn: those of one kind have the same ones."""
        while watchers:
            lines: list[bytes] = []
            known: dict[int, int] = {}
            watches: list[tuple[int, list[int]]] = []
            for watcher in watchers:
                try:
                    watches.append((self._numbers[watcher], self._told(watcher, lines, known)))
                except Exception as error:
                    if not watcher.is_idle:
                        raise
                    watcher.wake(error)  # raised in the task of the watch: it concerns nobody else
            self._pipe.notify("lines", lines, watches)
            watchers = [watcher for watcher in watchers if watcher.has_events and watcher.is_idle]
            if watchers:
                self._pipe.flush()
                if self._pipe.is_full:
                    for watcher in watchers:
                        watcher.wake()
                    return

    def _told(self, watcher: Watcher, lines: list[bytes], known: dict[int, int]) -> list[int]:
        """The next events of a watcher, as numbers of lines; new lines are added. `known`: by identity, since an event makes its line once for all watchers."""
        told = []
        items = watcher.take(_AT_ONCE)
        for one, following in zip(items, (*items[1:], None), strict=True):
            if following is not None and _is_passing(one, following):
                continue
            line = watcher.line(*one)
            at = known.setdefault(id(line), len(lines))
            if at == len(lines):
                lines.append(line)
            told.append(at)
        return told

    def _close(self, *call: Any) -> None:
        stream = self._watches.get(call[0]) if _has_types(call, int) else None
        if stream is not None:
            stream.cancel()

    def close(self) -> None:
        """End all watches."""
        for stream in self._watches.values():
            stream.cancel()
