"""Memos: results of pure work that is worth keeping, bounded, measured, and given up when nobody asks for them.

There are two forms. `Memo` is a table whose owner says how many bytes an entry takes; `memoized` remembers what a function of a few texts or numbers
returned. Both are known to the process: `statistics` says how often they helped, and `age_all`, which a long-lived process calls now and then, drops what
was not asked for lately. A memo that only fills up would keep a process at the size of its busiest hour: its entries lie scattered over memory that
could otherwise be given back as a whole.

    young   what was put or asked for lately          at most half of the bytes
    old     what was before; moves back when asked for
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, ParamSpec, TypeVar, cast

K = TypeVar("K")
V = TypeVar("V")
P = ParamSpec("P")

ENTRY_BYTES: Final = 200
"""What an entry costs besides what its key and value hold: rows of two hash tables and the heads of some objects."""


class MemoStatistics(NamedTuple):
    """How a memo does, since the process started."""

    name: str
    hits: int
    misses: int
    entries: int
    size: int | None
    """Bytes, about; None for a function's, which is counted and not weighed."""


class Memo(Generic[K, V]):
    """A table that forgets the entries that were asked for the longest time ago when they take more than `most_bytes`.

    >>> memo: Memo[str, int] = Memo("squares", most_bytes=2 * 300)
    >>> memo.put("2", 4, size=100)
    >>> memo.get("2"), memo.get("3")
    (4, None)
    >>> memo.put("3", 9, size=100)
    >>> memo.get("2"), len(memo)  # came back from the older half
    (4, 2)
    >>> memo.put("4", 16, size=100)
    >>> memo.get("3") is None
    True
    """

    __slots__ = (
        "__weakref__",
        "_ages_left",
        "_ages_per_generation",
        "_half",
        "_old",
        "_old_size",
        "_young",
        "_young_size",
        "hits",
        "misses",
        "name",
    )

    def __init__(self, name: str, *, most_bytes: int, ages_per_generation: int = 1) -> None:
        """name: of the table in metrics; several may have the same one and are counted together. ages_per_generation: calls of `age_all` that entries
        outlive before they count as old."""
        self.name = name
        self.hits = self.misses = 0
        self._half = most_bytes // 2
        self._ages_per_generation = self._ages_left = ages_per_generation
        self._young: dict[K, tuple[V, int]] = {}
        self._old: dict[K, tuple[V, int]] = {}
        self._young_size = self._old_size = 0
        _memos.add(self)

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    @property
    def size(self) -> int:
        """Bytes of all entries, as their owner gave them, with `ENTRY_BYTES` for each."""
        return self._young_size + self._old_size

    def get(self, key: K) -> V | None:
        """What was put for the key; None if it is not here."""
        found = self._young.get(key)
        if found is None:
            found = self._old.pop(key, None)
            if found is None:
                self.misses += 1
                return None
            self._old_size -= found[1]
            self._add(key, found)
        self.hits += 1
        return found[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Keep a value instead of the key's former one. size: bytes that the key and the value hold; one larger than half of the memo is not kept."""
        self.drop(key)
        size += ENTRY_BYTES
        if size <= self._half:
            self._add(key, (value, size))

    def _add(self, key: K, entry: tuple[V, int]) -> None:
        if self._young_size + entry[1] > self._half:
            self._turn_old()
        self._young[key] = entry
        self._young_size += entry[1]

    def drop(self, key: K) -> None:
        """Forget the key, if it is here."""
        found = self._young.pop(key, None)
        if found is not None:
            self._young_size -= found[1]
            return
        found = self._old.pop(key, None)
        if found is not None:
            self._old_size -= found[1]

    def age(self) -> None:
        """Forget what was neither put nor asked for since the last time, or the time before so many calls."""
        self._ages_left -= 1
        if not self._ages_left:
            self._turn_old()

    def _turn_old(self) -> None:
        self._ages_left = self._ages_per_generation
        self._old, self._old_size = self._young, self._young_size
        self._young, self._young_size = {}, 0

    def clear(self) -> None:
        """Forget everything."""
        self._young, self._old = {}, {}
        self._young_size = self._old_size = 0


_memos: Final[weakref.WeakSet[Memo[Any, Any]]] = weakref.WeakSet()
"""All tables of this process."""


class _Function:
    """A function that remembers, with what it was asked before it last started over."""

    __slots__ = ("hits", "misses", "name", "remembering")

    def __init__(self, remembering: functools._lru_cache_wrapper[Any]) -> None:
        self.name = f"{remembering.__module__}.{remembering.__qualname__}"
        self.remembering = remembering
        self.hits = self.misses = 0

    def statistics(self) -> MemoStatistics:
        hits, misses, _, entries = self.remembering.cache_info()
        return MemoStatistics(self.name, self.hits + hits, self.misses + misses, entries, None)

    def clear(self) -> None:
        before = self.statistics()
        self.hits, self.misses = before.hits, before.misses
        self.remembering.cache_clear()


_functions: Final[list[_Function]] = []
"""All functions of this process that remember."""


def memoized(entries: int) -> Callable[[Callable[P, V]], Callable[P, V]]:
    """Remember what a function returned for the last `entries` arguments that differ.

    For functions of hashable arguments whose results nobody changes; small ones, since they are counted and not weighed. The same as `functools.lru_cache`
    in speed, and given up by `age_all`.
    """

    def decorate(function: Callable[P, V]) -> Callable[P, V]:
        remembering = functools.lru_cache(maxsize=entries)(function)
        _functions.append(_Function(remembering))
        return cast("Callable[P, V]", remembering)

    return decorate


def age_all() -> None:
    """Forget, in all of this process, what was not asked for since the last time; functions start over."""
    for memo in tuple(_memos):
        memo.age()
    for function in _functions:
        function.clear()


def statistics() -> list[MemoStatistics]:
    """How all memos of this process do, by name."""
    found: dict[str, MemoStatistics] = {}
    for memo in tuple(_memos):
        one = MemoStatistics(memo.name, memo.hits, memo.misses, len(memo), memo.size)
        found[one.name] = _sum(found.get(one.name), one)
    for function in _functions:
        found[function.name] = _sum(found.get(function.name), function.statistics())
    return [found[name] for name in sorted(found)]


def _sum(first: MemoStatistics | None, second: MemoStatistics) -> MemoStatistics:
    if first is None:
        return second
    return MemoStatistics(
        second.name,
        first.hits + second.hits,
        first.misses + second.misses,
        first.entries + second.entries,
        None if first.size is None or second.size is None else first.size + second.size,
    )
