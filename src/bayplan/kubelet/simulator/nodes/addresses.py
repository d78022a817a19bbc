"""Addresses of pods: each node hands out those of its network."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

_ADDRESSES = range(2, 255)


class Addresses:
    """Addresses of the pods of one node."""

    def __init__(self, network: str, hosts: range = _ADDRESSES) -> None:
        self.network = network
        self._hosts = hosts
        self._by_pod: dict[str, str] = {}
        self._used: set[str] = set()
        self._next: Iterator[int] = itertools.cycle(hosts)

    def take(self, uid: str, known: str = "") -> str:
        """The address of a pod: the one it has, or a free one. Raises LookupError if the node has none left."""
        if uid in self._by_pod:
            return self._by_pod[uid]
        address = known or next((one for one in self._candidates() if one not in self._used), "")
        if not address:
            raise LookupError(f"{self.network}.0/24 has no address left")
        self._by_pod[uid] = address
        self._used.add(address)
        return address

    def _candidates(self) -> Iterable[str]:
        return (f"{self.network}.{last}" for last in itertools.islice(self._next, len(self._hosts)))

    def release(self, uid: str) -> None:
        """Give a pod's address back."""
        address = self._by_pod.pop(uid, None)
        if address is not None:
            self._used.discard(address)
