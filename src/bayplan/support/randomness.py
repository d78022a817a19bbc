"""Where chance comes from: the operating system in production, a seed in a simulation."""

from __future__ import annotations

import os
import random
from collections.abc import MutableSequence, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")

SAFE_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' alphabet of generated names: no vowels and no look-alike digits, hence no words by accident."""

_USUAL_LENGTH = 5
"""Suffixes of generated names have this length: one number gives all their characters, two at a time."""
_USUAL_COUNT = len(SAFE_ALPHABET) ** _USUAL_LENGTH
_PAIRS = tuple(one + other for one in SAFE_ALPHABET for other in SAFE_ALPHABET)
_UUID_BLOCK = 16 * 256


_forks = 0
"""How often this process came into being by a fork: a copy must not give out the numbers of its original."""


def _forked() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_forked)


class Randomness(Protocol):
    """The only source of chance."""

    def uuid4(self) -> str:
        """A random UUID (version 4) in its usual text form."""

    def suffix(self, length: int) -> str:
        """`length` characters of Kubernetes' alphabet for generated names."""

    def random(self) -> float:
        """A number in [0, 1)."""

    def choice(self, items: Sequence[T]) -> T:
        """One of the items. Raises `IndexError` if there is none."""

    def shuffle(self, items: MutableSequence[T]) -> None:
        """Put the items into random order, in place."""

    def jitter(self, base: float, factor: float) -> float:
        """A number in [base, base * (1 + factor)): spreads what would otherwise happen at once."""


class _RandomBase:
    """Everything but the source of UUID bits."""

    __slots__ = ("_generator", "random")

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator
        self.random = generator.random

    def suffix(self, length: int) -> str:
        if length != _USUAL_LENGTH:
            return "".join(self._generator.choices(SAFE_ALPHABET, k=length))
        digits, first = divmod(int(self.random() * _USUAL_COUNT), len(_PAIRS))
        digits, second = divmod(digits, len(_PAIRS))
        return _PAIRS[first] + _PAIRS[second] + SAFE_ALPHABET[digits]

    def choice(self, items: Sequence[T]) -> T:
        return self._generator.choice(items)

    def shuffle(self, items: MutableSequence[T]) -> None:
        self._generator.shuffle(items)

    def jitter(self, base: float, factor: float) -> float:
        return base * (1.0 + factor * self.random())


class SystemRandomness(_RandomBase):
    """Seeded by the operating system. UUIDs are straight from `os.urandom`, fetched in blocks to save system calls."""

    __slots__ = ("_block", "_forks", "_position")

    def __init__(self) -> None:
        super().__init__(random.Random())
        self._block = ""
        self._position = 0
        self._forks = _forks

    def uuid4(self) -> str:
        position = self._position
        if position >= len(self._block) or self._forks != _forks:
            self._block = os.urandom(_UUID_BLOCK).hex()
            self._forks = _forks
            position = 0
        self._position = position + 32
        return _uuid4_text(self._block[position : position + 32])


class SeededRandomness(_RandomBase):
    """Equal seeds give equal sequences."""

    __slots__ = ()

    def __init__(self, seed: int | str) -> None:
        super().__init__(random.Random(seed))

    def uuid4(self) -> str:
        return _uuid4_text(f"{self._generator.getrandbits(128):032x}")


def _uuid4_text(digits: str) -> str:
    """UUID text of 32 random hex digits, with the version and variant digits put in."""
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
