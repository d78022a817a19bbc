"""Whole answers as bytes, by the whole query but its id and the case of its name. A cached answer costs two look-ups and no parsing.

Answers from the zone stay until something changes that they depend on. Answers from upstream servers stay for their time to live, and their TTLs shrink
meanwhile. Each listener has a cache of its own, as answers depend on the transport.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle
from typing import Final

from bayplan.dns.wire import HEADER, aged, question_end, rotations, ttl_offsets
from bayplan.support.metrics.instruments import Counter, Histogram

_FOREVER: Final = float("inf")


class CachedAnswer:
    """One answer, in all its orders."""

    __slots__ = (
        "_age",
        "_message",
        "_offsets",
        "_parts",
        "counters",
        "depends",
        "duration",
        "expires",
        "stored",
    )

    def __init__(
        self,
        message: bytes,
        depends: Sequence[str],
        *,
        counters: Sequence[Counter],
        duration: Histogram,
        stored: float = 0.0,
        lifetime: int | None = None,
    ) -> None:
        """lifetime: seconds from `stored` (on the monotonic clock); None: TTLs do not shrink. counters, duration: what every use is counted in."""
        self.depends = tuple(depends)
        self.stored = stored
        self.expires = _FOREVER if lifetime is None else stored + lifetime
        self.counters = tuple(counters)
        self.duration = duration
        self._message = message
        self._offsets = ttl_offsets(message) if lifetime is not None else ()
        self._age = 0
        self._parts = _cycle(rotations(message) if lifetime is None else (message,))

    def reply(self, identity: bytes, question: bytes, now: float) -> bytes:
        """The answer to a query with this id and, in its own case, this name."""
        if self._offsets:
            age = int(now - self.stored)
            if age != self._age:
                self._age = age
                self._parts = _cycle((aged(self._message, self._offsets, age),))
        head, tail = next(self._parts)
        return identity + head + question + tail


def _cycle(messages: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """What comes between id and name, and what comes after the name, of each message in turn."""
    return cycle([(one[2:HEADER], one[question_end(one) - 5 :]) for one in messages])


class AnswerCache:
    """A bounded number of answers; those that were not used for the longest time go first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._answers: OrderedDict[bytes, CachedAnswer] = OrderedDict()
        self._keys: dict[str, set[bytes]] = {}
        """What answers depend on -> keys of those answers."""

    def __len__(self) -> int:
        return len(self._answers)

    def reply(self, query: bytes, now: float) -> tuple[bytes, CachedAnswer] | None:
        """The answer to a query, and where it came from; None if it is not here. now: monotonic seconds."""
        end = query.find(0, HEADER)
        if end < 0:
            return None
        question = query[HEADER:end]
        key = query[2:HEADER] + question.lower() + query[end:]
        answer = self._answers.get(key)
        if answer is None:
            return None
        if now >= answer.expires:
            self._drop(key)
            return None
        self._answers.move_to_end(key)
        return answer.reply(query[:2], question, now), answer

    def put(self, query: bytes, answer: CachedAnswer, message: bytes) -> None:
        """Keep the answer `message` to a query, unless it does not repeat the question's name as it was sent (compressed names)."""
        end = query.index(0, HEADER)
        if message[HEADER : end + 5] != query[HEADER : end + 5] or not self._capacity:
            return
        key = query[2:HEADER] + query[HEADER:end].lower() + query[end:]
        if key in self._answers:
            self._drop(key)
        elif len(self._answers) >= self._capacity:
            self._drop(next(iter(self._answers)))
        self._answers[key] = answer
        for one in answer.depends:
            self._keys.setdefault(one, set()).add(key)

    def invalidate(self, changed: Iterable[str]) -> None:
        """Forget all answers that depend on one of these keys."""
        for one in changed:
            for key in tuple(self._keys.get(one, ())):
                self._drop(key)

    def _drop(self, key: bytes) -> None:
        for one in self._answers.pop(key).depends:
            keys = self._keys.get(one)
            if keys is not None:
                keys.discard(key)
                if not keys:
                    del self._keys[one]
