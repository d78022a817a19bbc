"""How the time of plugins is taken, if somebody wants to know: the service does, library users do not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

from bayplan.support.metrics import Counter

SUCCESS: Final = "Success"


class Meter(ABC):
    """Takes times. Statuses are the framework's (`Success`, `Unschedulable`, `Error`, `Skip`, ...)."""

    @abstractmethod
    def now(self) -> float:
        """Seconds since some fixed moment."""

    @abstractmethod
    def wall_time(self) -> float:
        """Seconds since the Unix epoch."""

    @abstractmethod
    def point(self, point: str, status: str, profile: str, seconds: float) -> None:
        """All plugins of an extension point (`PreFilter`, `Filter`, ...) have run once."""

    @abstractmethod
    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """One plugin has run once, for all nodes."""

    @abstractmethod
    def evaluations(self, profile: str, counters: Mapping[tuple[str, str], Counter]) -> None:
        """Where a profile counts how often its plugins were asked: (plugin, extension point) -> counter."""

    @abstractmethod
    def devices_awaited(self, profile: str, driver: str, status: str, seconds: float) -> None:
        """A pod has waited for the binding conditions of a driver's devices: `success`, `failure` or `timeout`."""

    @abstractmethod
    def volumes_failed(self, stage: str) -> None:
        """Something went wrong with a pod's volumes, at a stage such as `bind`."""


class Timing:
    """What is being timed; `status` may be set before it ends."""

    __slots__ = ("status",)

    def __init__(self) -> None:
        self.status = SUCCESS


_UNTIMED: Final = nullcontext(Timing())
"""For all that nobody measures; its status is never read."""


def timed_point(meter: Meter | None, point: str, profile: str) -> AbstractContextManager[Timing]:
    """Time an extension point. An exception counts as status `Error`."""
    if meter is None:
        return _UNTIMED
    return _timed(meter, lambda status, seconds: meter.point(point, status, profile, seconds))


def timed_plugin(meter: Meter | None, plugin: str, point: str) -> AbstractContextManager[Timing]:
    """Time one plugin at one extension point. An exception counts as status `Error`."""
    if meter is None:
        return _UNTIMED
    return _timed(meter, lambda status, seconds: meter.plugin(plugin, point, status, seconds))


@contextmanager
def _timed(meter: Meter, report: Callable[[str, float], None]) -> Iterator[Timing]:
    timing, started = Timing(), meter.now()
    try:
        yield timing
    except BaseException:
        timing.status = "Error"
        raise
    finally:
        report(timing.status, meter.now() - started)
