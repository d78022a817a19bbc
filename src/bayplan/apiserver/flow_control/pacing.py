"""Requests of a level that is full go on in small numbers per iteration of the event loop, whatever they waited for.

A store commits many writes at once, and each of their requests then has an answer to make and to send. If all did so in one iteration, whatever else comes would be
read only after the last of them. So they pass a turnstile: it lets a few of them go on in each iteration, one of each flow in turn. Requests that never wait are
not held up, nor are those of levels where nothing waits to start.

Rejected requests are answered in small numbers as well. Who is told to come back after a second does: those that are told so together come back together, and
again and again, each time as one heap of input that is read before whatever comes after it. So they are told one after another, which spreads them out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Turnstile:
    """Lets so many of one level's requests pass in each iteration of the event loop."""

    def __init__(self, passes_per_turn: int, longest_wait: int = 0) -> None:
        """longest_wait: iterations within which whoever waits passes, more than `passes_per_turn` in each if need be; 0: no matter how many."""
        self._most = self._left = passes_per_turn
        self._longest_wait = longest_wait
        self._count = 0
        """How many wait."""
        self._waiting: dict[object, deque[asyncio.Future[None]]] = {}
        """Who waits to pass, by flow; the flow that is next is first."""
        self._is_scheduled = False

    def try_pass(self) -> bool:
        """Pass at once, if that may be."""
        if self._waiting or not self._left:
            return False
        self._left -= 1
        self._schedule()
        return True

    def wait(self, flow: object) -> asyncio.Future[None]:
        """Done when a request of a flow may pass, which `try_pass` did not let through."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(flow, deque()).append(future)
        self._count += 1
        self._schedule()
        return future

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._new_turn)

    def _new_turn(self) -> None:
        self._is_scheduled = False
        self._left = self._most
        if self._longest_wait:
            self._left = max(self._left, -(-self._count // self._longest_wait))
        waiting = self._waiting
        while waiting and self._left:
            flow, futures = next(iter(waiting.items()))
            del waiting[flow]
            future = futures.popleft()
            self._count -= 1
            if futures:
                waiting[flow] = futures
            if not future.done():  # it has been cancelled
                future.set_result(None)
                self._left -= 1
        if waiting:
            self._schedule()


class Paced(Generic[T]):
    """An awaitable that runs a coroutine, and passes a turnstile each time before the coroutine goes on after a wait."""

    __slots__ = ("_coroutine", "_flow", "_is_contended", "_turnstile")

    def __init__(
        self, coroutine: Coroutine[Any, Any, T], turnstile: Turnstile, flow: object, is_contended: Callable[[], bool]
    ) -> None:
        """flow: which requests pass one after another. is_contended: whether the turnstile is to be passed at all."""
        self._coroutine = coroutine
        self._turnstile = turnstile
        self._flow = flow
        self._is_contended = is_contended

    def __await__(self) -> Generator[Any, Any, T]:
        coroutine = self._coroutine
        error: BaseException | None = None
        while True:
            try:
                waited_for = coroutine.send(None) if error is None else coroutine.throw(error)
            except StopIteration as end:
                result: T = end.value
                return result
            error = None
            try:
                yield waited_for
                if self._is_contended() and not self._turnstile.try_pass():
                    yield from self._turnstile.wait(self._flow)
            except BaseException as thrown:
                error = thrown
