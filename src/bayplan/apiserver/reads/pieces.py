"""A long JSON list as the pieces it is made of: a slow client costs references to what the cache has, not a copy of everything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

PIECE = 1 << 17
"""Bytes that are joined and sent at once, about."""


class JsonList:
    """A list body: `head`, then the objects, each without its opening brace, then `]}`."""

    __slots__ = ("bodies", "head", "size")

    def __init__(self, head: bytes, bodies: Sequence[bytes]) -> None:
        self.head = head
        """Everything up to and including the opening bracket of the items."""
        self.bodies = bodies
        """At least one."""
        self.size = len(head) + sum(map(len, bodies)) + 2 * len(bodies) + 1
        """Bytes of the whole body."""

    def pieces(self, end: bytes = b"") -> Iterator[bytes]:
        """The body and `end`, piece by piece."""
        bodies = self.bodies
        step = max(1, PIECE * len(bodies) // self.size)
        yield self.head + b"{" + b",{".join(bodies[:step])
        for start in range(step, len(bodies), step):
            yield b",{" + b",{".join(bodies[start : start + step])
        yield b"]}" + end

    def whole(self) -> bytes:
        """The body in one piece."""
        return b"%b{%b]}" % (self.head, b",{".join(self.bodies))
