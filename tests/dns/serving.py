"""A DNS server on the loopback with a zone of its own, and upstream servers that behave as told. Tests run it on uvloop, as the command does."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import dns.asyncquery
import dns.message
import dns.rdatatype

from bayplan.dns.forwarder import Forwarder
from bayplan.dns.listeners import Listeners
from bayplan.dns.metrics import DnsMetrics
from bayplan.dns.responder import Responder
from bayplan.dns.settings import DnsSettings, Server
from bayplan.dns.upstreams import SocketExchange
from bayplan.dns.zone import Zone
from bayplan.support.clock import SystemClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SystemRandomness
from tests.dns.objects import lookups
from tests.dns.objects import zone as usual_zone

Reply = Callable[[bytes, str], bytes | None]
"""From a query and the transport (udp, tcp) to what is sent back; None: nothing."""


@dataclass
class Upstream:
    """A server for names outside of the cluster, over UDP and TCP at one port."""

    reply: Reply
    queries: list[tuple[str, bytes]] = field(default_factory=list)
    sources: set[int] = field(default_factory=set)
    """Ports that queries came from."""
    port: int = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Server]:
        tcp = await asyncio.start_server(self._stream, "127.0.0.1", 0)
        self.port = tcp.sockets[0].getsockname()[1]
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(
            lambda: _UpstreamDatagrams(self), local_addr=("127.0.0.1", self.port)
        )
        try:
            yield Server("127.0.0.1", self.port)
        finally:
            transport.close()
            tcp.close()

    async def _stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        query = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
        self.queries.append(("tcp", query))
        found = self.reply(query, "tcp")
        if found is not None:
            writer.write(len(found).to_bytes(2, "big") + found)
        writer.close()


class _UpstreamDatagrams(asyncio.DatagramProtocol):
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, client: Any) -> None:
        self._upstream.queries.append(("udp", data))
        self._upstream.sources.add(client[1])
        found = self._upstream.reply(data, "udp")
        if found is not None:
            self._transport.sendto(found, client)


@dataclass
class Running:
    """A server that answers."""

    zone: Zone
    responder: Responder
    servers: list[Server]
    registry: Registry
    synced: bool = True

    async def ask(
        self, name: str, kind: str = "A", *, way: str = "udp", server: int = 0, **options: Any
    ) -> dns.message.Message:
        """Ask with dnspython as the client; it checks id and question of the answer."""
        query = dns.message.make_query(name, kind, **options)
        address, port = self.servers[server]
        if way == "tcp":
            return await dns.asyncquery.tcp(query, address, 5, port)
        return await dns.asyncquery.udp(query, address, 5, port)

    async def datagram(self, data: bytes, seconds: float = 5.0) -> bytes:
        """Send bytes as they are and return what comes back. Raises TimeoutError."""
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.setblocking(False)
            client.connect(tuple(self.servers[0]))
            await loop.sock_sendall(client, data)
            return await asyncio.wait_for(loop.sock_recv(client, 65_535), seconds)


@contextlib.asynccontextmanager
async def serving(*upstreams: Server, zone: Zone | None = None, **settings: Any) -> AsyncIterator[Running]:
    """A server on free ports of the loopback, IPv4 and IPv6."""
    chosen = DnsSettings(
        **{"listen": ("127.0.0.1", "::1"), "port": 0, "forward": upstreams, "attempt_seconds": 0.2, **settings}
    )
    clock, registry = SystemClock(), Registry()
    metrics = DnsMetrics(registry)
    made = zone or usual_zone()
    forwarder = (
        Forwarder(chosen, SocketExchange(), clock=clock, randomness=SystemRandomness(), metrics=metrics)
        if upstreams
        else None
    )
    running: Running
    responder = Responder(lookups(made), forwarder, chosen, synced=lambda: running.synced, clock=clock, metrics=metrics)
    listeners = Listeners(chosen)
    listeners.open()
    running = Running(made, responder, listeners.bound, registry)
    await listeners.start(responder)
    try:
        yield running
    finally:
        await listeners.close()
        if forwarder is not None:
            await forwarder.close()


def answered(message: dns.message.Message) -> list[str]:
    """The answer section: `TYPE DATA` of each record."""
    return [f"{dns.rdatatype.to_text(rrset.rdtype)} {data}" for rrset in message.answer for data in rrset]
