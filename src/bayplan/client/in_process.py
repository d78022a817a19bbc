"""The in-process transport: no sockets, no HTTP. What it talks to is given by whoever wires a cluster together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.client.transport import Decode, RawWatch, Transport, status_of


class Door(Protocol):
    """An API server in this process, entered as one user."""

    async def call(
        self, method: str, path: str, query: Mapping[str, str], body: bytes, content_type: str
    ) -> tuple[int, bytes]:
        """HTTP status code and body of the answer."""

    async def watch(self, kind: Kind, path: str, query: Mapping[str, str]) -> tuple[int, bytes, RawWatch | None]:
        """Open a watch: status code, body of an error, and the watch of a success. Its objects are shared, so they must not be changed."""


class InProcessTransport(Transport):
    """A `Transport` through a `Door`."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes = b"",
        content_type: str = "application/json",
    ) -> bytes:
        """See Transport."""
        code, data = await self._door.call(method, path, query, body, content_type)
        if code >= 300:
            raise ApiError(status_of(code, data))
        return data

    async def watch(self, kind: Kind, path: str, query: Mapping[str, str], decode: Decode) -> RawWatch:
        """See Transport."""
        code, data, watch = await self._door.watch(kind, path, query)
        if watch is None:
            raise ApiError(status_of(code, data))
        return watch

    async def close(self) -> None:
        """Nothing to release."""
