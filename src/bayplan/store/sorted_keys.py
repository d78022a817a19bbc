"""A set of strings in order, for ranges and counts.

The keys sit in consecutive sorted chunks of bounded size, so that adding one moves few others:

    chunks [["a", "c"], ["e", "g"]]   lasts ["c", "g"]      add "d": bisect lasts -> chunk 1 -> ["d", "e", "g"]
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

_CHUNK = 1024


class SortedKeys:
    """Ordered set of strings. Every chunk is non-empty and shorter than 2 * 1024."""

    __slots__ = ("_chunks", "_lasts", "_size")

    def __init__(self, keys: Iterable[str] = ()) -> None:
        ordered = sorted(set(keys))
        self._chunks = [ordered[start : start + _CHUNK] for start in range(0, len(ordered), _CHUNK)]
        self._lasts = [chunk[-1] for chunk in self._chunks]
        self._size = len(ordered)

    def __len__(self) -> int:
        return self._size

    def add(self, key: str) -> None:
        """Add a key that is not in the set."""
        self._size += 1
        lasts = self._lasts
        if not lasts:
            self._chunks.append([key])
            lasts.append(key)
            return
        index = bisect_left(lasts, key)
        if index == len(lasts):
            index -= 1
            self._chunks[index].append(key)
            lasts[index] = key
        else:
            insort(self._chunks[index], key)
        if len(self._chunks[index]) >= 2 * _CHUNK:
            self._split(index)

    def _split(self, index: int) -> None:
        chunk = self._chunks[index]
        # Keys often come in ascending order: a full left chunk then never has to be touched again.
        self._chunks[index : index + 1] = [chunk[:_CHUNK], chunk[_CHUNK:]]
        self._lasts[index : index + 1] = [chunk[_CHUNK - 1], chunk[-1]]

    def remove(self, key: str) -> None:
        """Take a key out. Raises `KeyError` if it is not in the set."""
        index = bisect_left(self._lasts, key)
        if index == len(self._lasts):
            raise KeyError(key)
        chunk = self._chunks[index]
        position = bisect_left(chunk, key)
        if chunk[position] != key:
            raise KeyError(key)
        del chunk[position]
        self._size -= 1
        if not chunk:
            del self._chunks[index]
            del self._lasts[index]
        elif position == len(chunk):
            self._lasts[index] = chunk[-1]

    def _place(self, key: str) -> tuple[int, int]:
        """Chunk and position of the first key >= `key`; (number of chunks, 0) if there is none."""
        index = bisect_left(self._lasts, key)
        return (index, bisect_left(self._chunks[index], key)) if index < len(self._chunks) else (index, 0)

    def count(self, start: str, end: str) -> int:
        """Number of keys k with start <= k < end."""
        if start >= end:
            return 0
        first, first_at = self._place(start)
        last, last_at = self._place(end)
        if first == last:
            return last_at - first_at
        return sum(len(chunk) for chunk in self._chunks[first:last]) - first_at + last_at

    def between(self, start: str, end: str, limit: int = 0) -> list[str]:
        """The keys k with start <= k < end in order, at most `limit` (0: all)."""
        if start >= end:
            return []
        first, first_at = self._place(start)
        last, last_at = self._place(end)
        if first == last:
            stop = last_at if limit <= 0 else min(last_at, first_at + limit)
            return self._chunks[first][first_at:stop] if first < len(self._chunks) else []
        found = self._chunks[first][first_at:]
        for chunk in self._chunks[first + 1 : last]:
            if 0 < limit <= len(found):
                break
            found.extend(chunk)
        if last < len(self._chunks):
            found.extend(self._chunks[last][:last_at])
        return found[:limit] if limit > 0 else found
