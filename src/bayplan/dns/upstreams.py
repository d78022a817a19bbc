"""Sockets to upstream servers: one of its own for every question, so that source ports are as random as the system makes them (RFC 5452)."""

from __future__ import annotations

import asyncio

from bayplan.dns.forwarder import Accept
from bayplan.dns.settings import Server


class SocketExchange:
    """`Exchange` over UDP and TCP."""

    async def udp(self, server: Server, query: bytes, accept: Accept) -> bytes:
        """See Exchange. The socket is connected: the system drops what comes from elsewhere, and tells of closed ports."""
        loop = asyncio.get_running_loop()
        response: asyncio.Future[bytes] = loop.create_future()
        transport, _ = await loop.create_datagram_endpoint(
            lambda: _Datagrams(accept, response), remote_addr=(server.address, server.port)
        )
        try:
            transport.sendto(query)
            return await response
        finally:
            transport.close()

    async def tcp(self, server: Server, query: bytes, accept: Accept) -> bytes:
        """See Exchange."""
        reader, writer = await asyncio.open_connection(server.address, server.port)
        try:
            writer.write(len(query).to_bytes(2, "big") + query)
            while True:
                length = int.from_bytes(await reader.readexactly(2), "big")
                response = await reader.readexactly(length)
                if accept(response):
                    return response
        except EOFError as error:
            raise ConnectionError("the connection has ended before the response") from error
        finally:
            writer.close()


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, accept: Accept, response: asyncio.Future[bytes]) -> None:
        self._accept = accept
        self._response = response

    def datagram_received(self, data: bytes, _: object) -> None:
        if not self._response.done() and self._accept(data):
            self._response.set_result(data)

    def error_received(self, exc: Exception) -> None:
        if not self._response.done():
            self._response.set_exception(exc)
