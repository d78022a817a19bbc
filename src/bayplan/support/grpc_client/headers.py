"""Header blocks. Neither side keeps a table of headers seen before (this one never refers to it, and allows the other none), so that equal blocks mean equal
headers and need not be made or read twice."""

from __future__ import annotations

from typing import Final

from hpack import Decoder, Encoder, HPACKError

from bayplan.support.grpc.types import Metadata
from bayplan.support.grpc_client.frames import ProtocolError

Headers = dict[str, str]
_MOST_KEPT: Final = 256
"""Blocks; a peer sends a handful of different ones, but for error texts."""
_LARGEST: Final = 1 << 20
"""Bytes of the headers of one block."""


def request_block(authority: str, scheme: str, method: str, timeout: str, metadata: Metadata) -> bytes:
    """The headers of a call. timeout: in gRPC's format; "" for none."""
    fields = [
        (":method", "POST"),
        (":scheme", scheme),
        (":path", method),
        (":authority", authority),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("user-agent", "bayplan"),
        *([("grpc-timeout", timeout)] if timeout else ()),
        *metadata,
    ]
    never_indexed = [(name, value, True) for name, value in fields]
    return bytes(Encoder().encode(never_indexed, huffman=False))


class HeaderReader:
    """Reads the blocks of one connection."""

    def __init__(self) -> None:
        self._decoder = Decoder(max_header_list_size=_LARGEST)
        self._decoder.max_allowed_table_size = 0
        # As if the peer had said so: where it ends a call at once, C++ gRPC writes headers past its encoder.
        self._decoder.header_table_size = 0
        self._known: dict[bytes, Headers] = {}

    def read(self, block: bytes) -> Headers:
        """The headers of a block; not to be changed. Raises ProtocolError."""
        found = self._known.get(block)
        if found is None:
            try:
                fields = self._decoder.decode(block)
            except (HPACKError, UnicodeDecodeError) as error:
                raise ProtocolError(f"headers that cannot be read: {error}") from error
            found = {str(name): str(value) for name, value in fields}
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            self._known[block] = found
        return found
