"""Sets of numbers as the kernel writes them: `0-3,8`."""

from __future__ import annotations

from collections.abc import Iterable

CpuSet = frozenset[int]
NONE: CpuSet = frozenset()


def parse_cpu_set(text: str) -> CpuSet:
    """The numbers of a list. Raises ValueError.

    >>> sorted(parse_cpu_set("0-2,7"))
    [0, 1, 2, 7]
    """
    found: set[int] = set()
    text = text.strip()
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        low = _number(first)
        high = _number(last) if dash else low
        if low > high:
            raise ValueError(f"invalid range {part!r} ({low} > {high})")
        found.update(range(low, high + 1))
    return frozenset(found)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"{text!r} is no CPU")
    return int(text)


def format_cpu_set(numbers: Iterable[int]) -> str:
    """A list of numbers and ranges.

    >>> format_cpu_set({0, 1, 2, 7})
    '0-2,7'
    """
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
