"""Three members of etcd and three API servers, each on a machine of its own."""

from __future__ import annotations

import asyncio
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import CalledProcessError
from typing import Final

from bayplan.apiserver.service_account_tokens.keys import make_signing_key
from tests.integration.conftest import BAYPLAN
from tests.robustness.real.machines import Disk, Machine, command, make_hub
from tests.store.etcd.server import PROGRAM

TOKEN: Final = "robustness"
"""What clients show the servers."""
_PATIENCE: Final = 60.0
_DISK_MEGABYTES: Final = 256
PORT: Final = 6443
FAKE_CLOCKS: Final = sorted(map(str, Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")))
"""libfaketime, if it is installed."""


class Member:
    """A member of etcd. It can be replaced by one without data."""

    def __init__(self, number: int, directory: Path) -> None:
        self.machine = Machine(f"etcd-{number}", number, directory / f"etcd-{number}")
        self.disk = Disk(directory / f"etcd-{number}.image", directory / f"disk-{number}", _DISK_MEGABYTES)
        self.endpoint = f"{self.machine.address}:2379"
        self.peer = f"http://{self.machine.address}:2380"
        self._lives = 0

    @property
    def name(self) -> str:
        """Of the machine."""
        return self.machine.name

    @property
    def initial(self) -> str:
        """As a new cluster names it."""
        return f"{self.name}={self.peer}"

    def start(self, cluster: str, state: str = "new") -> None:
        """Start it, with what is on its disk. cluster: all members, as etcd takes them."""
        url = f"http://{self.endpoint}"
        assert PROGRAM is not None
        self.machine.run([
            PROGRAM, f"--name={self.name}", f"--data-dir={self.disk.place / f'data-{self._lives}'}", f"--listen-client-urls={url}", f"--advertise-client-urls={url}",
            f"--listen-peer-urls={self.peer}", f"--initial-advertise-peer-urls={self.peer}", f"--initial-cluster={cluster}", f"--initial-cluster-state={state}",
            "--log-level=error", "--snapshot-count=2000", "--strict-reconfig-check=true",
        ])  # fmt: skip

    def forget(self) -> None:
        """Lose all data. It must not run."""
        shutil.rmtree(self.disk.place / f"data-{self._lives}")
        self._lives += 1


class Server:
    """A `bayplan apiserver`."""

    def __init__(self, number: int, directory: Path, members: list[Member]) -> None:
        self.machine = Machine(f"server-{number}", 10 + number, directory / f"server-{number}")
        self.url = f"https://{self.machine.address}:{PORT}"
        servers = ",".join(f"http://{member.endpoint}" for member in members)
        key, tokens = directory / "sa.key", directory / "tokens"
        self._step = directory / f"{self.machine.name}.clock"
        """What libfaketime adds to the machine's clock."""
        self.step_clock(0)
        self._command = [
            *self._under_another_clock(), BAYPLAN, "apiserver", f"--etcd-servers={servers}", f"--secure-port={PORT}", f"--bind-address={self.machine.address}",
            f"--cert-dir={self.machine.directory}", f"--service-account-signing-key-file={key}", f"--service-account-key-file={key}",
            f"--token-auth-file={tokens}", f"--kubeconfig={self.machine.directory / 'kubeconfig'}", "--etcd-compaction-interval=0",
        ]  # fmt: skip

    def start(self) -> None:
        """Start it."""
        self.machine.run(self._command)

    def _under_another_clock(self) -> list[str]:
        """The beginning of a command whose wall clock `step_clock` sets; "monotonic" clocks stay as they are."""
        if not FAKE_CLOCKS:
            return []
        settings = (
            f"FAKETIME_TIMESTAMP_FILE={self._step}",
            "FAKETIME_CACHE_DURATION=1",
            "FAKETIME_DONT_FAKE_MONOTONIC=1",
        )
        return ["env", f"LD_PRELOAD={FAKE_CLOCKS[0]}", *settings]

    def step_clock(self, seconds: int) -> None:
        """Set its clock so far from that of the others, within a second."""
        following = self._step.with_suffix(".next")
        following.write_text(f"{seconds:+d}s\n")
        following.replace(self._step)


class Installation:
    """All six, started. It ends with the process namespace that it is in."""

    def __init__(self, directory: Path) -> None:
        make_hub()
        (directory / "sa.key").write_bytes(make_signing_key())
        (directory / "tokens").write_text(f'{TOKEN},admin,admin,"system:masters"\n')
        self.members = [Member(number, directory) for number in range(3)]
        self.servers = [Server(number, directory, self.members) for number in range(3)]
        self._initial = ",".join(member.initial for member in self.members)
        for member in self.members:
            member.start(self._initial)
        for member in self.members:
            _wait_until_listening(member.machine, 2379)
        for server in self.servers:
            server.start()
        for server in self.servers:
            _wait_until_listening(server.machine, PORT)

    @property
    def machines(self) -> list[Machine]:
        """All of them."""
        return [*(member.machine for member in self.members), *(server.machine for server in self.servers)]

    def restart(self, member: Member) -> None:
        """Start a member that has ended."""
        if not member.machine.is_up:
            member.start(self._initial)

    async def replace(self, member: Member) -> None:
        """Let an empty member take the place of one that is gone for ever. Raises CalledProcessError if the others do not agree to it in time."""
        member.machine.kill()
        others = ",".join(one.endpoint for one in self.members if one is not member)

        def remove_and_add() -> None:
            for identity, _, _, peer, *_ in etcd_members(others):
                if peer == member.peer:
                    etcdctl(others, "member", "remove", identity)
            etcdctl(others, "member", "add", member.name, f"--peer-urls={member.peer}")

        await asyncio.to_thread(insist, remove_and_add)
        member.forget()
        member.start(self._initial, "existing")

    def tracebacks(self) -> list[str]:
        """Lines of the servers' logs that tell of an exception that nobody expected."""
        found = []
        for server in self.servers:
            lines = server.machine.log.read_text(errors="replace").splitlines()
            found += [f"{server.machine.name}: {line[:2000]}" for line in lines if "Traceback" in line]
        return found


def etcdctl(endpoints: str, *words: str, seconds: int = 10) -> str:
    """What etcdctl prints. Raises CalledProcessError."""
    limits = (f"--dial-timeout={seconds}s", f"--command-timeout={seconds}s")
    return command("env", "ETCDCTL_API=3", "etcdctl", f"--endpoints={endpoints}", *limits, *words)


def etcd_members(endpoints: str) -> list[list[str]]:
    """Rows of (id in hexadecimal digits, status, name, peer's URL, client's URL, ...). Raises CalledProcessError."""
    return [[part.strip() for part in line.split(",")] for line in etcdctl(endpoints, "member", "list").splitlines()]


def insist(action: Callable[[], None]) -> None:
    """Do something that etcd refuses while it has no leader, and while its members have not heard each other for long enough."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return action()
        except CalledProcessError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def _wait_until_listening(machine: Machine, port: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            socket.create_connection((machine.address, port), timeout=5).close()
            return
        except OSError as error:
            if time.monotonic() > deadline or not machine.is_up:
                error.add_note(machine.log.read_text(errors="replace")[-4000:])
                raise
        time.sleep(0.05)
