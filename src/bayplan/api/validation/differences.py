"""The lines in which two objects differ, as Kubernetes shows them: a unified diff of what Go shows of them, with three lines around each change.

Kubernetes uses a translation of Python's difflib, whose work can grow with the square of the lines and more. Here it ends at a number of steps, and then the lines
between those that both begin and end with are shown as one change.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from itertools import accumulate, takewhile
from typing import Any, Final

import msgspec

from bayplan.api.validation.go_structs import go_struct

MAX_STEPS: Final = 3_000_000
"""Pairs of equal lines, and lines, that are looked at to find the longest common parts: about half a second."""
_AROUND: Final = 3
"""Unchanged lines that are shown before and after a change."""


class _TooManySteps(Exception):
    pass


class _Matcher(difflib.SequenceMatcher[str]):
    """Counts its steps beforehand: each search looks at the lines of a part of the first text, and at the places of each in the whole second one."""

    a: Sequence[str]
    b2j: dict[str, list[int]]
    """The places of each line in the second text, of frequent lines none."""

    def __init__(self, before: Sequence[str], after: Sequence[str]) -> None:
        super().__init__(None, before, after)
        places = self.b2j
        self._steps = list(accumulate((1 + len(places.get(line, ())) for line in before), initial=0))
        self._left = MAX_STEPS

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> difflib.Match:
        last = len(self.a) if ahi is None else ahi
        self._left -= self._steps[last] - self._steps[alo]
        if self._left < 0:
            raise _TooManySteps
        return super().find_longest_match(alo, ahi, blo, bhi)


def difference(old: Any, new: Any) -> str:
    """The lines in which two values differ, for people: structs, lists of them, or what has been shown as Go does. Each line ends with a newline."""
    before, after = (_pretty(one).splitlines() for one in (old, new))
    try:
        groups = list(_Matcher(before, after).get_grouped_opcodes(_AROUND))
    except _TooManySteps:
        groups = [_one_change(before, after)]
    return "".join(f"{line}\n" for line in _lines(before, after, groups))


def _pretty(value: Any) -> str:
    text = msgspec.json.format(msgspec.json.encode(go_struct(value)), indent=1).decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


_Opcode = tuple[str, int, int, int, int]


def _one_change(before: list[str], after: list[str]) -> list[_Opcode]:
    """What lies between the lines that both texts begin and end with."""
    shortest = min(len(before), len(after))
    start = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    ends = zip(reversed(before), reversed(after), strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], ends))
    same = min(same, shortest - start)
    first, second, around = len(before) - same, len(after) - same, min(start, _AROUND)
    behind = min(same, _AROUND)
    opcodes: list[_Opcode] = [
        ("equal", start - around, start, start - around, start),
        ("replace", start, first, start, second),
        ("equal", first, first + behind, second, second + behind),
    ]
    return opcodes


def _lines(before: list[str], after: list[str], groups: Sequence[Sequence[_Opcode]]) -> Iterator[str]:
    """The lines of a unified diff without its head, as `difflib.unified_diff` makes them."""
    for group in groups:
        yield f"@@ -{_range(group[0][1], group[-1][2])} +{_range(group[0][3], group[-1][4])} @@"
        for what, start, end, new_start, new_end in group:
            if what == "equal":
                yield from (f" {line}" for line in before[start:end])
            if what in ("replace", "delete"):
                yield from (f"-{line}" for line in before[start:end])
            if what in ("replace", "insert"):
                yield from (f"+{line}" for line in after[new_start:new_end])


def _range(start: int, end: int) -> str:
    """Lines as the head of a change names them, counted from one; of none the line before."""
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"
