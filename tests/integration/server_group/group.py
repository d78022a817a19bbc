"""A running `bayplan apiserver --processes N`, and what tests see of its processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import BAYPLAN

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="groups of processes need Linux")
FAILURES = (OSError, HTTPException)
_PATIENCE = 30.0
MAPS = "/api/v1/namespaces/default/configmaps"


def eventually(condition: Callable[[], bool], seconds: float = _PATIENCE) -> None:
    """Wait for a condition. Fails the test if it does not come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


class Connection:
    """A client with one connection, as the administrator."""

    def __init__(self, url: str, token: str, trust: ssl.SSLContext) -> None:
        host, port = url.removeprefix("https://").rsplit(":", 1)
        self._http = HTTPSConnection(host, int(port), timeout=_PATIENCE, context=trust)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._response: HTTPResponse | None = None
        try:
            self._http.connect()
        except FAILURES:
            self._http.close()
            raise

    def become(self, token: str) -> None:
        """Ask as another user from now on."""
        self._headers["Authorization"] = f"Bearer {token}"

    def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> HTTPResponse:
        """The response, not read yet. Raises FAILURES."""
        self._http.request(method, path, json.dumps(body) if body is not None else None, self._headers)
        self._response = response = self._http.getresponse()
        return response

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Status and body of the answer. Raises FAILURES."""
        response = self.send(method, path, body)
        return response.status, json.loads(response.read())

    def text(self, path: str) -> str:
        """What a page says."""
        return self.send("GET", path).read().decode()

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
        self._http.close()


@dataclass
class Group:
    """The running command."""

    process: subprocess.Popen[str]
    directory: Path
    url: str
    _connections: list[Connection] = field(default_factory=list)

    def connect(self) -> Connection:
        """A new connection, which is closed with the group. Raises FAILURES."""
        trust = ssl.create_default_context(cafile=self.directory / "pki" / "ca.crt")
        connection = Connection(self.url, (self.directory / "pki" / "admin-token").read_text().strip(), trust)
        self._connections.append(connection)
        return connection

    def close(self) -> None:
        """Close all connections."""
        for one in self._connections:
            one.close()

    def connections(self, count: int) -> list[Connection]:
        """So many, of which each API server process has its share."""
        return [self.connect() for _ in range(count)]

    def pid(self, name: str) -> int:
        """The process of a name; 0 if there is none."""
        return next((one for one in _descendants(self.process.pid) if _comm(one) == name), 0)

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> int:
        """Signal a process by its name; returns its pid."""
        found = self.pid(name)
        assert found, f"there is no {name}"
        os.kill(found, number)
        return found

    def replaced(self, name: str, before: int) -> bool:
        """Whether another process has this name than before, and all serve."""
        return self.pid(name) not in (0, before)


def _descendants(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            yield int(one)
            yield from _descendants(int(one))


def _comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


@contextlib.contextmanager
def running(directory: Path, *arguments: str, processes: int = 2, store: str = "") -> Iterator[Group]:
    """Start a group with a SQLite store in a directory, or another store."""
    command = [
        BAYPLAN, "apiserver", f"--store={store or f'sqlite:{directory}/store.db'}", f"--processes={processes}", "--secure-port=0",
        f"--cert-dir={directory}/pki", f"--kubeconfig={directory}/kubeconfig", *arguments,
    ]  # fmt: skip
    with started(command, directory) as group:
        yield group


@contextlib.contextmanager
def running_servers(directory: Path, *arguments: str, servers: int = 3) -> Iterator[Group]:
    """Start a whole cluster with several API servers."""
    command = [BAYPLAN, "up", f"--servers={servers}", f"--data-dir={directory}", "--port=0", *arguments]
    with started(command, directory) as group:
        yield group


@contextlib.contextmanager
def started(command: list[str], directory: Path) -> Iterator[Group]:
    """Start a command that says when it is ready."""
    log = (directory / "log").open("a")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("ready"), line + (directory / "log").read_text()
        group = Group(process, directory, line.split()[1])
        try:
            yield group
        finally:
            group.close()
    finally:
        process.terminate()
        try:
            process.wait(_PATIENCE)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            log.close()


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


class Writers:
    """Clients that create config maps one after the other, each over a connection of its own, until told to stop."""

    def __init__(self, group: Group, count: int) -> None:
        self.acknowledged: list[str] = []
        self.refused: list[tuple[int, str]] = []
        self._group = group
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(count)]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int) -> None:
        connection: Connection | None = None
        step = 0
        while not self._stop.is_set():
            name = f"map-{number}-{step}"
            step += 1
            try:
                connection = connection or self._group.connect()
                code, answer = connection.ask("POST", MAPS, config_map(name))
            except FAILURES:
                if connection is not None:
                    connection.close()
                connection = None
                continue
            if code == 201:
                self.acknowledged.append(name)
            else:
                self.refused.append((code, str(answer)))

    def progress(self, count: int) -> None:
        """Wait until so many more are acknowledged."""
        goal = len(self.acknowledged) + count
        eventually(lambda: len(self.acknowledged) >= goal)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
