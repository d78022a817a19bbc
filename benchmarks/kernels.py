"""Measuring the scheduler with compiled loops and without them, in one run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bayplan.scheduler.kernels.choice import KERNELS, Mode


@contextmanager
def used(means: Mode) -> Iterator[None]:
    """Scores come from NumPy, or from compiled loops, which are loaded before."""
    mode, loops = KERNELS.mode, KERNELS.loops
    KERNELS.mode, KERNELS.loops = means, None
    try:
        if means is Mode.COMPILED:
            KERNELS.load()
            if KERNELS.loops is None:
                raise RuntimeError(KERNELS.failure)
        yield
    finally:
        KERNELS.mode, KERNELS.loops = mode, loops


def all_means() -> list[Mode]:
    """NumPy, and compiled loops where there is a compiler."""
    try:
        with used(Mode.COMPILED):
            return [Mode.NUMPY, Mode.COMPILED]
    except RuntimeError:
        return [Mode.NUMPY]


def suffix(means: Mode) -> str:
    """What a figure's name says of it."""
    return ", compiled loops" if means is Mode.COMPILED else ""
