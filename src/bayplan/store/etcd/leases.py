"""Leases for keys with a time to live: keys that end at about the same time share one, as in kube-apiserver."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from math import ceil

from bayplan.store.etcd.client import EtcdClient
from bayplan.support.clock import Clock

_REUSED_SECONDS = 60.0
_REUSED_SHARE = 0.05
_MOST_KEYS = 1000


@dataclass(slots=True)
class _Lease:
    id: int
    until: float
    """Monotonic seconds until which further keys may join it."""
    keys: int = 0


class LeasePool:
    """Gives out leases. A key lives as long as asked for and up to 5 % or a minute longer, whichever is less."""

    def __init__(self, client: EtcdClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._leases: dict[int, _Lease] = {}
        """The newest one by seconds to live."""
        self._granting = asyncio.Lock()

    async def lease(self, ttl: float) -> int:
        """The id of a lease for one key that is to live for so many seconds. Raises EtcdError."""
        seconds = max(1, ceil(ttl))
        async with self._granting:
            now = self._clock.monotonic()
            found = self._leases.get(seconds)
            if found is None or now >= found.until or found.keys >= _MOST_KEYS:
                reuse = min(_REUSED_SECONDS, _REUSED_SHARE * seconds)
                found = _Lease(await self._client.grant(seconds + ceil(reuse)), now + reuse)
                self._leases[seconds] = found
            found.keys += 1
            return found.id

    def forget(self, lease: int) -> None:
        """A lease has gone: give out another one."""
        self._leases = {seconds: one for seconds, one in self._leases.items() if one.id != lease}
