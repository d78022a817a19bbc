"""Machines of a network: namespaces that are cut from each other, disks that stall or are full, processes that are killed or frozen."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.namespaces import Namespace

NETWORK: Final = "10.77.0"
HUB: Final = f"{NETWORK}.1"
"""Where the clients are."""
_RULES: Final = """
table inet faults {
  set away { type ipv4_addr; }
  chain input { type filter hook input priority 0; ip saddr @away drop; }
  chain output { type filter hook output priority 0; ip daddr @away drop; }
}
"""


def command(*words: str) -> str:
    """Run a program; returns what it prints. Raises CalledProcessError, with its words as a note."""
    try:
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout
    except subprocess.CalledProcessError as error:
        error.add_note(error.stderr)
        raise


def make_hub() -> None:
    """Make the bridge that all machines are at."""
    command("ip", "link", "set", "lo", "up")
    command("ip", "link", "add", "hub", "type", "bridge")
    command("ip", "address", "add", f"{HUB}/24", "dev", "hub")
    command("ip", "link", "set", "hub", "up")


class Machine:
    """One machine at the hub, with one process that matters."""

    def __init__(self, name: str, number: int, directory: Path) -> None:
        self.name, self.address, self.directory = name, f"{NETWORK}.{10 + number}", directory
        directory.mkdir()
        self._namespace = Namespace(name)
        link = f"to-{name}"
        command("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", self._namespace.path)
        command("ip", "link", "set", link, "master", "hub", "up")
        self._namespace.ip(f"address add {self.address}/24 dev eth0", "link set eth0 up")
        self._namespace.nft(_RULES)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_up(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> Path:
        """What its processes have printed."""
        return self.directory / "log"

    def run(self, words: Sequence[str]) -> None:
        """Start its process, to which the machine has a name of its own."""
        assert not self.is_up
        named = ("unshare", "--uts", "--", "sh", "-c", 'hostname "$0" && exec "$@"', self.name, *words)
        with self.log.open("ab") as log:
            self._process = self._namespace.run(
                lambda: subprocess.Popen(named, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            )

    def kill(self) -> None:
        """End its process as a power failure would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def freeze(self) -> None:
        """Stop its process, which notices nothing of it."""
        if self.is_up:
            self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        if self.is_up:
            self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def cut(self, addresses: Sequence[str]) -> None:
        """Lose all packets from and to other machines."""
        self._namespace.nft(f"add element inet faults away {{ {', '.join(addresses)} }}")

    def mend(self) -> None:
        """Lose none any more."""
        self._namespace.nft("flush set inet faults away")


class Disk:
    """A small file system of its own, which can be full and can stall."""

    def __init__(self, image: Path, place: Path, megabytes: int) -> None:
        self.place = place
        self._filler = place / "filler"
        place.mkdir()
        with image.open("wb") as file:
            file.truncate(megabytes << 20)
        command("mkfs.ext4", "-q", "-m", "0", str(image))
        command("mount", "-o", "loop", str(image), str(place))

    def stall(self) -> None:
        """Let every write wait."""
        command("fsfreeze", "--freeze", str(self.place))

    def go_on(self) -> None:
        """End of that."""
        command("fsfreeze", "--unfreeze", str(self.place))

    def fill(self) -> None:
        """Leave no space."""
        descriptor = os.open(self._filler, os.O_CREAT | os.O_WRONLY)
        try:
            for size in (1 << 20, 1 << 12):
                try:
                    while os.write(descriptor, bytes(size)) == size:
                        continue
                except OSError:
                    continue
        finally:
            os.close(descriptor)

    def empty(self) -> None:
        """Give the space back."""
        self._filler.unlink(missing_ok=True)
