"""Dataclasses as protobuf messages: fields are numbered from 1 in the order in which they stand, and types follow from the annotations.

    @dataclass(frozen=True)
    class Volume(Message):
        capacity_bytes: int = 0                       # int64 capacity_bytes = 1
        volume_id: str = ""                           # string volume_id = 2
        context: Mapping[str, str] = field(...)       # map<string, string> context = 3
        source: Source | None = None                  # Source source = 4
        topology: tuple[Topology, ...] = ()           # repeated Topology topology = 5

`bool | None` and `int | None` are BoolValue and Int64Value, `Int32` also stands for enums (their numbers, so that unknown ones are kept), `Nanoseconds` for a
Timestamp, and `Annotated[X | None, OneOf("name")]` for one of several fields of which at most one is set. Unknown fields are ignored, as protobuf wants it.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, Self, Union

INT32: Final = "int32"
TIMESTAMP: Final = "google.protobuf.Timestamp"
Int32 = Annotated[int, INT32]
Nanoseconds = Annotated[int, TIMESTAMP]
"""A moment, since the epoch; 0 for none."""
_SCALARS: Final = {str: "string", bool: "bool", int: "int64"}
_WRAPPERS: Final = {bool: "google.protobuf.BoolValue", int: "google.protobuf.Int64Value"}
_SECOND: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class OneOf:
    """The name of the oneof to which a field belongs."""

    name: str


class Message:
    """Base of the dataclasses. The names of its methods are those of protobuf's own messages."""

    __slots__ = ()

    def SerializeToString(self) -> bytes:
        """The message's bytes. Raises ValueError if several fields of a oneof are set."""
        kind: Any = type(self)
        message = _wire_class(kind)()
        _fill(message, self)
        data: bytes = message.SerializeToString(deterministic=True)
        return data

    @classmethod
    def FromString(cls, data: bytes) -> Self:
        """A message from its bytes. Raises ValueError."""
        kind: Any = cls
        message = _wire_class(kind)()
        try:
            message.ParseFromString(data)
        except Exception as error:  # protobuf's own, whose class differs between its implementations
            raise ValueError(f"{cls.__name__}: {error}") from error
        found: Self = _read(cls, message)
        return found


@dataclass(frozen=True, slots=True)
class _Field:
    """One field. `message` is the dataclass of a message, `many` whether there are several of them."""

    name: str
    kind: str
    message: Any = None
    many: bool = False
    oneof: str = ""


def table_of(cls: type[Message]) -> dict[str, str]:
    """Name -> fields of a message and of all in it, as `message_classes` takes them."""
    found: dict[str, str] = {}
    waiting: list[Any] = [cls]
    while waiting:
        each = waiting.pop()
        if each.__name__ not in found:
            known = _fields(each)
            found[each.__name__] = ", ".join(
                f"{one.name}: {one.kind}" + (f" of {one.oneof}" if one.oneof else "") for one in known
            )
            waiting += [one.message for one in known if one.message is not None]
    return found


@functools.cache
def _wire_class(cls: Any) -> Callable[[], Any]:
    from bayplan.support.grpc.message_tables import message_classes

    made: Callable[[], Any] = message_classes("bayplan", table_of(cls))[cls.__name__]
    return made


@functools.cache
def _fields(cls: Any) -> tuple[_Field, ...]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return tuple(_field(each.name, hints[each.name]) for each in fields(cls))


def _field(name: str, hint: Any) -> _Field:
    marks: tuple[Any, ...] = ()
    if typing.get_origin(hint) is Annotated:
        hint, *rest = typing.get_args(hint)
        marks = tuple(rest)
    oneof = next((one.name for one in marks if isinstance(one, OneOf)), "")
    for mark in marks:
        if isinstance(mark, str):
            return _Field(name, mark)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        inner = _field(name, arguments[0])
        return _Field(name, f"[{inner.kind}]", inner.message, many=True)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _Field(name, "{string}")
    if origin in (Union, types.UnionType):
        inside = arguments[0]
        if inside in _WRAPPERS:
            return _Field(name, _WRAPPERS[inside])
        return _Field(name, inside.__name__, inside, oneof=oneof)
    if hint in _SCALARS:
        return _Field(name, _SCALARS[hint])
    return _Field(name, hint.__name__, hint)


def _fill(message: Any, obj: Any) -> None:
    chosen: dict[str, str] = {}
    for one in _fields(obj.__class__):
        value = getattr(obj, one.name)
        if one.oneof and value is not None and chosen.setdefault(one.oneof, one.name) != one.name:
            raise ValueError(f"{type(obj).__name__}: {chosen[one.oneof]} and {one.name} exclude each other")
        if value is None:
            continue
        place = getattr(message, one.name)
        if one.message is not None and one.many:
            for each in value:
                _fill(place.add(), each)
        elif one.message is not None:
            place.SetInParent()
            _fill(place, value)
        elif one.many:
            place.extend(value)
        elif one.kind == "{string}":
            place.update(value)
        elif one.kind == TIMESTAMP:
            if value:
                place.seconds, place.nanos = divmod(value, _SECOND)
        elif one.kind in _WRAPPERS.values():
            place.SetInParent()
            place.value = value
        else:
            setattr(message, one.name, value)


def _read(cls: Any, message: Any) -> Any:
    return cls(**{one.name: _value(one, message) for one in _fields(cls)})


def _value(one: _Field, message: Any) -> Any:
    value = getattr(message, one.name)
    if one.many:
        return tuple(_read(one.message, each) for each in value) if one.message is not None else tuple(value)
    if one.message is not None:
        return _read(one.message, value) if message.HasField(one.name) else None
    if one.kind == "{string}":
        return dict(value)
    if one.kind == TIMESTAMP:
        return value.seconds * _SECOND + value.nanos
    if one.kind in _WRAPPERS.values():
        return value.value if message.HasField(one.name) else None
    return value
