"""What a transport does."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.api.types import meta_v1
from bayplan.client.errors import TransportError

Decode = Callable[[bytes], Any]
"""From the JSON of an object to the object."""


class RawWatch(Protocol):
    """A running watch on the transport's level."""

    async def next_batch(self) -> Sequence[tuple[str, Any]]:
        """The next (event type, object) pairs, at least one; empty when the watch has ended. Raises ApiError, TransportError."""

    def close(self) -> None:
        """End the watch. Calling it again does nothing."""


class SentRequest(NamedTuple):
    """A request whose answer nobody reads."""

    method: str
    path: str
    body: bytes = b""
    content_type: str = "application/json"


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

    async def send(self, requests: Sequence[SentRequest]) -> None:
        """Make requests one after the other, as long as they succeed; nobody reads the answers. Raises ApiError, TransportError."""
        for ask in requests:
            await self.request(ask.method, ask.path, {}, ask.body, ask.content_type)

    async def send_all(self, sequences: Sequence[Sequence[SentRequest]]) -> list[ApiError | TransportError | None]:
        """`send` for several at the same time. Returns what each of them would raise."""
        return await asyncio.gather(*(self._outcome(requests) for requests in sequences))

    async def _outcome(self, requests: Sequence[SentRequest]) -> ApiError | TransportError | None:
        try:
            await self.send(requests)
        except (ApiError, TransportError) as error:
            return error
        return None

    async def watch(self, kind: Kind, path: str, query: Mapping[str, str], decode: Decode) -> RawWatch:
        """Open a watch. Objects may be shared with others in this process, and what an object was only until the next event may be left out.

        Raises ApiError, TransportError.
        """

    async def close(self) -> None:
        """Release connections."""


class _RawEvent(msgspec.Struct):
    """One line of a watch stream."""

    type: str
    object: msgspec.Raw


class EventDecoder(ABC):
    """A `Decode` that can take in a line of a watch stream as a whole, which is cheaper than to find the object in it first."""

    @abstractmethod
    def __call__(self, data: bytes) -> Any:
        """See Decode."""

    @abstractmethod
    def event(self, line: bytes) -> tuple[str, Any] | None:
        """(event type, object) of a line; None if that is an error event, or the line is not as usual."""


_decode_event = msgspec.json.Decoder(_RawEvent).decode


def decode_event(line: bytes, decode: Decode) -> tuple[str, Any]:
    """(event type, object) of a line of a watch stream. Raises ApiError for an error event."""
    if isinstance(decode, EventDecoder) and (whole := decode.event(line)) is not None:
        return whole
    event = _decode_event(line)
    if event.type == "ERROR":
        raise ApiError(status_of(500, bytes(event.object)))
    return event.type, decode(bytes(event.object))


def status_of(code: int, data: bytes) -> meta_v1.Status:
    """The Status of an error answer, made up if the body holds none."""
    try:
        status = msgspec.json.decode(data, type=meta_v1.Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return meta_v1.Status(
            status="Failure", code=code, message=data[:500].decode(errors="replace") or f"HTTP status {code}"
        )
    status.code = status.code or code
    return status
