"""The cyclic garbage collector, for processes full of objects of the API, which are acyclic: looking through them all for cycles, again and again, costs
much and finds little."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

_SELDOM: Final = (10_000, 500, 50)
"""A look at what is new takes some milliseconds then, for which an event loop stands still; with ten times as many objects it takes thirty."""


def collect_seldom() -> None:
    """From now on, and never look through what is there already. For a process that is ours."""
    gc.freeze()
    gc.set_threshold(*_SELDOM)


def collect_young() -> None:
    """Look for cycles among what was made since the last look. With `collect_seldom` it would be millions of objects later otherwise."""
    gc.collect(1)


def collect_all() -> None:
    """Look for cycles among all that was made since `collect_seldom`, and empty the interpreter's lists of freed tuples and dicts. These hold thousands of
    blocks from busy times, each in another piece of memory, which could not be given back otherwise."""
    gc.collect()


@contextlib.contextmanager
def collecting_seldom() -> Iterator[None]:
    """For a while, in a process that may be somebody else's."""
    thresholds = gc.get_threshold()
    gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
