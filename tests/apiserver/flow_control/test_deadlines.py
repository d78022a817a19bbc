"""The ends of waits that take too long."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from bayplan.apiserver.flow_control.deadlines import Deadlines
from bayplan.support.clock import SystemClock


class Timers(SystemClock):
    """Time that passes when it is told to, for one timer."""

    def __init__(self) -> None:
        self.at = 0.0
        self.timer: tuple[float, Callable[..., object]] | None = None

    def monotonic(self) -> float:
        return self.at

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> Timers:
        assert self.timer is None
        self.timer = (self.at + seconds, callback)
        return self

    def cancel(self) -> None:
        self.timer = None

    def pass_until(self, moment: float) -> None:
        while self.timer is not None and self.timer[0] <= moment:
            (self.at, callback), self.timer = self.timer, None
            callback()
        self.at = moment


class Wait:
    def __init__(self, name: str) -> None:
        self.name = name


def test_waits_end_in_time_in_the_order_of_their_ends() -> None:
    clock, expired = Timers(), list[tuple[float, str]]()
    deadlines: Deadlines[Wait] = Deadlines(clock, lambda wait: expired.append((clock.at, wait.name)))
    numbers = {
        name: deadlines.add(at, Wait(name)) for at, name in ((5.0, "late"), (1.0, "early"), (3.0, "gone"), (3.0, "in"))
    }
    deadlines.remove(numbers["gone"])
    clock.pass_until(3.0)
    assert expired == [(1.0, "early"), (3.0, "in")]
    deadlines.remove(numbers["in"])
    clock.pass_until(9.0)
    assert expired[2:] == [(5.0, "late")]
    assert clock.timer is None


def test_nothing_keeps_what_has_ended() -> None:
    """However many have: a thousand requests that are freed at once hold up all others."""
    clock = Timers()
    deadlines: Deadlines[Wait] = Deadlines(clock, lambda wait: None)
    for number in range(2000):
        wait = Wait("")
        deadlines.remove(deadlines.add(60.0 + number % 7, wait))
        reference = weakref.ref(wait)
        del wait
        assert reference() is None
    assert len(deadlines._moments) < 300
