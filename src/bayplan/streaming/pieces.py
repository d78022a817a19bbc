"""Bytes on their way from one task to another, of which only so many wait."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

_MOST_WAITING: Final = 1 << 20


class Pieces:
    """What comes one way. It is a Reader."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._waiting = 0
        self._has_ended = False
        self._changed = asyncio.Event()

    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes; something may still wait."""
        return self._has_ended

    async def read(self) -> bytes:
        """See Reader."""
        while not self._pieces and not self._has_ended:
            self._changed.clear()
            await self._changed.wait()
        if not self._pieces:
            return b""
        piece = self._pieces.popleft()
        self._waiting -= len(piece)
        self._changed.set()
        return piece

    async def take(self, data: bytes) -> None:
        """Bytes have come; returns when there is room for more."""
        if self._has_ended or not data:
            return
        self._pieces.append(data)
        self._waiting += len(data)
        self._changed.set()
        while self._waiting > _MOST_WAITING and not self._has_ended:
            self._changed.clear()
            await self._changed.wait()

    def end(self) -> None:
        """Nothing more comes."""
        self._has_ended = True
        self._changed.set()
