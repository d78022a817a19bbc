"""Transports for tests: one that knows its answers, and one that passes on what it does not spoil."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bayplan.api.kinds import Kind
from bayplan.client.transport import Decode, RawWatch, Transport


class StubTransport(Transport):
    """Answers from a function of method, path and query; what that raises is raised. There is nothing to watch."""

    def __init__(self, answer: Callable[[str, str, Mapping[str, str]], bytes]) -> None:
        self.answer = answer

    async def request(
        self, method: str, path: str, query: Mapping[str, str], body: bytes = b"", content_type: str = ""
    ) -> bytes:
        return self.answer(method, path, query)

    async def watch(self, kind: Kind, path: str, query: Mapping[str, str], decode: Decode) -> RawWatch:
        raise AssertionError(f"nobody was expected to watch {path}")

    async def close(self) -> None:
        """Nothing to release."""


class SpoiledTransport(Transport):
    """Passes everything on to a sound transport, unless `spoil` returns what is to be raised instead."""

    def __init__(self, sound: Transport, spoil: Callable[[str, str], Exception | None]) -> None:
        self._sound = sound
        self._spoil = spoil

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes = b"",
        content_type: str = "application/json",
    ) -> bytes:
        self._look(method, path)
        return await self._sound.request(method, path, query, body, content_type)

    async def watch(self, kind: Kind, path: str, query: Mapping[str, str], decode: Decode) -> RawWatch:
        self._look("WATCH", path)
        return await self._sound.watch(kind, path, query, decode)

    async def close(self) -> None:
        await self._sound.close()

    def _look(self, method: str, path: str) -> None:
        error = self._spoil(method, path)
        if error is not None:
            raise error


class Spoiler:
    """Spoils the first requests with a method whose path ends so, while it is active; remembers how many there were."""

    def __init__(self, method: str, end: str, error: Exception, times: int = 1, *, after: int = 0) -> None:
        """`after`: requests that are let through before."""
        self._method, self._end, self._error = method, end, error
        self._after, self._until = after, after + times
        self.active = True
        self.seen = 0

    def __call__(self, method: str, path: str) -> Exception | None:
        if not self.active or method != self._method or not path.endswith(self._end):
            return None
        self.seen += 1
        return self._error if self._after < self.seen <= self._until else None

    def over(self, sound: Transport) -> Transport:
        """What it spoils."""
        return SpoiledTransport(sound, self)
