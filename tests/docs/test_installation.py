"""The worked installation of docs/high-availability.md, on addresses of loopback: it starts as the page says, and lives when parts of it are killed."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import urllib3
from kubernetes import client, config

from tests.docs.pages import ROOT, blocks
from tests.integration.conftest import BAYPLAN

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs addresses of loopback"),
    pytest.mark.skipif(
        shutil.which("etcd") is None or shutil.which("openssl") is None, reason="needs etcd and openssl"
    ),
]
_PAGE = ROOT / "docs" / "high-availability.md"
_FRONT, _MACHINES = "127.0.31.100", ("127.0.31.1", "127.0.31.2", "127.0.31.3")
_FAILURES = (client.ApiException, urllib3.exceptions.HTTPError, OSError)
_PATIENCE, _MOST_SECONDS = 60.0, 10.0
_UNITS = ("etcd", "bayplan-apiserver", "bayplan-scheduler", "bayplan-controller-manager")
_COMMAND = re.compile(r"^ExecStart=((?:.*\\\n)*.*)$", re.MULTILINE)


def files() -> dict[str, str]:
    """The files that the page shows."""
    return {block.file: "\n".join(block.lines) + "\n" for block in blocks(_PAGE) if block.file}


def eventually(condition: Callable[[], bool], seconds: float = _PATIENCE) -> None:
    """Wait for a condition. Fails the test if it does not come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


class Machine:
    """What runs on one of the machines, by the names of the units."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._log = (directory / "log").open("wb")

    def start(self, unit: str, text: str) -> None:
        """Start a unit: its command with the variables of `machine`, and directories of the test in place of those of a machine."""
        variables = dict(line.split("=", 1) for line in (self.directory / "machine").read_text().splitlines())
        command = _COMMAND.search(text)
        assert command is not None
        words = command[1].replace("\\\n", " ")
        for place, own in {
            "/etc/bayplan": str(self.directory),
            "/var/lib": str(self.directory / "state"),
            "/usr/bin/etcd": str(shutil.which("etcd")),
            "/opt/bayplan/bin/bayplan": BAYPLAN,
            "--processes 4": "--processes 2",
        }.items():
            words = words.replace(place, own)
        words = re.sub(r"\$\{(\w+)\}", lambda match: variables[match[1]], words)
        self.processes[unit] = subprocess.Popen(shlex.split(words), stdout=self._log, stderr=self._log)

    def kill(self, unit: str) -> None:
        """End a unit as a power failure would."""
        process = self.processes.pop(unit)
        process.kill()
        process.wait()

    def end(self) -> None:
        for unit in tuple(self.processes):
            self.kill(unit)
        self._log.close()


class Balancer:
    """The address in front: takes each connection to the next machine that accepts it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._next = itertools.cycle(_MACHINES)
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)

    async def _start(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, _FRONT, 6443)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in _MACHINES:
            with contextlib.suppress(OSError):
                there, back = await asyncio.open_connection(next(self._next), 6443)
                await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))
                return
        writer.close()

    def stop(self) -> None:
        async def end() -> None:
            self._server.close()
            tasks = [one for one in asyncio.all_tasks() if one is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
    finally:
        writer.close()


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[list[Machine]]:
    """The installation, running."""
    shown = files()
    (tmp_path / "certificates.sh").write_text(shown["certificates.sh"])
    subprocess.run(["sh", "certificates.sh", _FRONT, *_MACHINES], cwd=tmp_path, check=True, timeout=60)
    with contextlib.ExitStack() as stack:
        found = [Machine(tmp_path / "machines" / address) for address in _MACHINES]
        for machine in found:
            (machine.directory / "state" / "bayplan").mkdir(parents=True)
            stack.callback(machine.end)
        balancer = Balancer()
        stack.callback(balancer.stop)
        for unit in _UNITS:
            for machine in found:
                machine.start(unit, shown[f"{unit}.service"])
            if unit == "bayplan-apiserver":
                eventually(lambda: answers(tmp_path))
        yield found


@contextlib.contextmanager
def core(directory: Path) -> Iterator[client.CoreV1Api]:
    """A client through the address in front, which tries nothing twice."""
    settings = client.Configuration()
    config.load_kube_config(str(directory / "admin.kubeconfig"), client_configuration=settings)
    settings.retries = False
    with client.ApiClient(settings) as found:
        yield client.CoreV1Api(found)
        found.rest_client.pool_manager.clear()


def answers(directory: Path) -> bool:
    try:
        with core(directory) as api:
            api.read_namespace("default", _request_timeout=5)
    except _FAILURES:
        return False
    return True


def write(directory: Path, name: str) -> None:
    """Create a config map, whichever server takes it."""

    def is_there() -> bool:
        body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name))
        try:
            with core(directory) as api:
                api.create_namespaced_config_map("default", body, _request_timeout=5)
        except client.ApiException as error:
            return bool(error.status == 409)
        except _FAILURES:
            return False
        return True

    eventually(is_there)


def addresses(directory: Path) -> set[str]:
    """Where the service `kubernetes` leads; nowhere if nobody answers."""
    try:
        with core(directory) as api:
            subsets = api.read_namespaced_endpoints("kubernetes", "default", _request_timeout=5).subsets or []
    except _FAILURES:
        return set()
    return {one.ip for subset in subsets for one in subset.addresses}


def leads(directory: Path, component: str) -> bool:
    """Whether a component has elected somebody."""
    try:
        with core(directory) as api:
            leases = client.CoordinationV1Api(api.api_client)
            return bool(leases.read_namespaced_lease(component, "kube-system").spec.holder_identity)
    except _FAILURES:
        return False


def has_accounts(directory: Path) -> bool:
    """Whether controllers have made the account of a namespace."""
    with core(directory) as api:
        return bool(api.list_namespaced_service_account("default").items)


def test_it_starts_as_the_page_says_and_lives_when_a_machine_is_lost(machines: list[Machine], tmp_path: Path) -> None:
    eventually(lambda: addresses(tmp_path) == set(_MACHINES))
    eventually(lambda: leads(tmp_path, "kube-scheduler") and leads(tmp_path, "kube-controller-manager"))
    eventually(lambda: has_accounts(tmp_path))
    names = [f"after-{unit}" for unit in _UNITS]
    for unit in _UNITS:
        machines[0].kill(unit)
        killed = time.monotonic()
        write(tmp_path, f"after-{unit}")
        assert time.monotonic() - killed < _MOST_SECONDS
    with core(tmp_path) as api:
        found = {one.metadata.name for one in api.list_namespaced_config_map("default").items}
    assert set(names) <= found
    eventually(lambda: addresses(tmp_path) == set(_MACHINES[1:]))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    units = {name: text for name, text in files().items() if name.endswith(".service")}
    assert sorted(units) == sorted(f"{unit}.service" for unit in _UNITS)
    for name, text in units.items():
        (tmp_path / name).write_text(re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", text))
    command = ["systemd-analyze", "verify", *map(str, sorted(tmp_path.glob("*.service")))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert not [line for line in done.stderr.splitlines() if str(tmp_path) in line]


def test_the_address_in_front_leads_to_all_machines() -> None:
    text = files()["haproxy.cfg"]
    assert re.findall(r"^  server \w (\S+)$", text, re.MULTILINE) == [f"10.0.0.{number}:6443" for number in (1, 2, 3)]
    assert "bind 10.0.0.100:6443" in text
