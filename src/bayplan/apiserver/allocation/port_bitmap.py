"""kube-apiserver's bitmap of node ports, kept up beside it where one serves the same etcd: what a bit says is taken nobody else gives out.

There is one only if a kube-apiserver has made it; a server that finds none makes none, since kube-apiserver marks the ports of all services when it starts.
Source: `pkg/registry/core/service/allocator/storage`.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Collection
from typing import Final, NamedTuple

import msgspec

from bayplan.api import protobuf
from bayplan.api.protobuf.wire import delimited, fields
from bayplan.apiserver.allocation.errors import Taken
from bayplan.apiserver.allocation.ports import NodePorts
from bayplan.store.errors import Conflict
from bayplan.store.interface import Store

KEY: Final = "/registry/ranges/servicenodeports"
_METADATA, _RANGE, _DATA = 1, 2, 3
"""Fields of the message."""

logger = logging.getLogger(__name__)


class _Tree(msgspec.Struct):
    kind: str = "RangeAllocation"
    apiVersion: str = "v1"
    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    range: str = ""
    data: str = ""


class Bitmap(NamedTuple):
    """A range of ports, and which of them are taken."""

    metadata: bytes
    """As it was read."""
    range: str
    """`30000-32767`"""
    bits: int
    """Bit 0 is the first port."""
    is_protobuf: bool

    @property
    def first(self) -> int:
        """The first port."""
        return int(self.range.partition("-")[0])

    @property
    def last(self) -> int:
        """The last port."""
        return int(self.range.partition("-")[2])

    def ports(self) -> set[int]:
        """The ports that are taken."""
        first, bits, found = self.first, self.bits, set()
        while bits:
            lowest = bits & -bits
            found.add(first + lowest.bit_length() - 1)
            bits ^= lowest
        return found

    def mask(self, ports: Collection[int]) -> int:
        """The bits of those of the ports that are in the range."""
        return sum(1 << (port - self.first) for port in set(ports) if self.first <= port <= self.last)

    @classmethod
    def read(cls, value: bytes) -> Bitmap:
        """From what is stored. Raises ValueError."""
        if value.startswith(protobuf.MAGIC):
            found = dict(fields(protobuf.unwrap(value)[2]))
            metadata, text, data = (bytes(found.get(number, b"")) for number in (_METADATA, _RANGE, _DATA))
            bitmap = cls(metadata, text.decode(), int.from_bytes(data, "big"), True)
        else:
            try:
                tree = msgspec.json.decode(value, type=_Tree)
            except msgspec.DecodeError as error:
                raise ValueError(str(error)) from error
            bits = int.from_bytes(base64.b64decode(tree.data, validate=True), "big")
            bitmap = cls(bytes(tree.metadata), tree.range, bits, False)
        if not 0 < bitmap.first <= bitmap.last:
            raise ValueError(f"no range of ports: {bitmap.range!r}")
        return bitmap

    def written(self) -> bytes:
        """What is to be stored."""
        data = self.bits.to_bytes((self.bits.bit_length() + 7) // 8, "big")
        if not self.is_protobuf:
            tree = _Tree(metadata=msgspec.Raw(self.metadata), range=self.range, data=base64.b64encode(data).decode())
            return msgspec.json.encode(tree)
        message = delimited(_METADATA, self.metadata) + delimited(_RANGE, self.range.encode()) + delimited(_DATA, data)
        return protobuf.envelope("v1", "RangeAllocation", message)


class PortBitmap:
    """The bitmap in a store. `NodePorts.marked` has its ports, as of what the store has delivered."""

    def __init__(self, store: Store, ports: NodePorts) -> None:
        self._store, self._ports = store, ports
        self._is_there = False

    def note(self, value: bytes | None) -> Bitmap | None:
        """Learn what the store has now; None if that is no bitmap."""
        bitmap = None
        if value is not None:
            try:
                bitmap = Bitmap.read(value)
            except ValueError as error:
                logger.warning("%s cannot be read, its ports are not known: %s", KEY, error)
        self._ports.marked = bitmap.ports() if bitmap is not None else set()
        self._is_there = value is not None
        return bitmap

    async def mark(self, ports: Collection[int], *, are_new: bool) -> None:
        """Set bits. are_new: whether they may not be set yet. Raises Taken, StoreError."""
        while True:
            bitmap, revision = await self._read()
            if bitmap is None:
                return
            mask = bitmap.mask(ports)
            if are_new and bitmap.bits & mask:
                raise Taken("provided port is already allocated")
            if await self._write(bitmap, bitmap.bits | mask, revision):
                return

    async def clear(self, ports: Collection[int]) -> None:
        """Clear bits. Raises StoreError."""
        while True:
            bitmap, revision = await self._read()
            if bitmap is None or await self._write(bitmap, bitmap.bits & ~bitmap.mask(ports), revision):
                return

    async def _read(self) -> tuple[Bitmap | None, int]:
        """The bitmap and its revision. Nothing is asked where there is none, as far as the store has told."""
        if not self._is_there:
            return None, 0
        item = await self._store.get(KEY)
        return (self.note(item.value), item.mod_revision) if item is not None else (self.note(None), 0)

    async def _write(self, before: Bitmap, bits: int, revision: int) -> bool:
        """Whether it was written; not if somebody else was faster."""
        if bits == before.bits:
            return True
        try:
            await self._store.put(KEY, before._replace(bits=bits).written(), guard=revision)
        except Conflict:
            return False
        self._ports.marked = before._replace(bits=bits).ports()
        return True
