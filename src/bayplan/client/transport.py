"""What a transport does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from bayplan.api.kinds import Kind

Decode = Callable[[bytes], Any]
"""From the JSON of an object to the object."""


class RawWatch(Protocol):
    """A running watch on the transport's level."""

    async def next_batch(self) -> Sequence[tuple[str, Any]]:
        """The next (event type, object) pairs, at least one; empty when the watch has ended. Raises ApiError, TransportError."""

    def close(self) -> None:
        """End the watch. Calling it again does nothing."""


class Transport(Protocol):
    """Carries requests to one API server, as one user."""

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes = b"",
        content_type: str = "application/json",
    ) -> bytes:
        """The body of a successful answer. Raises ApiError for any other answer, TransportError if there was none."""

    async def watch(self, kind: Kind, path: str, query: Mapping[str, str], decode: Decode) -> RawWatch:
        """Open a watch. Objects may be shared with others in this process. Raises ApiError, TransportError."""

    async def close(self) -> None:
        """Release connections."""
