"""Node ports: numbers of a range, each given to one service at most."""

from __future__ import annotations

from bayplan.apiserver.allocation.errors import Full, OutOfRange, Taken
from bayplan.support.randomness import Randomness


class NodePorts:
    """The ports of one server."""

    def __init__(self, ports: tuple[int, int], randomness: Randomness) -> None:
        self.first, self.last = ports
        self._randomness = randomness
        self.used: set[int] = set()
        """What services have or are just getting, as far as this server gave it out."""
        self.claimed: dict[int, float] = {}
        """What servers that share the store have claimed, and when (see `port_claims`)."""
        self.marked: set[int] = set()
        """What a kube-apiserver that shares the store says is taken (see `port_bitmap`)."""

    def is_used(self, port: int) -> bool:
        """Whether a service has the port or is just getting it."""
        return port in self.used or port in self.claimed or port in self.marked

    def take(self, port: int) -> None:
        """Take a certain port. Raises OutOfRange, Taken."""
        if not self.first <= port <= self.last:
            raise OutOfRange(
                f"provided port is not in the valid range. The range of valid ports is {self.first}-{self.last}"
            )
        if self.is_used(port):
            raise Taken("provided port is already allocated")
        self.used.add(port)

    def take_any(self) -> int:
        """Take a free port. The low ones are kept for services that ask for them, as long as others are free. Raises Full."""
        size = self.last - self.first + 1
        kept = 0 if size < 16 else min(max(16, size // 32), 128)
        for low, span in ((self.first + kept, size - kept), (self.first, kept)):
            start = int(self._randomness.random() * span)
            for step in range(span):
                port = low + (start + step) % span
                if not self.is_used(port):
                    self.used.add(port)
                    return port
        raise Full


_DRY_RUN_START = 32768


class PortOperation:
    """The ports of one write: what it takes it gives back if it is undone, what it releases is free once it is committed.

    dry_run: nothing is written; ports of any number may be taken, and a free one is a number that stands for any.
    """

    def __init__(self, ports: NodePorts, *, dry_run: bool = False) -> None:
        self._ports = ports
        self._dry_run = dry_run
        self.taken: set[int] = set()
        self._highest = _DRY_RUN_START
        """Of the taken ones, in a dry run."""
        self.released: list[int] = []

    def take(self, port: int) -> None:
        """Take a certain port. Raises OutOfRange, Taken."""
        if not self._dry_run:
            self._ports.take(port)
        elif self._ports.is_used(port) or port in self.taken:
            raise Taken("provided port is already allocated")
        self.taken.add(port)
        self._highest = max(self._highest, port)

    def take_any(self) -> int:
        """Take a free port. Raises Full."""
        port = self._highest + 1 if self._dry_run else self._ports.take_any()
        self.taken.add(port)
        self._highest = max(self._highest, port)
        return port

    def release(self, port: int) -> None:
        """Give a port of the old state back when the write has succeeded."""
        self.released.append(port)

    def commit(self) -> None:
        """The write has succeeded."""
        if not self._dry_run:
            self._ports.used.difference_update(self.released)

    def undo(self) -> None:
        """The write has failed, or was none."""
        if not self._dry_run:
            self._ports.used.difference_update(self.taken)
