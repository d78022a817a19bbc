"""Lists of hundreds of thousands of items into which thousands are inserted, one after the other: in pieces, so that an insertion moves one piece and not all that
follows.

    LongList([0, 1, 2, ...]) -> pieces [0 .. 1023], [1024 .. 2047], ...
    insert(1, x)             -> pieces [0, x, 1 .. 1023], [1024 .. 2047], ...
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

_PIECE: Final = 1024
"""Items of a piece; one that has twice as many is cut in two."""
LONG: Final = 8192
"""Items from which on a list is kept in pieces."""


class LongList:
    """A list in pieces. Indexes are those of its items, not negative."""

    __slots__ = ("_length", "_pieces")

    def __init__(self, items: list[Any]) -> None:
        self._pieces = [items[start : start + _PIECE] for start in range(0, len(items), _PIECE)] or [[]]
        self._length = len(items)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any]:
        for piece in self._pieces:
            yield from piece

    def _place(self, index: int) -> tuple[int, int]:
        """The number of a piece, and the index in it; behind the last item is in the last piece."""
        for number, piece in enumerate(self._pieces):
            if index < len(piece):
                return number, index
            index -= len(piece)
        return len(self._pieces) - 1, index + len(self._pieces[-1])

    def __getitem__(self, index: int) -> Any:
        number, at = self._place(index)
        return self._pieces[number][at]

    def __setitem__(self, index: int, value: Any) -> None:
        number, at = self._place(index)
        self._pieces[number][at] = value

    def __delitem__(self, index: int) -> None:
        number, at = self._place(index)
        del self._pieces[number][at]
        self._length -= 1

    def insert(self, index: int, value: Any) -> None:
        """Put a value before an item, or behind the last one."""
        number, at = self._place(index)
        piece = self._pieces[number]
        piece.insert(at, value)
        self._length += 1
        if len(piece) >= 2 * _PIECE:
            self._pieces[number : number + 1] = [piece[:_PIECE], piece[_PIECE:]]

    def append(self, value: Any) -> None:
        """Put a value behind the last item."""
        self.insert(self._length, value)


def in_pieces(tree: Any) -> Any:
    """A copy of a JSON tree with its long lists in pieces."""
    if isinstance(tree, dict):
        return {key: in_pieces(item) for key, item in tree.items()}
    if isinstance(tree, list):
        items = [in_pieces(item) for item in tree]
        return LongList(items) if len(items) >= LONG else items
    return tree


def in_one(tree: Any) -> Any:
    """A copy of such a tree with lists only."""
    if isinstance(tree, dict):
        return {key: in_one(item) for key, item in tree.items()}
    if isinstance(tree, list | LongList):
        return [in_one(item) for item in tree]
    return tree


def is_same(tree: Any, plain: Any) -> bool:
    """Whether such a tree equals one with lists only. Takes time in proportion to the second at most."""
    if isinstance(tree, list | LongList):
        return isinstance(plain, list) and len(tree) == len(plain) and all(map(is_same, tree, plain))
    if isinstance(tree, dict):
        return (
            isinstance(plain, dict)
            and tree.keys() == plain.keys()
            and all(is_same(item, plain[key]) for key, item in tree.items())
        )
    return bool(tree == plain)
