"""Frames of HTTP/2 by chance: well-formed requests, and what is nearly one."""

from __future__ import annotations

import random

from hpack import Encoder

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _PRIORITY, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE, _CONTINUATION = (
    0,
    1,
    2,
    3,
    4,
    6,
    7,
    8,
    9,
)
_END_STREAM, _END_HEADERS, _PADDED, _HAS_PRIORITY = 0x1, 0x4, 0x8, 0x20
_MOST_FRAMES = 40
_PATHS = (
    "/version",
    "/api/v1/pods?watch=1&timeoutSeconds=1",
    "/api/v1/namespaces/default/configmaps",
    "/%zz",
    "",
    "*",
    "/é",
)
_METHODS = ("GET", "GET", "GET", "POST", "DELETE", "HEAD", "CONNECT", "BREW", "")
_FURTHER = (
    (),
    ((":path", "/api"),),
    (("Accept", "*/*"),),
    (("connection", "close"),),
    (("te", "gzip"),),
    (("content-length", "5"),),
    (("content-length", "-1"),),
    (("content-type", "application/json"), ("content-length", "2")),
    (("expect", "100-continue"), ("content-length", "70000")),
    (("x", "a\nb"),),
    (("", ""),),
    (("cookie", "a"), ("cookie", "b")),
    (("x", "y" * 20_000),),
)  # fmt: skip


def frames(chance: random.Random, token: str) -> bytes:
    """What a client sends on one connection."""
    encoder, stream, found = Encoder(), 1, []
    for _ in range(chance.randint(1, _MOST_FRAMES)):
        if chance.random() < 0.3:
            found.append(_request(chance, encoder, stream, token))
            stream += 2
        else:
            found.append(_any_frame(chance, stream))
    data = b"".join(found)
    if chance.random() < 0.1 and data:
        at = chance.randrange(len(data))
        data = data[:at] + chance.randbytes(1) + data[at + 1 :]
    return (_PREFACE + frame(_SETTINGS, 0, 0, b"") if chance.random() < 0.95 else b"") + data


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Source: RFC 9113, section 4.1."""
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def _request(chance: random.Random, encoder: Encoder, stream: int, token: str) -> bytes:
    """A request, whose header fields may come in several frames and whose body may be missing."""
    fields = [
        (":method", chance.choice(_METHODS)),
        (":scheme", chance.choice(("https", "https", "ftp"))),
        (":authority", chance.choice(("localhost", "localhost", "a/b", ""))),
        (":path", chance.choice(_PATHS)),
        ("authorization", f"Bearer {token}"),
        *chance.choice(_FURTHER),
    ]
    if chance.random() < 0.1:
        chance.shuffle(fields)
    block = encoder.encode(fields)
    ends = chance.choice((0, _END_STREAM, _END_STREAM))
    if chance.random() < 0.2:
        at = chance.randrange(len(block))
        head = frame(_HEADERS, ends, stream, block[:at])
        rest = frame(_CONTINUATION, chance.choice((0, _END_HEADERS)), stream, block[at:])
        return head + rest
    data = frame(_HEADERS, ends | _END_HEADERS, stream, block)
    if not ends:
        data += frame(_DATA, chance.choice((0, _END_STREAM)), stream, chance.choice((b"{}", b"", b"x" * 16_384)))
    return data


def _any_frame(chance: random.Random, stream: int) -> bytes:
    """A frame of a random kind that is about a stream of the connection, the connection, or a stream that is not there."""
    kind = chance.choice((*range(10), chance.randrange(256)))
    flags = chance.choice((0, _END_STREAM, _END_HEADERS, _PADDED, _HAS_PRIORITY, chance.randrange(256)))
    number = chance.choice((0, stream, max(stream - 2, 0), chance.randrange(1 << 31)))
    usual = {_PRIORITY: 5, _RST_STREAM: 4, _SETTINGS: 6, _PING: 8, _GOAWAY: 8, _WINDOW_UPDATE: 4}.get(kind, 16)
    size = usual if chance.random() < 0.8 else chance.choice((0, 1, 100, 16_385))
    return frame(kind, flags, number, chance.randbytes(size))
