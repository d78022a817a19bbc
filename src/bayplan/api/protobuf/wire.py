"""Protobuf's wire format as far as Kubernetes uses it: tags, lengths, numbers, the envelope, and the table of field numbers.

    k8s\\0 | Unknown{ 1: typeMeta{1: apiVersion, 2: kind}, 2: raw, 3: contentEncoding, 4: contentType }   raw = the message of the kind

`types/protobuf.json.gz` says for each definition which number a field has. A field of a struct that Go inlines in JSON but not in protobuf has two numbers,
`2.1`: field 1 of the message in field 2; so has a list that has a name in Go. Source: apimachinery's protobuf serializer.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import msgspec

from bayplan.api.schema import unpacked
from bayplan.support.memory.memo import memoized

MAGIC = b"k8s\x00"
MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""


class ProtobufError(ValueError):
    """The bytes are no message of the wanted kind, or the object has no message."""


@functools.cache
def numbers() -> dict[str, dict[str, tuple[str, str]]]:
    """Definition -> JSON name of a field -> its number, and a wire type that is not used here: types come from the schema."""
    return msgspec.json.decode(unpacked("protobuf"), type=dict[str, dict[str, tuple[str, str]]])


def _varint(value: int) -> bytes:
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    data.append(value)
    return bytes(data)


_SMALL = tuple(_varint(value) for value in range(16384))


def varint(value: int) -> bytes:
    """A number; a negative one as its two's complement in 64 bits."""
    if 0 <= value < 16384:
        return _SMALL[value]
    return _varint(value if value >= 0 else value + (1 << 64))


def tag(number: int, wire: int = BYTES) -> bytes:
    """What stands before the value of a field."""
    return varint(number << 3 | wire)


def delimited(number: int, data: bytes) -> bytes:
    """A field that holds a message, a string or bytes."""
    return b"%b%b%b" % (tag(number), varint(len(data)), data)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends. Raises ProtobufError."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ProtobufError("a number is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7


def signed(value: int) -> int:
    """A 64-bit two's complement as a number."""
    return value - (1 << 64) if value >= 1 << 63 else value


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of each field of a message: numbers as int, everything else as bytes. Raises ProtobufError."""
    at = 0
    while at < len(data):
        head, at = read_varint(data, at)
        wire = head & 7
        if wire == VARINT:
            number, at = read_varint(data, at)
            yield head >> 3, number
            continue
        if wire == BYTES:
            size, at = read_varint(data, at)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise ProtobufError(f"wire type {wire} is not used by Kubernetes")
        if at + size > len(data):
            raise ProtobufError("a field is cut off")
        yield head >> 3, data[at : at + size]
        at += size


@memoized(1024)
def _head(api_version: str, kind: str) -> bytes:
    return MAGIC + delimited(1, delimited(1, api_version.encode()) + delimited(2, kind.encode()))


_TAIL = b"\x1a\x00\x22\x00"
"""No content encoding, no content type."""


def envelope(api_version: str, kind: str, message: bytes) -> bytes:
    """A message as it stands in a body: with what it is."""
    return b"%b\x12%b%b%b" % (_head(api_version, kind), varint(len(message)), message, _TAIL)


def unwrap(body: bytes) -> tuple[str, str, bytes]:
    """apiVersion, kind and message of an enveloped body. Raises ProtobufError."""
    if not body.startswith(MAGIC):
        raise ProtobufError(
            f"provided data does not appear to be a protobuf message, expected prefix [{' '.join(map(str, MAGIC))}]"
        )
    api_version = kind = ""
    raw = b""
    for number, value in fields(body[len(MAGIC) :]):
        if not isinstance(value, bytes):
            continue
        if number == 1:
            meta = {key: text(item) for key, item in fields(value)}
            api_version, kind = meta.get(1, ""), meta.get(2, "")
        elif number == 2:
            raw = value
    return api_version, kind, raw


def text(value: int | bytes) -> str:
    """A string field. Raises ProtobufError."""
    if isinstance(value, int):
        raise ProtobufError("a number stands where a string is expected")
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise ProtobufError(str(error)) from error


def watch_frame(event_type: str, enveloped: bytes) -> bytes:
    """One event of a watch: length in four bytes, then a bare `WatchEvent{1: type, 2: RawExtension{1: enveloped object}}`."""
    event = delimited(1, event_type.encode()) + delimited(2, delimited(1, enveloped))
    return len(event).to_bytes(4, "big") + event
