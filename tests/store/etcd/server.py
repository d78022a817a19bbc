"""A real etcd for tests: one member on loopback, in a directory of its own, ended by its process id."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

PROGRAM = shutil.which("etcd")
needs_etcd = pytest.mark.skipif(PROGRAM is None, reason="there is no etcd on PATH (Debian: etcd-server)")
_PATIENCE = 30.0
_SETPRIV = shutil.which("setpriv")
ENDS_WITH_PARENT = (_SETPRIV, "--pdeathsig", "KILL") if _SETPRIV is not None else ()
"""Has the kernel end a member whose test was killed."""


def free_ports(count: int) -> list[int]:
    """TCP ports of loopback that nobody uses at the moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class EtcdServer:
    """A member that runs, unless it was stopped."""

    def __init__(self, folder: Path, flags: Sequence[str] = (), *, name: str = "one", scheme: str = "http") -> None:
        self.name, self._folder, self._flags, self._scheme = name, folder, flags, scheme
        self.port, self.peer_port = free_ports(2)
        self.endpoint = f"127.0.0.1:{self.port}"
        self.peer = f"http://127.0.0.1:{self.peer_port}"
        self.cluster: Sequence[EtcdServer] = (self,)
        """All members, this one included."""
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        """Start it and return at once."""
        assert PROGRAM is not None
        url = f"{self._scheme}://{self.endpoint}"
        members = ",".join(f"{one.name}={one.peer}" for one in self.cluster)
        command = [
            *ENDS_WITH_PARENT, PROGRAM, f"--name={self.name}", f"--data-dir={self._folder}", f"--listen-client-urls={url}", f"--advertise-client-urls={url}",
            f"--listen-peer-urls={self.peer}", f"--initial-advertise-peer-urls={self.peer}", f"--initial-cluster={members}",
            "--max-request-bytes=4000000", "--log-level=error", *self._flags,
        ]  # fmt: skip
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def start(self) -> None:
        """Start it and return when it listens."""
        self.launch()
        self.wait_until_listening()

    def wait_until_listening(self) -> None:
        """Return when it takes connections, which it does once it has a leader."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.02)

    def stop(self) -> None:
        """Kill it, as a power failure would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class _Shared:
    server: EtcdServer | None = None


def shared_server() -> EtcdServer:
    """The etcd that tests of this process share; each of them uses a prefix of its own."""
    if _Shared.server is None:
        folder = Path(tempfile.mkdtemp(prefix="bayplan-etcd-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        _Shared.server = EtcdServer(folder)
        _Shared.server.start()

        def end() -> None:
            assert _Shared.server is not None
            _Shared.server.stop()
            shutil.rmtree(folder, ignore_errors=True)

        atexit.register(end)
    return _Shared.server


class Forwarder:
    """A port that leads to a server until it is cut, as a network does."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.port = free_ports(1)[0]
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_whole(self) -> bool:
        """Whether it leads to the server."""
        return self._server is not None and self._server.is_serving()

    async def mend(self) -> None:
        """Lead to the server."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def cut(self) -> None:
        """Lead nowhere, and break what leads there."""
        assert self._server is not None
        self._server.close()
        for writer in tuple(self._writers):
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._forward(reader, writer)
        finally:
            self._tasks.discard(task)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, there_writer}
        if not self.is_whole:  # it was cut while this connection was made
            for one in (writer, there_writer):
                one.transport.abort()
        try:
            await asyncio.gather(_copy(reader, there_writer), _copy(there_reader, writer))
        finally:
            for one in (writer, there_writer):
                self._writers.discard(one)
                one.close()
            for one in (writer, there_writer):
                with contextlib.suppress(ConnectionError):
                    await one.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, asyncio.CancelledError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
