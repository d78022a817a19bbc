"""Long answers over HTTP: sent piece by piece, compressed for clients that take gzip, and given up for clients that do not read."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator

from aiohttp import HttpVersion11, web
from multidict import CIMultiDict

from bayplan.apiserver.reads.pieces import PIECE

GZIP_THRESHOLD = 128 * 1024
"""Bytes from which on an answer is compressed, as in kube-apiserver."""
_GZIP_LEVEL, _GZIP_FORMAT = 1, 31
_ENCODING = "Accept-Encoding"
_TURNS = 8
"""Compressed pieces after which others get their turn: some ten milliseconds."""


def sends_chunks(http: web.BaseRequest) -> bool:
    """Whether a response of unknown length goes out in chunks: HTTP/1.0 ends it with the connection, HTTP/2 has frames."""
    return http.version == HttpVersion11


def takes_gzip(http: web.BaseRequest) -> bool:
    """Whether the client says that it takes gzip. Weights are not looked at, as in kube-apiserver."""
    if http.version < HttpVersion11:
        return False  # the length would have to be known
    encodings = http.headers.get("Accept-Encoding", "")
    return "gzip" in encodings and any(one.strip() == "gzip" for one in encodings.split(","))


def pieces_of(body: bytes) -> Iterator[bytes | memoryview]:
    """A body that is there as a whole, in pieces that are not copied."""
    view = memoryview(body)
    for start in range(0, len(body), PIECE):
        yield view[start : start + PIECE]


async def send(
    http: web.BaseRequest,
    status: int,
    headers: CIMultiDict[str],
    size: int,
    pieces: Iterator[bytes | memoryview],
    seconds: float,
) -> web.StreamResponse:
    """Send a body of `size` bytes; a client that does not take it within `seconds` is cut off.

    Answers that vary with something else but not with the encoding (OpenAPI version 3) are never compressed, as in kube-apiserver.
    TLS buffers that grow to the whole body would cost more than making it, so each piece waits until the one before is gone.
    """
    stream = web.StreamResponse(status=status, headers=headers)
    varies = stream.headers.get("Vary", "")
    compressed = size > GZIP_THRESHOLD and (not varies or _ENCODING in varies) and takes_gzip(http)
    if compressed:
        stream.headers["Content-Encoding"] = "gzip"
        if not varies:
            stream.headers["Vary"] = _ENCODING
        if sends_chunks(http):
            stream.enable_chunked_encoding()
    else:
        stream.content_length = size
    try:
        async with asyncio.timeout(seconds):
            await stream.prepare(http)
            if http.method == "HEAD":
                pass  # headers alone: a body would be taken for the next answer
            elif compressed:
                await _send_compressed(stream, pieces)
            else:
                for piece in pieces:
                    await stream.write(piece)
            await stream.write_eof()
    except TimeoutError:
        if http.transport is not None:
            http.transport.abort()
    return stream


async def _send_compressed(stream: web.StreamResponse, pieces: Iterator[bytes | memoryview]) -> None:
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_FORMAT)
    for index, piece in enumerate(pieces):
        if data := packer.compress(piece):
            await stream.write(data)
        if index % _TURNS == _TURNS - 1:
            await asyncio.sleep(0)
    await stream.write(packer.flush())


async def bounded(http: web.BaseRequest, limit: int) -> bytes:
    """A chunked body, but not more than one byte over the limit."""
    chunks, size = [], 0
    async for chunk in http.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            break
    return b"".join(chunks)
