"""The listening sockets of the API server: connections are accepted, and their TLS handshakes made, within bounds of time.

A process without free file descriptors stops accepting for a moment and says so once a minute; the connections that it has go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import select
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final

from bayplan.apiserver.http.connection_share import ConnectionShare
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)

_BACKLOG: Final = 1024
_AT_ONCE: Final = 64
"""Connections that are accepted in one turn of the loop."""
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_RETRY_SECONDS: Final = 0.25
_LOG_SECONDS: Final = 60.0
"""Between two lines of the log that say the same."""
_KEEPALIVE_SECONDS: Final = 180
"""Between two looks of the system at a silent connection, as in kube-apiserver."""
_SHUTDOWN_SECONDS: Final = 5.0
"""For a client to answer the end of TLS."""
_YIELD_SECONDS: Final = 0.003
"""For which a connection is left to another process that has fewer."""


def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen on all addresses of a host, the first on a port that the system chooses if that is 0, and the others on the same. Blocks while the
    name is resolved. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            bound = (address[0], port, *address[2:]) if port else address
            sockets.append(_listening(family, kind, protocol, bound))
            port = port or int(sockets[0].getsockname()[1])
    except BaseException:
        for one in sockets:
            one.close()
        raise
    return sockets


def _listening(family: int, kind: int, protocol: int, address: Any) -> socket.socket:
    """Raises OSError."""
    one = socket.socket(family, kind, protocol)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.setblocking(False)
        one.bind(address)
        one.listen(_BACKLOG)
    except BaseException:
        one.close()
        raise
    return one


class Listener:
    """Accepts connections and hands them to the protocols that `protocol` makes."""

    def __init__(
        self,
        protocol: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None,
        clock: Clock,
        *,
        handshake_seconds: float,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        """handshake_seconds: how long a client may take for the TLS handshake. failed: called when one fails."""
        self._failed = failed
        self._protocol = protocol
        self._clock = clock
        self._options: dict[str, Any] = {}
        if tls is not None:
            self._options = {
                "ssl": tls,
                "ssl_handshake_timeout": handshake_seconds,
                "ssl_shutdown_timeout": _SHUTDOWN_SECONDS,
            }
        self._sockets: list[socket.socket] = []
        self._share: ConnectionShare | None = None
        """Of this process in connections of sockets that other processes accept from as well."""
        self._shared: list[socket.socket] = []
        """These sockets."""
        self._handshakes: set[asyncio.Task[None]] = set()
        self._logged_at = float("-inf")

    async def start(self, host: str, port: int) -> int:
        """Listen on all addresses of a host. Returns the port of the first (chosen by the system if 0 is given). Raises OSError."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, kind, protocol, _, address in dict.fromkeys(found):
                self._sockets.append(_listening(family, kind, protocol, address))
        except BaseException:
            self.close()
            raise
        for one in self._sockets:
            loop.add_reader(one, self._accept, one)
        return int(self._sockets[0].getsockname()[1])

    def adopt(self, sockets: Sequence[socket.socket], share: ConnectionShare) -> None:
        """Accept connections of sockets that listen already, and of which other processes accept, too."""
        self._share = share
        self._shared = list(sockets)
        self._sockets += sockets
        share.begin()
        for one in sockets:
            asyncio.get_running_loop().add_reader(one, self._accept, one)

    def use(self, tls: ssl.SSLContext) -> None:
        """Make the handshakes of connections that come from now on with other certificates."""
        if self._options:
            self._options["ssl"] = tls

    @property
    def has_handshakes(self) -> bool:
        """Whether connections have been accepted that no protocol has yet."""
        return bool(self._handshakes)

    def close(self) -> None:
        """Listen no more. What was accepted goes on; connections that wait to be accepted are accepted first."""
        sockets, self._sockets = self._sockets, []
        share, self._share = self._share, None
        loop = asyncio.get_running_loop()
        for one in sockets:
            if loop.remove_reader(one) or one in self._shared:
                self._accept_all(one)
            if one in self._shared:
                with contextlib.suppress(OSError):  # another process was first
                    one.shutdown(
                        socket.SHUT_RDWR
                    )  # nobody accepts any more: what comes is refused, rather than left waiting
            one.close()
        if share is not None:
            share.end()

    def abort(self) -> None:
        """End handshakes that have not ended."""
        for task in self._handshakes:
            task.cancel()

    def _accept(self, listening: socket.socket) -> None:
        if self._share is not None and listening in self._shared and self._share.is_ahead:
            self._yield(listening)
            return
        try:
            self._accept_all(listening)
        except OSError as error:
            self._pause(listening, error)

    def _accept_all(self, listening: socket.socket) -> None:
        """Accept the connections that wait. Raises OSError if the process or the system has no room for more."""
        loop = asyncio.get_running_loop()
        for _ in range(_AT_ONCE if self._share is None else 1):
            try:
                one, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    raise
                if error.errno != errno.EINVAL:  # which says that another process has ended the listening
                    logger.warning("a connection was not accepted: %s", error)
                return
            one.setblocking(False)
            task = loop.create_task(self._connect(one, address))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        """Leave clients waiting in the system's queue until there may be room."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        now = self._clock.monotonic()
        if now - self._logged_at >= _LOG_SECONDS:
            self._logged_at = now
            logger.error("no new connections are accepted: %s; those that are open go on", error.strerror)
        self._clock.call_later(_RETRY_SECONDS, lambda: self._resume(listening))

    def _yield(self, listening: socket.socket) -> None:
        """Leave a connection to a process that has fewer; if that does not take it soon, this one does."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)

        def take() -> None:
            if listening in self._sockets:
                loop.add_reader(listening, self._accept, listening)
                with contextlib.suppress(OSError):
                    self._accept_all(listening)

        self._clock.call_later(_YIELD_SECONDS, take)

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    async def _connect(self, accepted: socket.socket, address: Any) -> None:
        _keep_alive(accepted)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._protocol, accepted, **self._options)
        except (OSError, TimeoutError) as error:
            self._failed()
            logger.info("TLS handshake error from %s: %s", address[0], error)
            accepted.close()


def _keep_alive(accepted: socket.socket) -> None:
    """Let the system notice peers that have gone without a word."""
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        if hasattr(socket, name):  # not on every system
            accepted.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), _KEEPALIVE_SECONDS)


def peer_of(transport: asyncio.BaseTransport | None) -> str:
    """The address of a client, for the log."""
    peer = transport.get_extra_info("peername") if transport is not None else None
    return str(peer[0]) if peer else "somewhere"


def has_input(transport: asyncio.BaseTransport) -> bool:
    """Whether bytes of the client wait to be read."""
    waiting = select.poll()
    waiting.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return any(event & select.POLLIN for _, event in waiting.poll(0))
