"""The cache of an informer: objects by namespace and name, and by any index that a component asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, Generic, TypeVar

T = TypeVar("T")

IndexFunction = Callable[[Any], Iterable[str]]
"""From an object to the values under which an index lists it."""
Part = Callable[[Any], object]
"""From an object to the part of it that the values of an index follow from, together with namespace and name: they change only if it does."""
SPEC: Part = attrgetter("spec")
OWNERS: Part = attrgetter("metadata.owner_references")


def NOTHING(obj: Any) -> None:
    """The `Part` of an index whose values follow from namespace and name alone."""


def key_of(obj: Any) -> str:
    """`namespace/name`, or `name` without a namespace: what work queues hold."""
    metadata = obj.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def split_key(key: str) -> tuple[str, str]:
    """Namespace ("" if none) and name."""
    namespace, _, name = key.rpartition("/")
    return namespace, name


class _Index:
    """Keys of objects by the values that a function gives for them."""

    __slots__ = ("_function", "keys")

    def __init__(self, function: IndexFunction) -> None:
        self._function = function
        self.keys: dict[str, dict[str, None]] = {}

    def add(self, key: str, obj: Any) -> None:
        """A new object."""
        for value in self._function(obj):
            self.keys.setdefault(value, {})[key] = None

    def change(self, key: str, old: Any, new: Any) -> None:
        """An object has become another one."""
        before, after = tuple(self._function(old)), tuple(self._function(new))
        if before != after:
            self._unlist(key, (value for value in before if value not in after))
            for value in after:
                self.keys.setdefault(value, {})[key] = None

    def remove(self, key: str, obj: Any) -> None:
        """An object is gone."""
        self._unlist(key, self._function(obj))

    def _unlist(self, key: str, values: Iterable[str]) -> None:
        for value in values:
            listed = self.keys.get(value)
            if listed is not None:
                listed.pop(key, None)
                if not listed:
                    del self.keys[value]


class ObjectCache(Generic[T]):
    """Objects of one kind. Shared: do not change what you get."""

    def __init__(self) -> None:
        self._objects: dict[str, T] = {}
        self._indexes: dict[str, _Index] = {}
        self._by_part: dict[Part | None, list[_Index]] = {}
        """The indexes by what their values follow from; None for the whole object."""

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

    def add_index(self, name: str, function: IndexFunction, part: Part | None = None) -> None:
        """List objects under the values that `function` gives; with a `part` it is asked again only when that changes.

        An index of that name stays as it is.
        """
        if name in self._indexes:
            return
        index = self._indexes[name] = _Index(function)
        self._by_part.setdefault(part, []).append(index)
        for key, obj in self._objects.items():
            index.add(key, obj)

    def by_index(self, name: str, value: str) -> list[T]:
        """Objects that an index lists under a value."""
        listed = self._indexes[name].keys.get(value)
        return list(map(self._objects.__getitem__, listed)) if listed is not None else []

    def count_by_index(self, name: str, value: str) -> int:
        """How many objects an index lists under a value."""
        return len(self._indexes[name].keys.get(value, ()))

    def put(self, obj: T) -> T | None:
        """Add or replace an object; returns the one that was there."""
        key = key_of(obj)
        old = self._objects.get(key)
        self._objects[key] = obj
        if old is None:
            for index in self._indexes.values():
                index.add(key, obj)
            return None
        for part, indexes in self._by_part.items():
            if part is not None:
                before, after = part(old), part(obj)
                if before is after or before == after:
                    continue
            for index in indexes:
                index.change(key, old, obj)
        return old

    def remove(self, key: str) -> T | None:
        """Take an object out; returns it, or None if it was not there."""
        old = self._objects.pop(key, None)
        if old is not None:
            for index in self._indexes.values():
                index.remove(key, old)
        return old
