"""The in-process transport: no sockets, no HTTP. What it talks to is given by whoever wires a cluster together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.client.transport import Decode, RawWatch, Transport, status_of


class Endpoint(Protocol):
    """An API server in this process, called as one user."""

    async def call(
        self, method: str, path: str, query: Mapping[str, str], body: bytes, content_type: str
    ) -> tuple[int, bytes]:
        """HTTP status code and body of the answer."""

    async def watch(self, kind: Kind, path: str, query: Mapping[str, str]) -> tuple[int, bytes, RawWatch | None]:
        """Open a watch: status code, body of an error, and the watch of a success. Its objects are shared, so they must not be changed."""


class InProcessTransport(Transport):
    """A `Transport` to an `Endpoint`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes = b"",
        content_type: str = "application/json",
    ) -> bytes:
        """See Transport."""
        code, data = await self._endpoint.call(method, path, query, body, content_type)
        if code >= 300:
            raise ApiError(status_of(code, data))
        return data

    async def watch(self, kind: Kind, path: str, query: Mapping[str, str], decode: Decode) -> RawWatch:
        """See Transport."""
        code, data, watch = await self._endpoint.watch(kind, path, query)
        if watch is None:
            raise ApiError(status_of(code, data))
        return watch

    async def close(self) -> None:
        """Nothing to release."""
