"""What is streamed, whatever carries it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from aiohttp import web


class StreamError(Exception):
    """What was asked for cannot be done; the text is for the user."""


class Reader(Protocol):
    """One direction, towards the reader."""

    async def read(self) -> bytes:
        """What comes next; b"" at the end."""


class Writer(Protocol):
    """One direction, away from the writer."""

    async def write(self, data: bytes) -> None:
        """Send, when there is room. Raises ConnectionError if nobody is there any more."""


class TerminalSize(NamedTuple):
    """Columns and lines."""

    width: int
    height: int


class Sizes(Protocol):
    """What becomes of a terminal's size."""

    async def next(self) -> TerminalSize | None:
        """The next size; None when there will be no other."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The streams that a client asks for. With a terminal, there is no stderr."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


@dataclass(frozen=True, slots=True)
class CommandStreams:
    """What a command reads and writes; None for what the client does not have."""

    stdin: Reader | None = None
    stdout: Writer | None = None
    stderr: Writer | None = None
    sizes: Sizes | None = None
    """Only with a terminal."""


Run = Callable[[CommandStreams], Awaitable[int]]
"""Runs a command to its end: its exit code. Raises StreamError. Cancelled when the client goes."""


class Duplex(Protocol):
    """A connection to a port."""

    async def read(self) -> bytes:
        """What comes next; b"" at the end."""

    async def write(self, data: bytes) -> None:
        """Send, when there is room. Raises ConnectionError."""

    async def finish(self) -> None:
        """Nothing more will be sent."""

    async def close(self) -> None:
        """End it both ways."""


Connect = Callable[[int], Awaitable[Duplex]]
"""Connects to a port of a pod. Raises StreamError."""


Stream = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
"""Changes the protocol of a client's connection, and serves it to its end."""
