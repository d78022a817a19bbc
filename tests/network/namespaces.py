"""Machines as network namespaces at one switch, with pods that the real network plugins attach."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bayplan.network.cni_configuration import FILE, find_plugins
from bayplan.network.errors import NetworkError
from tests.network.nodes import settings

ROOT = Path(__file__).parents[2]
PING = Path(__file__).with_name("ping.py")


def _can_run() -> bool:
    try:
        find_plugins(settings())
    except NetworkError:
        return False
    return os.geteuid() == 0 and all(shutil.which(name) for name in ("ip", "bridge", "nft"))


needs_networks = pytest.mark.skipif(not _can_run(), reason="needs root, iproute2, nftables and the CNI plugins")


def run(*command: str, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **options)
    assert done.returncode == 0 or not check, f"{shlex.join(command)}: {done.stderr or done.stdout}"
    return done


@dataclass
class Machine:
    """A node: its namespace, its addresses, the networks of its pods, and the process with its agent."""

    name: str
    namespace: str
    addresses: list[str]
    pods: list[str]
    directory: Path
    process: subprocess.Popen[str] | None = None
    attached: list[tuple[str, str]] = field(default_factory=list)
    """Namespaces of pods, and their container ids."""

    def start(self, *, path: str = "", **options: str) -> None:
        """Start the agent. path: directories with programs that it is to find first."""
        arguments = {
            "name": self.name,
            "data_plane": "overlay",
            "pod_interface": "ptp",
            "masquerade": "external",
            "directory": str(self.directory),
        } | options
        command = [
            "ip",
            "netns",
            "exec",
            self.namespace,
            sys.executable,
            "-m",
            "tests.network.node_process",
            json.dumps(arguments),
        ]
        log = (self.directory / "log").open("a")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"]},
        )
        log.close()

    def stop(self) -> None:
        """End the agent."""
        if self.process is not None:
            self.process.communicate(timeout=20)
            self.process = None

    def tell(self, **change: Any) -> str:
        """Put or remove a node, see node_process; with nothing, ask only. Returns what the agent says then."""
        assert self.process is not None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(change) + "\n")
        self.process.stdin.flush()
        said = self.process.stdout.readline().strip()
        assert said, (self.directory / "log").read_text()
        return said

    def learn(self, *machines: Machine) -> str:
        """Put nodes. Returns what the agent says then."""
        for each in machines:
            said = self.tell(name=each.name, addresses=each.addresses, pods=each.pods)
        return said

    def ip(self, *arguments: str) -> str:
        """What iproute2 says in the machine."""
        return run("ip", "-n", self.namespace, *arguments).stdout

    def reaches(self, address: str) -> bool:
        """Whether the machine itself gets an answer from an address."""
        return ping(self.namespace, address)

    def execute(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a program in the machine."""
        return run("ip", "netns", "exec", self.namespace, *command, check=check)

    def attach_pod(self) -> Pod:
        """A pod that the first plugin of the written configuration attaches."""
        namespace = f"{self.namespace}-p{len(self.attached)}"
        run("ip", "netns", "add", namespace)
        self.attached.append((namespace, uuid.uuid4().hex))
        found = json.loads(self._plugin("ADD", *self.attached[-1]))
        run("ip", "-n", namespace, "link", "set", "lo", "up")
        for one in json.loads(run("ip", "-n", namespace, "-json", "address", "show", "tentative").stdout):
            for address in one.get("addr_info", ()):
                length = f"{address['local']}/{address['prefixlen']}"
                run("ip", "-n", namespace, "address", "change", length, "dev", one["ifname"], "nodad")
        return Pod(namespace, [one["address"].partition("/")[0] for one in found["ips"]])

    def _plugin(self, command: str, namespace: str, container: str) -> str:
        config = json.loads((self.directory / "cni" / FILE).read_text())
        plugin = {"cniVersion": config["cniVersion"], "name": config["name"], **config["plugins"][0]}
        plugins = find_plugins(settings())
        variables = {
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": container,
            "CNI_NETNS": f"/run/netns/{namespace}",
            "CNI_IFNAME": "eth0",
            "CNI_PATH": str(plugins),
            "PATH": os.environ["PATH"],
        }
        program = str(plugins / plugin["type"])
        done = run("ip", "netns", "exec", self.namespace, program, input=json.dumps(plugin), env=variables, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@dataclass(frozen=True)
class Pod:
    """A pod's namespace and its addresses, one of each version."""

    namespace: str
    addresses: list[str]

    def reaches(self, address: str, *, size: int = 56) -> bool:
        """Whether a packet of a size (bytes of payload) comes back, unfragmented."""
        return ping(self.namespace, address, size)


def ping(namespace: str, address: str, size: int = 56) -> bool:
    """Whether an echo request comes back to a namespace, unfragmented."""
    command = ("ip", "netns", "exec", namespace, sys.executable, "-S", str(PING), address, str(size))
    return run(*command, check=False).returncode == 0


@contextlib.contextmanager
def machines(directory: Path, count: int = 2) -> Iterator[list[Machine]]:
    """Machines `a`, `b`, ... at one switch, with IPv4 and IPv6. All that was made is removed."""
    prefix = f"bpn-{os.getpid()}-{uuid.uuid4().hex[:4]}"
    found: list[Machine] = []
    run("ip", "netns", "add", prefix)
    try:
        run("ip", "-n", prefix, "link", "add", "switch", "type", "bridge")
        run("ip", "-n", prefix, "link", "set", "switch", "up")
        for number in range(1, count + 1):
            name = "abcdef"[number - 1]
            place = directory / name
            place.mkdir()
            addresses = [f"192.0.2.{number}", f"2001:db8::{number}"]
            machine = Machine(
                name, f"{prefix}-{name}", addresses, [f"10.1.{number}.0/24", f"fd00:{number}::/64"], place
            )
            run("ip", "netns", "add", machine.namespace)
            found.append(machine)
            port = f"to-{name}"
            run("ip", "-n", prefix, "link", "add", port, "type", "veth", "peer", "eth0", "netns", machine.namespace)
            run("ip", "-n", prefix, "link", "set", port, "master", "switch", "up")
            machine.ip("link", "set", "lo", "up")
            machine.ip("link", "set", "eth0", "up")
            machine.ip("address", "add", f"{addresses[0]}/24", "dev", "eth0")
            machine.ip("address", "add", f"{addresses[1]}/64", "dev", "eth0", "nodad")
        yield found
    finally:
        for machine in found:
            machine.stop()
            for namespace, _ in machine.attached:
                run("ip", "netns", "delete", namespace)
            run("ip", "netns", "delete", machine.namespace)
        run("ip", "netns", "delete", prefix)
