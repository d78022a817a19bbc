"""Types of CEL values: what they are called, and how text tables name them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass


class TypeKind(enum.Enum):
    """What the checker tells apart."""

    ANY = enum.auto()
    """Of unknown type, as DYN, but nothing that a macro goes through: `claims.groups.all(...)` is refused, `dyn(claims.groups).all(...)` is not."""
    BOOL = enum.auto()
    BYTES = enum.auto()
    DOUBLE = enum.auto()
    DURATION = enum.auto()
    DYN = enum.auto()
    ERROR = enum.auto()
    """The type of what was found wrong already; it fits everywhere, so that one mistake is told once."""
    INT = enum.auto()
    LIST = enum.auto()
    MAP = enum.auto()
    NULL = enum.auto()
    OPAQUE = enum.auto()
    """Known by name and parameters only, such as `optional_type`."""
    PARAMETER = enum.auto()
    """Stands for a type that is yet to be found."""
    STRING = enum.auto()
    STRUCT = enum.auto()
    TIMESTAMP = enum.auto()
    TYPE = enum.auto()
    """The type of types."""
    UINT = enum.auto()


@dataclass(frozen=True, slots=True)
class Type:
    """A type. Equal types are the same type."""

    kind: TypeKind
    name: str
    """What it is called at run time, such as `int`, `list`, `google.protobuf.Timestamp`, or the name of a struct."""
    parameters: tuple[Type, ...] = ()
    """Of a list its items, of a map keys and values, of `optional_type` and `type` what they hold."""

    def __str__(self) -> str:
        """As messages show it."""
        shown = _SHOWN.get(self.kind, self.name)
        return f"{shown}({', '.join(map(str, self.parameters))})" if self.parameters else shown

    @property
    def run_time_name(self) -> str:
        """As values show it: `google.protobuf.Timestamp` where messages of the checker say `timestamp`."""
        parts = ", ".join(one.run_time_name for one in self.parameters)
        return f"{self.name}({parts})" if parts else self.name


_SHOWN = {
    TypeKind.ANY: "any",
    TypeKind.DURATION: "duration",
    TypeKind.ERROR: "!error!",
    TypeKind.NULL: "null",
    TypeKind.TIMESTAMP: "timestamp",
}
ANY = Type(TypeKind.ANY, "google.protobuf.Any")
BOOL = Type(TypeKind.BOOL, "bool")
BYTES = Type(TypeKind.BYTES, "bytes")
DOUBLE = Type(TypeKind.DOUBLE, "double")
DURATION = Type(TypeKind.DURATION, "google.protobuf.Duration")
DYN = Type(TypeKind.DYN, "dyn")
ERROR = Type(TypeKind.ERROR, "error")
INT = Type(TypeKind.INT, "int")
NULL = Type(TypeKind.NULL, "null_type")
STRING = Type(TypeKind.STRING, "string")
TIMESTAMP = Type(TypeKind.TIMESTAMP, "google.protobuf.Timestamp")
TYPE = Type(TypeKind.TYPE, "type")
UINT = Type(TypeKind.UINT, "uint")

BUILT_IN: Mapping[str, Type] = {
    "bool": BOOL,
    "bytes": BYTES,
    "double": DOUBLE,
    "duration": DURATION,
    "dyn": DYN,
    "int": INT,
    "null": NULL,
    "string": STRING,
    "timestamp": TIMESTAMP,
    "type": TYPE,
    "uint": UINT,
}
"""By the name that text tables use."""
_OPAQUE = frozenset(("optional_type", "net.IP", "net.CIDR"))
OPTIONAL = "optional_type"


def list_of(item: Type) -> Type:
    """A list."""
    return Type(TypeKind.LIST, "list", (item,))


def map_of(key: Type, value: Type) -> Type:
    """A map."""
    return Type(TypeKind.MAP, "map", (key, value))


def type_of(held: Type) -> Type:
    """The type of a type."""
    return Type(TypeKind.TYPE, "type", (held,))


def optional_of(held: Type) -> Type:
    """A value that may be missing."""
    return Type(TypeKind.OPAQUE, OPTIONAL, (held,))


def parameter(name: str) -> Type:
    """A type parameter."""
    return Type(TypeKind.PARAMETER, name)


def struct(name: str) -> Type:
    """An object with declared fields."""
    return Type(TypeKind.STRUCT, name)


def without_optional(found: Type) -> tuple[Type, bool]:
    """What an optional holds (or the type itself), and whether it was one."""
    if found.kind is TypeKind.OPAQUE and found.name == OPTIONAL:
        return found.parameters[0], True
    return found, False


def is_dyn(found: Type) -> bool:
    """Whether a value may have any type."""
    return found.kind in (TypeKind.DYN, TypeKind.ANY)


def is_dyn_or_error(found: Type) -> bool:
    """Whether nothing can be said about a type."""
    return is_dyn(found) or found.kind is TypeKind.ERROR


def named_type(text: str) -> Type:
    """The type that a text table means: `map(string, list(A))`; single capital letters are parameters, other unknown names structs."""
    name, opened, rest = text.strip().partition("(")
    parameters = tuple(named_type(part) for part in split_arguments(rest[:-1])) if opened else ()
    if name == "list":
        return list_of(*parameters)
    if name == "map":
        return map_of(*parameters)
    if name == "type" and parameters:
        return type_of(*parameters)
    if name in _OPAQUE:
        return Type(TypeKind.OPAQUE, name, parameters)
    if name in BUILT_IN:
        return BUILT_IN[name]
    return parameter(name) if len(name) == 1 else struct(name)


def split_arguments(text: str) -> list[str]:
    """Parts of a text between commas that are not inside parentheses."""
    parts: list[str] = []
    depth, start = 0, 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts
