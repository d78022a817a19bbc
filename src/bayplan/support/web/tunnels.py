"""Two HTTP connections whose protocol has changed become a tunnel: what comes on one goes out on the other, both ways."""

from __future__ import annotations

import asyncio
import contextlib

import aiohttp
from aiohttp import web

from bayplan.support.clock import Clock
from bayplan.support.web.upgrades import LINGER_SECONDS, MOST_FROM_SERVERS, Incoming, Sent, write_all


async def tunnel(http: web.BaseRequest, answer: aiohttp.ClientResponse, clock: Clock) -> web.StreamResponse:
    """Tell the client that the protocol changes, and carry bytes both ways until one end closes. answer: the backend's 101. Raises ConnectionError."""
    connection, client = answer.connection, http.transport
    if connection is None or connection.transport is None or connection.protocol is None or client is None:
        raise ConnectionError("the connection is closed")
    backend = connection.transport
    head = b"".join(b"%b: %b\r\n" % pair for pair in answer.raw_headers)
    client.write(b"HTTP/1.1 101 Switching Protocols\r\n%b\r\n" % head)
    there = Incoming(client)
    back = Incoming(backend, MOST_FROM_SERVERS)
    http.protocol.set_parser(there)  # type: ignore[arg-type]  # what aiohttp needs of a parser
    connection.protocol.set_parser(back, None)
    carried = [asyncio.create_task(_carry(there, backend, clock)), asyncio.create_task(_carry(back, client, clock))]
    try:
        await asyncio.wait(carried, return_when=asyncio.FIRST_COMPLETED)
        if backend.is_closing() and not client.is_closing():
            await carried[1]  # what came last
            carried[0].cancel()
            # To close on a client that still sends takes from it what it has not read yet.
            await there.ended(LINGER_SECONDS)
    finally:
        for task in carried:
            task.cancel()
        backend.close()
        client.close()
    return Sent()


async def _carry(source: Incoming, target: asyncio.Transport, clock: Clock) -> None:
    """Write what comes, as fast as the target takes it, until one of the two closes."""
    with contextlib.suppress(ConnectionError):
        while piece := await source.read():
            await write_all(target, piece, clock)
