"""Where a process spends its time: samples of the main thread's stack, taken whenever it has used a little more CPU, in the format of pprof.

Source: `profile.proto` of github.com/google/pprof, whose numbers of fields are below. Nothing is measured, and nothing costs anything, while no profile is taken.
"""

from __future__ import annotations

import gzip
import signal
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from types import CodeType, FrameType
from typing import Final

_PERIOD_SECONDS: Final = 0.01
"""CPU time between samples, as in Go."""
_NANOSECONDS: Final = 1_000_000_000
_DEEPEST: Final = 256

Stack = tuple[tuple[CodeType, int], ...]
"""Code and line of each frame, the innermost first."""


class ProfilingError(Exception):
    """A profile cannot be taken now."""


async def cpu_profile(seconds: float, sleep: Callable[[float], Awaitable[None]], started: float) -> bytes:
    """A gzipped profile of the next `seconds`. started: now, in Unix seconds. Raises ProfilingError if one is being taken, or this is not the main thread."""
    if threading.current_thread() is not threading.main_thread():
        raise ProfilingError("only the main thread can be profiled")
    if signal.getsignal(signal.SIGPROF) not in (signal.SIG_DFL, signal.SIG_IGN, None):
        raise ProfilingError("cpu profiling already in use")
    samples: Counter[Stack] = Counter()

    def take(_: int, frame: FrameType | None) -> None:
        samples[_stack(frame)] += 1

    before = signal.signal(signal.SIGPROF, take)
    signal.setitimer(signal.ITIMER_PROF, _PERIOD_SECONDS, _PERIOD_SECONDS)
    try:
        await sleep(seconds)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return encoded_profile(samples, started, seconds)


def _stack(frame: FrameType | None) -> Stack:
    found: list[tuple[CodeType, int]] = []
    while frame is not None and len(found) < _DEEPEST:
        found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


def encoded_profile(samples: Counter[Stack], started: float, seconds: float) -> bytes:
    """Samples as a gzipped `perftools.profiles.Profile`: how many there were of each stack, and the CPU time for which they stand."""
    writer = _Writer()
    period = int(_PERIOD_SECONDS * _NANOSECONDS)
    kinds = [writer.value_type("samples", "count"), writer.value_type("cpu", "nanoseconds")]
    body = [_bytes(1, kind) for kind in kinds]
    for stack, count in samples.items():
        locations = _packed(writer.location(code, line) for code, line in stack)
        body.append(_bytes(2, _bytes(1, locations) + _bytes(2, _packed((count, count * period)))))
    tail = (
        _number(9, int(started * _NANOSECONDS))
        + _number(10, int(seconds * _NANOSECONDS))
        + _bytes(11, kinds[1])
        + _number(12, period)
    )
    texts = [_bytes(6, text.encode()) for text in writer.texts]
    return gzip.compress(b"".join((*body, *writer.locations, *writer.functions, *texts, tail)), mtime=0)


class _Writer:
    """Tables of one profile: texts, functions and locations, each written once."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {"": 0}
        self.functions: list[bytes] = []
        self.locations: list[bytes] = []
        self._function_ids: dict[CodeType, int] = {}
        self._location_ids: dict[tuple[CodeType, int], int] = {}

    def text(self, text: str) -> int:
        """The index of a text."""
        return self.texts.setdefault(text, len(self.texts))

    def value_type(self, kind: str, unit: str) -> bytes:
        """What a number of a sample is."""
        return _number(1, self.text(kind)) + _number(2, self.text(unit))

    def location(self, code: CodeType, line: int) -> int:
        """The number of a line of code."""
        known = self._location_ids.get((code, line))
        if known is None:
            known = self._location_ids[code, line] = len(self._location_ids) + 1
            at = _number(1, self._function(code)) + _number(2, line)
            self.locations.append(_bytes(4, _number(1, known) + _bytes(4, at)))
        return known

    def _function(self, code: CodeType) -> int:
        known = self._function_ids.get(code)
        if known is None:
            known = self._function_ids[code] = len(self._function_ids) + 1
            name = self.text(code.co_qualname)
            fields = ((1, known), (2, name), (3, name), (4, self.text(code.co_filename)), (5, code.co_firstlineno))
            self.functions.append(_bytes(5, b"".join(_number(number, value) for number, value in fields)))
        return known


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _packed(values: Iterable[int]) -> bytes:
    return b"".join(map(_varint, values))
