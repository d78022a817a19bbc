"""How the time of plugins is taken, if somebody wants to know: the service does, library users do not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final, Self

from bayplan.support.metrics.instruments import Counter

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
    """What is being timed, as a context; `status` may be set before it ends, and is `Error` after an exception. This one times nothing."""

    __slots__ = ("status",)

    def __init__(self) -> None:
        self.status = SUCCESS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Nothing is to be told."""


class _PointTiming(Timing):
    __slots__ = ("_meter", "_point", "_profile", "_started")

    def __init__(self, meter: Meter, point: str, profile: str) -> None:
        self.status = SUCCESS
        self._meter, self._point, self._profile = meter, point, profile

    def __enter__(self) -> Self:
        self._started = self._meter.now()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        status = self.status if kind is None else "Error"
        self._meter.point(self._point, status, self._profile, self._meter.now() - self._started)


class _PluginTiming(Timing):
    __slots__ = ("_meter", "_plugin", "_point", "_started")

    def __init__(self, meter: Meter, plugin: str, point: str) -> None:
        self.status = SUCCESS
        self._meter, self._plugin, self._point = meter, plugin, point

    def __enter__(self) -> Self:
        self._started = self._meter.now()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        status = self.status if kind is None else "Error"
        self._meter.plugin(self._plugin, self._point, status, self._meter.now() - self._started)


_UNTIMED: Final = Timing()
"""For all that nobody measures; its status is never read."""


def timed_point(meter: Meter | None, point: str, profile: str) -> Timing:
    """Time an extension point. An exception counts as status `Error`."""
    return _UNTIMED if meter is None else _PointTiming(meter, point, profile)


def timed_plugin(meter: Meter | None, plugin: str, point: str) -> Timing:
    """Time one plugin at one extension point. An exception counts as status `Error`."""
    return _UNTIMED if meter is None else _PluginTiming(meter, plugin, point)
