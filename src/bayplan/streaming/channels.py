"""Channels in the messages of a WebSocket: each message begins with the number of its channel.

    v4.channel.k8s.io         b"\\x01hello"      binary
    v5.channel.k8s.io         b"\\xff\\x00"       besides: channel 0 ends
    base64.channel.k8s.io     "1aGVsbG8="      text, the bytes in base64

Source: Kubernetes' `streaming/pkg/httpstream/wsstream`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Final

from aiohttp import WSMsgType, web

from bayplan.streaming.pieces import Pieces

_END: Final = 255
"""The channel that says which other one ends."""
_PIECE: Final = 1 << 15


class Channel:
    """One channel. It is a Reader and a Writer."""

    def __init__(self, number: int, channels: Channels) -> None:
        self._number, self._channels = number, channels
        self.incoming = Pieces()

    async def read(self) -> bytes:
        """See Reader."""
        return await self.incoming.read()

    async def write(self, data: bytes) -> None:
        """See Writer. Nothing at all is a message, too: it shows the client that the channel is there."""
        for start in range(0, len(data) or 1, _PIECE):
            await self._channels.send(self._number, data[start : start + _PIECE])

    async def finish(self) -> None:
        """Channels end with the connection."""


class Channels:
    """The channels of one WebSocket, from 0."""

    def __init__(self, socket: web.WebSocketResponse, count: int) -> None:
        """socket: prepared, with the protocol that was agreed upon."""
        self._socket = socket
        self._is_text = (socket.ws_protocol or "").removeprefix("v4.").startswith("base64.")
        self._channels = [Channel(number, self) for number in range(count)]

    def __getitem__(self, number: int) -> Channel:
        return self._channels[number]

    async def run(self) -> None:
        """Read until the client closes."""
        try:
            async for message in self._socket:
                if message.type not in (WSMsgType.BINARY, WSMsgType.TEXT) or not message.data:
                    continue
                number, data = self._read(message.data)
                if number == _END and data:
                    self._end(data[:1])
                elif number < len(self._channels):
                    await self._channels[number].incoming.take(data)
        finally:
            self._end(range(len(self._channels)))

    async def send(self, number: int, data: bytes) -> None:
        """A message. Raises ConnectionError."""
        if self._is_text:
            await self._socket.send_str(f"{number}{base64.b64encode(data).decode()}")
        else:
            await self._socket.send_bytes(bytes((number,)) + data)

    def _read(self, message: bytes | str) -> tuple[int, bytes]:
        """(channel, bytes); a channel that there is not for what cannot be read."""
        if isinstance(message, bytes):
            return message[0], message[1:]
        digit = message[0]
        try:
            return (int(digit) if digit in "0123456789" else _END), base64.b64decode(message[1:])
        except binascii.Error:
            return _END, b""

    def _end(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if number < len(self._channels):
                self._channels[number].incoming.end()
