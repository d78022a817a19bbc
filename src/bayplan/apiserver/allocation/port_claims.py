"""Node ports of servers that share a store: each port that is in use is a key, which the store lets only one server create.

A server that is alone needs none of this: it knows all ports. The keys stand below the one where kube-apiserver has its bitmap of ports, which is kept up as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from bayplan.api.errors import service_unavailable
from bayplan.apiserver.allocation.errors import Taken
from bayplan.apiserver.allocation.port_bitmap import KEY, PortBitmap
from bayplan.apiserver.allocation.ports import NodePorts
from bayplan.store.errors import Compacted, Conflict, StoreError
from bayplan.store.interface import Event, Store
from bayplan.support.clock import Clock

_PREFIX = f"{KEY}/"
_ORPHAN_SECONDS = 60.0
"""A port without its service may belong to one that another server is just writing; after this time it does not."""


class _Claim(msgspec.Struct):
    """What a key says."""

    claimed_at: float = 0.0
    """Seconds since the epoch."""


class PortClaims:
    """The keys, as of what the store has delivered."""

    def __init__(self, store: Store, ports: NodePorts, clock: Clock) -> None:
        self._store, self._ports, self._clock = store, ports, clock
        self._claimed = ports.claimed
        self._bitmap = PortBitmap(store, ports)
        self._is_followed = False

    async def open(self) -> None:
        """Read the keys and follow them. Raises StoreError."""
        while True:
            page = await self._store.range(KEY, f"{KEY}0")
            self._claimed.clear()
            self._bitmap.note(None)
            for item in page.items:
                self._note(item.key, item.value)
            try:
                await self._store.watch(KEY, page.revision + 1, self._follow, self._lost)
                self._is_followed = True
                return
            except Compacted:  # meanwhile
                continue

    def _lost(self, _compacted: int) -> None:
        """Claims of others are unknown until `repair` reads them again; no port is given out twice all the same, since no claim can be made twice."""
        self._is_followed = False

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            self._note(event.key, event.value)

    def _note(self, key: str, value: bytes | None) -> None:
        if key == KEY:
            self._bitmap.note(value)
            return
        text = key[len(_PREFIX) :]
        if not text.isdigit():
            return
        port = int(text)
        if value is None:
            self._claimed.pop(port, None)
            self._ports.used.discard(port)
        else:
            self._claimed[port] = _claimed_at(value)

    async def claim(self, ports: Iterable[int], *, are_new: bool = True) -> None:
        """Make all of these ports a server's own, or none. are_new: not those of services that are there. Raises Taken, ApiError (503)."""
        made: list[int] = []
        try:
            for port in sorted(ports):
                value = msgspec.json.encode(_Claim(self._clock.now()))
                await self._store.put(f"{_PREFIX}{port}", value, guard=0)
                made.append(port)
            await self._bitmap.mark(made, are_new=are_new)
        except Conflict as error:
            await self._withdraw(made)
            raise Taken("provided port is already allocated") from error
        except Taken:
            await self._withdraw(made)
            raise
        except StoreError as error:
            raise service_unavailable(f"the store cannot be written to: {error}") from error

    async def release(self, ports: Iterable[int]) -> None:
        """Give ports back; nothing happens for those that nobody has. Raises ApiError (503)."""
        given = sorted(ports)
        if not given:
            return
        try:
            await self._bitmap.clear(given)
        except StoreError as error:
            raise service_unavailable(f"the store cannot be written to: {error}") from error
        await self._withdraw(given)

    async def _withdraw(self, ports: Iterable[int]) -> None:
        """Remove claims. Raises ApiError (503)."""
        for port in ports:
            try:
                await self._store.delete(f"{_PREFIX}{port}")
            except Conflict:
                continue
            except StoreError as error:
                raise service_unavailable(f"the store cannot be written to: {error}") from error

    async def repair(self, wanted: set[int]) -> None:
        """Claim the ports that services have, and release those that no service has had for a while. Raises ApiError (503)."""
        try:
            if not self._is_followed:
                await self.open()
        except StoreError as error:
            raise service_unavailable(f"the store cannot be read: {error}") from error
        for port in sorted(wanted - self._claimed.keys()):
            try:
                await self.claim((port,), are_new=False)
            except Taken:
                continue
        now = self._clock.now()
        await self.release(
            port for port, since in tuple(self._claimed.items()) if port not in wanted and now - since > _ORPHAN_SECONDS
        )


def _claimed_at(value: bytes) -> float:
    """When the claim was made; long ago, if the value does not say."""
    try:
        return msgspec.json.decode(value, type=_Claim).claimed_at
    except msgspec.DecodeError:
        return 0.0
