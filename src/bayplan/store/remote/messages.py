"""What goes over the socket between the owner of a store and its clients, and how errors do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from bayplan.store.errors import (
    Compacted,
    Conflict,
    FutureRevision,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreUnavailable,
    Untransformable,
    ValueTooLarge,
)
from bayplan.store.interface import Event, KeyValue

HELLO, WELCOME, EVENTS, WRITE, FAILED, RANGE, PAST, PAST_EVENTS, COMPACT = (
    "hello",
    "welcome",
    "events",
    "write",
    "failed",
    "range",
    "past",
    "past events",
    "compact",
)
"""Topics (see `bayplan.support.pipe`)."""
_EVENTS_PER_MESSAGE: Final = 1000


class WireEvent(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An event as it is sent: the fields of `Event`, and which write of which client it was ("" and 0 if of none)."""

    key: str
    revision: int
    value: bytes | None
    create_revision: int
    previous: bytes | None
    previous_revision: int
    client: str
    number: int


class WireItem(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A `KeyValue` as it is sent."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int


class Origin(msgspec.Struct, frozen=True, gc=False):
    """Whose write it is: the attachment of writes in the store of the server."""

    client: str
    number: int


_NOBODY: Final = Origin("", 0)
_encode = msgspec.msgpack.Encoder().encode
_decode_events = msgspec.msgpack.Decoder(list[WireEvent]).decode
_decode_items = msgspec.msgpack.Decoder(list[WireItem]).decode


def encode_events(events: Sequence[Event]) -> bytes:
    """Events as bytes, which all clients get alike."""
    found = []
    for event in events:
        origin = event.attachment if isinstance(event.attachment, Origin) else _NOBODY
        found.append(
            WireEvent(
                event.key,
                event.revision,
                event.value,
                event.create_revision,
                event.previous,
                event.previous_revision,
                origin.client,
                origin.number,
            )
        )
    return _encode(found)


def encoded_pieces(events: Sequence[Event]) -> Iterator[bytes]:
    """Many events, in messages of bounded size."""
    for start in range(0, len(events), _EVENTS_PER_MESSAGE):
        yield encode_events(events[start : start + _EVENTS_PER_MESSAGE])


def decode_events(data: bytes) -> list[WireEvent]:
    """The other way."""
    return _decode_events(data)


def event_of(wire: WireEvent, attachment: object = None) -> Event:
    """The event for watches."""
    return Event(
        wire.key,
        wire.revision,
        wire.value,
        wire.create_revision,
        wire.previous,
        wire.previous_revision,
        attachment,
    )


def encode_items(items: Sequence[KeyValue]) -> bytes:
    """Keys and values as bytes."""
    return _encode([WireItem(one.key, one.value, one.create_revision, one.mod_revision) for one in items])


def decode_items(data: bytes) -> list[KeyValue]:
    """The other way."""
    return [KeyValue(one.key, one.value, one.create_revision, one.mod_revision) for one in _decode_items(data)]


_ERRORS: Final[dict[str, tuple[type[StoreError], Callable[[Any], tuple[Any, ...]]]]] = {
    "conflict": (Conflict, lambda error: (error.key, error.expected, error.actual)),
    "compacted": (Compacted, lambda error: (error.revision, error.compacted_revision)),
    "future": (FutureRevision, lambda error: (error.revision, error.current)),
    "closed": (StoreClosed, lambda error: (str(error),)),
    "corrupt": (StoreCorrupt, lambda error: (str(error),)),
    "too large": (ValueTooLarge, lambda error: (str(error),)),
    "untransformable": (Untransformable, lambda error: (error.key, error.reason)),
    "unavailable": (StoreUnavailable, lambda error: (str(error),)),
}
"""Errors by their names on the wire, and of what each is made; the more special ones come first."""


def encode_error(error: BaseException) -> tuple[str, tuple[Any, ...]]:
    """An error as name and arguments; what is none of the store's errors counts as `StoreUnavailable`."""
    for name, (kind, arguments) in _ERRORS.items():
        if isinstance(error, kind):
            return name, arguments(error)
    return "unavailable", (f"{type(error).__name__}: {error}",)


def decode_error(name: str, arguments: Sequence[Any]) -> StoreError:
    """The other way."""
    return _ERRORS[name][0](*arguments)
