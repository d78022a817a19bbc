"""What happened in a virtual cluster: every write with its virtual time, who did it, and which object became what."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from bayplan.store.interface import Event
from bayplan.support.clock import Clock
from bayplan.support.tasks import ACTOR

USER: Final = "user"
"""Who acts when no component does."""
_ROOT: Final = "/registry/"
_RESTLESS: Final = ("coordination.k8s.io/leases/", "core/events/", "events.k8s.io/events/")
"""Where keys begin that are written also when nothing goes on."""


def is_restless(key: str) -> bool:
    """Whether a key (as lines have it) is one of those that are written also when nothing goes on: leases and events."""
    return key.startswith(_RESTLESS)


class Write(NamedTuple):
    """One committed write, for those who look at objects as well."""

    at: float
    """Seconds since the start."""
    revision: int
    actor: str
    verb: str
    """create, update or delete."""
    key: str
    value: bytes | None
    """The stored object; None if it was deleted."""
    previous: bytes | None
    """The one before."""


class Trace:
    """One line of text per write: `seconds revision actor verb key digest`, separated by blanks.

    `seconds` since the start (with microseconds), `verb` create, update or delete, `digest` of the stored bytes. Two runs
    that did the same have equal digests of the whole trace.
    """

    def __init__(self, clock: Clock, sink: Callable[[str], object] | None = None) -> None:
        """sink: called with each line, which ends with a line feed."""
        self._clock = clock
        self._sink = sink
        self._digest = hashlib.blake2b(digest_size=16)
        self._start = clock.monotonic()
        self.listeners: list[Callable[[Write], object]] = []
        """Called with each write."""
        self.writes = 0
        """Writes so far."""
        self.last_change = self._start
        """When (by the clock's monotonic time) something was last written besides leases and events."""

    def take(self, events: Sequence[Event]) -> None:
        """A store's committed changes."""
        actor = (ACTOR.get() or USER).replace(" ", "-")
        now = self._clock.monotonic()
        passed = now - self._start
        for event in events:
            value = event.value
            verb = "delete" if value is None else "update" if event.previous_revision else "create"
            state = hashlib.blake2b(value or b"", digest_size=8).hexdigest()
            key = event.key.removeprefix(_ROOT)
            line = f"{passed:.6f} {event.revision} {actor} {verb} {key} {state}\n"
            self._digest.update(line.encode())
            self.writes += 1
            if not is_restless(key):
                self.last_change = now
            if self._sink is not None:
                self._sink(line)
            for listener in self.listeners:
                listener(Write(passed, event.revision, actor, verb, key, value, event.previous))

    @property
    def seconds(self) -> float:
        """Virtual seconds since the start, as lines count them."""
        return self._clock.monotonic() - self._start

    def digest(self) -> str:
        """Of all lines so far, as hexadecimal digits."""
        return self._digest.hexdigest()
