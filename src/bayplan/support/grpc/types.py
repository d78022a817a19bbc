"""What a connection of gRPC can do, for those who may be given another one. This needs no gRPC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

Metadata = Sequence[tuple[str, str]]


class Stream(Protocol):
    """A running stream."""

    async def send(self, message: Any) -> None:
        """Send one message. Raises RpcError."""

    async def receive(self) -> Any | None:
        """The next message; None at the end. Raises RpcError."""

    def cancel(self) -> None:
        """End it. Calling it again does nothing."""


class Channel(Protocol):
    """A connection to one server."""

    async def call(self, method: str, request: Any, response: type[Any], *, seconds: float, metadata: Metadata) -> Any:
        """One unary call. Raises RpcError, also after so many seconds."""

    def duplex(self, method: str, request: type[Any], response: type[Any], *, metadata: Metadata) -> Stream:
        """A stream in both directions."""

    def stream(self, method: str, request: Any, response: type[Any], *, metadata: Metadata) -> Stream:
        """A stream of responses to one request."""

    async def close(self) -> None:
        """End it; calls that wait fail with UNAVAILABLE."""
