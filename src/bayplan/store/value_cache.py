"""The values of recently used keys, bounded by size."""

from __future__ import annotations

from collections import OrderedDict

_OVERHEAD = 200
"""Bytes that an entry costs besides key and value."""


class ValueCache:
    """Current values by key; forgets the least recently used ones when they take more than `capacity` bytes."""

    __slots__ = ("_capacity", "_size", "_values")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._size = 0
        self._values: OrderedDict[str, bytes] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str) -> bytes | None:
        """The value, if it is here."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: str, value: bytes) -> None:
        """Keep a value instead of the key's former one."""
        values = self._values
        old = values.pop(key, None)
        if old is not None:
            self._size += len(value) - len(old)
        else:
            self._size += len(value) + len(key) + _OVERHEAD
        values[key] = value
        while self._size > self._capacity and values:
            lost_key, lost = values.popitem(last=False)
            self._size -= len(lost) + len(lost_key) + _OVERHEAD

    def drop(self, key: str) -> None:
        """Forget the key, if it is here."""
        value = self._values.pop(key, None)
        if value is not None:
            self._size -= len(value) + len(key) + _OVERHEAD
