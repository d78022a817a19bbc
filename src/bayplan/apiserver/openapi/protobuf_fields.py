"""Fields of protobuf messages, as both versions of OpenAPI need them.

The message types are those of gnostic's `OpenAPIv2.proto` and `OpenAPIv3.proto`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from bayplan.api.protobuf.wire import FIXED64, VARINT, delimited, tag, varint


def text(number: int, value: str) -> bytes:
    """A string."""
    return delimited(number, value.encode())


def texts(number: int, values: Iterable[str]) -> bytes:
    """A repeated string."""
    return b"".join(text(number, value) for value in values)


def integer(number: int, value: int) -> bytes:
    """A boolean, or an integer that is not negative."""
    return tag(number, VARINT) + varint(int(value))


def double(number: int, value: float) -> bytes:
    """A float of 64 bits."""
    return tag(number, FIXED64) + struct.pack("<d", value)


def any_value(number: int, value: Any) -> bytes:
    """A value as YAML text; JSON is YAML."""
    return delimited(number, text(2, msgspec.json.encode(value).decode()))


def extensions(number: int, row: Mapping[str, Any]) -> bytes:
    """What begins with `x-`."""
    return b"".join(
        delimited(number, text(1, key) + any_value(2, value))
        for key, value in sorted(row.items())
        if key.startswith("x-")
    )


def members(
    row: Mapping[str, Any], *, strings: Mapping[str, int], integers: Mapping[str, int], doubles: Mapping[str, int]
) -> bytes:
    """The scalar members that an object has, by the numbers of their fields. What is false is left out."""
    data = b"".join(text(number, row[key]) for key, number in strings.items() if key in row)
    data += b"".join(integer(number, row[key]) for key, number in integers.items() if row.get(key))
    return data + b"".join(double(number, row[key]) for key, number in doubles.items() if key in row)
