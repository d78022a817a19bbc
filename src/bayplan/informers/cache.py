"""The cache of an informer: objects by namespace and name, and by any index that a component asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

IndexFunction = Callable[[Any], Iterable[str]]
"""From an object to the values under which an index lists it."""


def key_of(obj: Any) -> str:
    """`namespace/name`, or `name` without a namespace: what work queues hold."""
    metadata = obj.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def split_key(key: str) -> tuple[str, str]:
    """Namespace ("" if none) and name."""
    namespace, _, name = key.rpartition("/")
    return namespace, name


class ObjectCache(Generic[T]):
    """Objects of one kind. Shared: do not change what you get."""

    def __init__(self) -> None:
        self._objects: dict[str, T] = {}
        self._indexers: dict[str, IndexFunction] = {}
        self._indexes: dict[str, dict[str, dict[str, T]]] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._objects.values()))

    def keys(self) -> list[str]:
        """Keys of all objects."""
        return list(self._objects)

    def get(self, namespace: str, name: str) -> T | None:
        """One object, or None."""
        return self._objects.get(f"{namespace}/{name}" if namespace else name)

    def by_key(self, key: str) -> T | None:
        """One object by its key, or None."""
        return self._objects.get(key)

    def add_index(self, name: str, function: IndexFunction) -> None:
        """List objects under the values that `function` gives. An index of that name stays as it is."""
        if name in self._indexers:
            return
        self._indexers[name] = function
        index: dict[str, dict[str, T]] = {}
        for key, obj in self._objects.items():
            for value in function(obj):
                index.setdefault(value, {})[key] = obj
        self._indexes[name] = index

    def by_index(self, name: str, value: str) -> list[T]:
        """Objects that an index lists under a value."""
        return list(self._indexes[name].get(value, {}).values())

    def count_by_index(self, name: str, value: str) -> int:
        """How many objects an index lists under a value."""
        return len(self._indexes[name].get(value, ()))

    def put(self, obj: T) -> T | None:
        """Add or replace an object; returns the one that was there."""
        key = key_of(obj)
        old = self._objects.get(key)
        self._objects[key] = obj
        for name, function in self._indexers.items():
            index = self._indexes[name]
            values = tuple(function(obj))
            if old is not None and (before := tuple(function(old))) != values:
                self._unlist(index, key, (value for value in before if value not in values))
            for value in values:
                index.setdefault(value, {})[key] = obj
        return old

    def remove(self, key: str) -> T | None:
        """Take an object out; returns it, or None if it was not there."""
        old = self._objects.pop(key, None)
        if old is not None:
            for name, function in self._indexers.items():
                self._unlist(self._indexes[name], key, function(old))
        return old

    def _unlist(self, index: dict[str, dict[str, T]], key: str, values: Iterable[str]) -> None:
        for value in values:
            listed = index.get(value)
            if listed is not None:
                listed.pop(key, None)
                if not listed:
                    del index[value]
