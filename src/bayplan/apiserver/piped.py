"""The way in from the process at the other end of a pipe (see `bayplan.client.piped`): requests, and watches as lines of JSON."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from bayplan.apiserver.in_process import InProcessDoor
from bayplan.apiserver.watching import Watcher
from bayplan.support.pipe import Pipe

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 50
"""Events in one message."""


class PipedRequests:
    """Answers what comes through a pipe. Who is at the other end is trusted to say as whom it asks."""

    def __init__(self, pipe: Pipe, door: Callable[[str], InProcessDoor]) -> None:
        """door: makes the way in of a user."""
        self._pipe = pipe
        self._make_door = door
        self._doors: dict[str, InProcessDoor] = {}
        self._watches: dict[int, asyncio.Task[None]] = {}
        pipe.answerers["request"] = self._request
        pipe.answerers["watch"] = self._watch
        pipe.hearers["close"] = self._close

    def _door(self, user: str) -> InProcessDoor:
        door = self._doors.get(user)
        if door is None:
            door = self._doors[user] = self._make_door(user)
        return door

    async def _request(
        self, user: str, method: str, path: str, query: Mapping[str, str], body: bytes, content_type: str
    ) -> tuple[int, bytes]:
        """HTTP status code and body of the answer."""
        return await self._door(user).call(method, path, query, body, content_type)

    async def _watch(self, number: int, user: str, path: str, query: Mapping[str, str]) -> tuple[int, bytes]:
        """Open a watch: status code, and body of an error. Its events are told as `lines`, and at last `ended`."""
        response = await self._door(user).open(path, query)
        if response.watcher is None:
            return response.code, response.whole_body()
        self._watches[number] = asyncio.create_task(self._stream(number, response.watcher, self._door(user)))
        return response.code, b""

    async def _stream(self, number: int, watcher: Watcher, door: InProcessDoor) -> None:
        timer = door.time_out(watcher)
        try:
            while batch := await watcher.next_batch():
                for begin in range(0, len(batch), _AT_ONCE):
                    if begin:
                        self._pipe.flush()
                    self._pipe.tell("lines", number, [watcher.line(*one) for one in batch[begin : begin + _AT_ONCE]])
                await self._pipe.drained()
        except Exception:
            logger.exception("a watch ends")
        finally:
            del self._watches[number]
            self._pipe.tell("ended", number)
            watcher.close()
            if timer is not None:
                timer.cancel()

    def _close(self, number: int) -> None:
        stream = self._watches.get(number)
        if stream is not None:
            stream.cancel()

    def close(self) -> None:
        """End all watches."""
        for stream in self._watches.values():
            stream.cancel()
