"""Sockets of clients: UDP read in batches straight from the socket, TCP by asyncio's streams."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import sys
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from bayplan.dns.datagrams import AddressDatagrams, Client, Datagrams, WildcardDatagrams
from bayplan.dns.errors import ListenError
from bayplan.dns.listener_context import ListenerContext
from bayplan.dns.responder import Responder
from bayplan.dns.settings import WILDCARDS, DnsSettings, Server

logger = logging.getLogger(__name__)

_BATCH: Final = 64
"""Datagrams that are answered before other tasks get their turn."""
_BUFFER: Final = 4 << 20
"""Bytes that the system keeps for us while we are busy; it may give less."""
_IN_FLIGHT: Final = 32
"""Queries of one TCP connection that wait for other servers at once."""
_TRIES: Final = 20
"""How often a free port is looked for that both UDP and TCP can have."""
_PRIVILEGED: Final = 1024


class Listeners:
    """All sockets of a DNS server. `open` first, then `start`; `close` always."""

    def __init__(self, settings: DnsSettings) -> None:
        self._settings = settings
        self._sockets: list[tuple[socket.socket, socket.socket]] = []
        self._udp: list[UdpListener] = []
        self._tcp: list[TcpListener] = []

    @property
    def bound(self) -> list[Server]:
        """The addresses and ports that are listened on."""
        return [Server(*udp.getsockname()[:2]) for udp, _ in self._sockets]

    def open(self) -> None:
        """Take the addresses. Raises ListenError."""
        port = self._settings.port
        for address in self._settings.listen:
            pair = _pair(address, port)
            self._sockets.append(pair)
            port = pair[0].getsockname()[1]

    async def start(self, responder: Responder) -> None:
        """Answer what comes."""
        for udp, tcp in self._sockets:
            server = f"dns://{Server(*udp.getsockname()[:2])}"
            family = "2" if udp.family == socket.AF_INET6 else "1"
            datagrams = UdpListener(udp, responder, responder.listener_context(server, "udp", family))
            datagrams.start()
            self._udp.append(datagrams)
            stream = TcpListener(tcp, responder, responder.listener_context(server, "tcp", family), self._settings)
            await stream.start()
            self._tcp.append(stream)

    async def close(self) -> None:
        """Stop listening, and end what is under way."""
        for one in self._udp:
            await one.close()
        for stream in self._tcp:
            await stream.close()
        for pair in self._sockets:
            for one_socket in pair:
                one_socket.close()


class UdpListener:
    """Answers datagrams. Cached answers leave in the same call in which their queries came."""

    def __init__(self, udp: socket.socket, responder: Responder, context: ListenerContext) -> None:
        self._socket = udp
        wildcard = sys.platform == "linux" and udp.getsockname()[0] in WILDCARDS
        self._datagrams: Datagrams = WildcardDatagrams(udp) if wildcard else AddressDatagrams(udp)
        self._responder = responder
        self._context = context
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Answer from now on."""
        asyncio.get_running_loop().add_reader(self._socket, self._read)

    async def close(self) -> None:
        """Answer no more."""
        asyncio.get_running_loop().remove_reader(self._socket)
        await _end(self._tasks)

    def _read(self) -> None:
        receive, answer, context = self._datagrams.receive, self._responder.answer, self._context
        for _ in range(_BATCH):
            try:
                data, client = receive()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                logger.warning("datagrams cannot be received: %s", error)
                return
            found = answer(context, data)
            if isinstance(found, bytes):
                self._send(found, client)
            elif found is not None:
                task = asyncio.create_task(self._send_later(found, data, client))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _send_later(self, answer: Coroutine[Any, Any, bytes], query: bytes, client: Client) -> None:
        self._send(await _awaited(answer, query, self._responder), client)

    def _send(self, answer: bytes, client: Client) -> None:
        try:
            self._datagrams.send(answer, client)
        except OSError as error:  # a forged port 0, a full buffer: the client asks again, as for any lost datagram
            logger.debug("no answer to %s: %s", client[0], error)


class TcpListener:
    """Answers queries on connections, several at once on each (RFC 7766). Slow and idle clients are cut off."""

    def __init__(
        self, tcp: socket.socket, responder: Responder, context: ListenerContext, settings: DnsSettings
    ) -> None:
        self._socket = tcp
        self._responder = responder
        self._context = context
        self._seconds = settings.idle_seconds
        self._most = settings.max_connections
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Answer from now on."""
        self._server = await asyncio.start_server(self._connected, sock=self._socket)

    async def close(self) -> None:
        """Stop listening and end all connections."""
        if self._server is not None:
            self._server.close()
        await _end(self._connections)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= self._most:
            writer.close()
            return
        task = asyncio.create_task(self._converse(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A connection, from its first query to its end."""
        waiting: set[asyncio.Task[None]] = set()
        try:
            await self._read_all(reader, writer, waiting)
            if waiting:
                await asyncio.wait(waiting)
        except OSError as error:  # TimeoutError, too
            logger.debug("a connection ends: %s", error or type(error).__name__)
        finally:
            await _end(waiting)
            writer.close()

    async def _read_all(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, waiting: set[asyncio.Task[None]]
    ) -> None:
        """Serve queries until the client sends no more. Raises OSError."""
        while True:
            async with asyncio.timeout(self._seconds):
                try:
                    query = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
                except asyncio.IncompleteReadError:
                    return
                await self._serve(query, writer, waiting)

    async def _serve(self, query: bytes, writer: asyncio.StreamWriter, waiting: set[asyncio.Task[None]]) -> None:
        found = self._responder.answer(self._context, query)
        if found is None:
            raise ConnectionError("what came is no query")
        if isinstance(found, bytes):
            await _write(writer, found)
            return
        task = asyncio.create_task(self._serve_later(found, query, writer))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
        if len(waiting) >= _IN_FLIGHT:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)

    async def _serve_later(
        self, answer: Coroutine[Any, Any, bytes], query: bytes, writer: asyncio.StreamWriter
    ) -> None:
        message = await _awaited(answer, query, self._responder)
        try:
            async with asyncio.timeout(self._seconds):
                await _write(writer, message)
        except OSError as error:
            logger.debug("an answer cannot be sent: %s", error or type(error).__name__)


async def _awaited(answer: Coroutine[Any, Any, bytes], query: bytes, responder: Responder) -> bytes:
    try:
        return await answer
    except Exception:
        return responder.internal_error(query)


async def _write(writer: asyncio.StreamWriter, answer: bytes) -> None:
    writer.write(len(answer).to_bytes(2, "big") + answer)
    await writer.drain()


async def _end(tasks: set[asyncio.Task[None]]) -> None:
    for task in (rest := tuple(tasks)):
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


def _pair(address: str, port: int) -> tuple[socket.socket, socket.socket]:
    """A UDP and a TCP socket with the same port. Raises ListenError."""
    for _ in range(1 if port else _TRIES):
        tcp = _bound(address, port, socket.SOCK_STREAM)
        try:
            return _bound(address, tcp.getsockname()[1], socket.SOCK_DGRAM), tcp
        except ListenError:
            tcp.close()
            if port:
                raise
    raise ListenError(f"no port of {address} is free for both UDP and TCP; name one with --port")


def _bound(address: str, port: int, kind: socket.SocketKind) -> socket.socket:
    """A socket that has an address. Raises ListenError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    name = "TCP" if kind == socket.SOCK_STREAM else "UDP"
    one = socket.socket(family, kind)
    try:
        one.setblocking(False)
        if kind == socket.SOCK_STREAM:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        else:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind((address, port))
        if kind == socket.SOCK_STREAM:
            one.listen(128)
    except OSError as error:
        one.close()
        raise ListenError(
            f"cannot listen on {Server(address, port)} ({name}): {error.strerror or error}; {_advice(error, port)}"
        ) from error
    return one


def _advice(error: OSError, port: int) -> str:
    if error.errno in (errno.EACCES, errno.EPERM) and port < _PRIVILEGED:
        return "ports below 1024 need root or CAP_NET_BIND_SERVICE, choose another with --port"
    if error.errno == errno.EADDRINUSE:
        return "something else listens there, choose another with --port or --listen"
    return "choose another address with --listen"


def reaches_itself(bound: Sequence[Server], forward: Sequence[Server]) -> Server | None:
    """The first upstream server that is this server itself, or None."""
    for one in forward:
        for mine in bound:
            anywhere = mine.address in WILDCARDS and (one.address.startswith("127.") or one.address == "::1")
            if one.port == mine.port and (one.address == mine.address or anywhere):
                return one
    return None
