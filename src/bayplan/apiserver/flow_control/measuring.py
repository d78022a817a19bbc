"""What API Priority and Fairness measures, under kube-apiserver's names.

Distributions are counted as requests pass; all else is kept as plain numbers by the queues, and brought into the metrics when somebody looks (`FlowMetrics.update`).
Utilizations and demands are histograms of a number over time: their counts are nanoseconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final

from bayplan.apiserver.flow_control.configuration import Classification, Configuration
from bayplan.apiserver.flow_control.levels import Level, Times
from bayplan.apiserver.flow_control.metric_table import (
    COUNTERS,
    HISTOGRAMS,
    LEVEL_GAUGES,
    PREFIX,
    SCHEMA_GAUGES,
    TIMED_HISTOGRAMS,
)
from bayplan.apiserver.flow_control.queues import FlowCounts
from bayplan.apiserver.flow_control.work import SCALE
from bayplan.support.metrics.instruments import Family, Histogram, Registry

_LEVEL, _SCHEMA = "priority_level", "flow_schema"
_NANOSECONDS: Final = 1e9
_FRACTIONS: Final = (0.0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)


class FlowSeries:
    """The distributions of one flow schema at one priority level."""

    __slots__ = (
        "_families",
        "_names",
        "at_once",
        "executed",
        "one_seat",
        "queue_length",
        "seats",
        "waited",
        "watch_numbers",
        "watched",
        "watches",
    )

    def __init__(self, families: Mapping[str, Family[Histogram]], names: tuple[str, str], *, is_exempt: bool) -> None:
        self._families = families
        self._names = names
        self.seats = self._of("work_estimated_seats")
        self.one_seat = 0
        """Requests of one seat that are not in `seats` yet (see `fold`)."""
        self.at_once = 0
        """Requests that did not wait and are not in `waited` yet."""
        self.executed = self._of("request_execution_seconds", "regular")
        self.watches: Histogram | None = None
        """Of requests that write; None until there was one."""
        self.watch_numbers: dict[int, int] = {}
        """How many requests that write got so many watches, and are not in `watches` yet."""
        self.watched: Histogram | None = None
        """Times in which watches began; None until there was one."""
        self.queue_length = None if is_exempt else self._of("request_queue_length_after_enqueue")
        self.waited = None if is_exempt else self._of("request_wait_duration_seconds", "true")
        """Times that requests waited before they executed; None if they never do."""

    def fold(self) -> None:
        """Bring into the distributions what is counted apart, since nearly all requests are alike in it."""
        self.seats.counts[0] += self.one_seat
        self.seats.sum += self.one_seat
        if self.waited is not None:
            self.waited.counts[0] += self.at_once
        self.one_seat = self.at_once = 0
        if self.watch_numbers and self.watches is None:
            self.watches = self._of("watch_count_samples")
        if self.watches is not None:
            for watches, requests in self.watch_numbers.items():
                _observe_often(self.watches, watches, requests)
            self.watch_numbers.clear()

    def watch_times(self) -> Histogram:
        """`watched`, made if it is not there yet."""
        if self.watched is None:
            self.watched = self._of("request_execution_seconds", "watch")
        return self.watched

    def rejected(self, seconds: float) -> None:
        """A request was rejected after it had waited for so long."""
        self._of("request_wait_duration_seconds", "false").observe(seconds)

    def _of(self, name: str, *further: str) -> Histogram:
        return self._families[name].labels(*self._names, *further)


class FlowMetrics:
    """The metrics of one server."""

    def __init__(self, registry: Registry, now: float) -> None:
        """now: monotonic seconds."""
        self._histograms = {
            name: registry.histogram(PREFIX + name, text, (_LEVEL, _SCHEMA, *further), buckets)
            for name, (text, further, buckets) in HISTOGRAMS.items()
        }
        self._timed = {
            name: registry.histogram(PREFIX + name, text, labels, buckets)
            for name, (text, labels, buckets) in TIMED_HISTOGRAMS.items()
        }
        self._counters = {
            name: registry.counter(PREFIX + name, text, labels) for name, (text, labels) in COUNTERS.items()
        }
        self._levels = {
            name: registry.gauge(PREFIX + name, text, (_LEVEL, *further))
            for name, (text, further) in LEVEL_GAUGES.items()
        }
        self._schemas = {
            name: registry.gauge(PREFIX + name, text, (_LEVEL, _SCHEMA)) for name, text in SCHEMA_GAUGES.items()
        }
        text = (
            "EXPERIMENTAL: Observations, at the end of every nanosecond, of the number of requests (as a fraction of the relevant limit) waiting or in "
            "regular stage of execution"
        )
        self._kinds = registry.histogram(
            f"{PREFIX}read_vs_write_current_requests", text, ("phase", "request_kind"), _FRACTIONS
        )
        self._inqueue = registry.gauge(
            "apiserver_current_inqueue_requests",
            "Maximal number of queued requests in this apiserver per request kind in last second.",
            ("request_kind",),
        )
        self._looked_at = now
        text = "Fair fraction of server's concurrency to allocate to each priority level that can use it"
        self._fair_fraction = registry.gauge(f"{PREFIX}seat_fair_frac", text).labels()
        self._series: dict[tuple[str, str], FlowSeries] = {}
        """By priority level and flow schema."""

    def take_kinds(self, executing: Sequence[int], waiting: Sequence[int], limit: int, now: float) -> None:
        """How many requests execute and wait now, those that change something and those that read, stands for the time since the last look."""
        seconds, self._looked_at = now - self._looked_at, now
        for is_read, kind in enumerate(("mutating", "readOnly")):
            for phase, counts in (("executing", executing), ("waiting", waiting)):
                _observe(self._kinds.labels(phase, kind), counts[is_read] / max(1, limit), seconds)
            self._inqueue.labels(kind).set(waiting[is_read])

    def series(self, classification: Classification) -> FlowSeries:
        """The distributions of requests of one sort."""
        level = classification.level
        names = (level.name, classification.schema_name)
        found = self._series.get(names)
        if found is None:
            found = self._series[names] = FlowSeries(self._histograms, names, is_exempt=level.is_exempt)
        return found

    def update(self, configuration: Configuration, now: float) -> None:
        """Bring in what is not counted as it happens."""
        self.take_times(configuration, now)
        self.fold()
        self._fair_fraction.set(configuration.fair_fraction)
        for level in configuration.levels.values():
            for name, value in _level_values(level).items():
                self._levels[name].labels(level.name).set(value)
            for bound, (start, discounted) in _start_bounds(level).items():
                self._levels["next_s_bounds"].labels(level.name, bound).set(start)
                self._levels["next_discounted_s_bounds"].labels(level.name, bound).set(discounted)
            for schema, counts in level.counts.items():
                self._update_schema((level.name, schema), counts)
        for family in self._schemas.values():
            for names, gauge in family.children.items():
                if names[0] not in configuration.levels:
                    gauge.set(0)

    def fold(self) -> None:
        """Bring into the distributions what is counted apart."""
        for series in self._series.values():
            series.fold()

    def _update_schema(self, names: tuple[str, str], counts: FlowCounts) -> None:
        self._schemas["current_inqueue_requests"].labels(*names).set(counts.waiting)
        self._schemas["current_inqueue_seats"].labels(*names).set(counts.waiting_seats)
        self._schemas["current_executing_requests"].labels(*names).set(counts.executing)
        for name in ("current_executing_seats", "request_concurrency_in_use"):
            self._schemas[name].labels(*names).set(counts.seats)
        if counts.dispatched:
            self._counters["dispatched_requests_total"].labels(*names).value = counts.dispatched
        if counts.no_room:
            self._counters["request_dispatch_no_accommodation_total"].labels(*names).value = counts.no_room
        for reason, number in counts.rejected.items():
            self._counters["rejected_requests_total"].labels(*names, reason).value = number

    def take_times(self, configuration: Configuration, now: float) -> None:
        """Bring in the utilizations. To be called before limits change, since they are parts of these."""
        for level in configuration.levels.values():
            level.collect(now)
            if level.times.executing:
                self._take_times(level, configuration.server_limit)

    def _take_times(self, level: Level, server_limit: int) -> None:
        limit = level.current or max(1, round(server_limit / 10))
        queuing = level.queuing
        room = queuing.queues * max(1, queuing.queue_length_limit) if queuing is not None else 1
        requests = self._timed["priority_level_request_utilization"]
        executing, waiting = requests.labels("executing", level.name), requests.labels("waiting", level.name)
        seats = self._timed["priority_level_seat_utilization"].labels("executing", level.name)
        demand = self._timed["demand_seats"].labels(level.name)
        times, level.times = level.times, Times()
        for histogram, by_number, divisor in (
            (executing, times.executing, limit),
            (waiting, times.waiting, room),
            (seats, times.seats, limit),
            (demand, times.wanted, limit),
        ):
            for number, seconds in by_number.items():
                _observe(histogram, number / divisor, seconds)


def _observe(histogram: Histogram, value: float, seconds: float) -> None:
    """A number was this for a time."""
    _observe_often(histogram, value, round(seconds * _NANOSECONDS))


def _observe_often(histogram: Histogram, value: float, times: int) -> None:
    histogram.counts[bisect_left(histogram.bounds, value)] += times
    histogram.sum += value * times


def _level_values(level: Level) -> dict[str, float]:
    queue_set, demand = level.queue_set, level.demand
    return {
        "nominal_limit_seats": level.nominal,
        "request_concurrency_limit": level.nominal,
        "lower_limit_seats": level.lowest,
        "upper_limit_seats": level.highest,
        "current_limit_seats": level.current,
        "demand_seats_high_watermark": demand.highest,
        "demand_seats_average": demand.average,
        "demand_seats_stdev": demand.deviation,
        "demand_seats_smoothed": demand.smoothed,
        "target_seats": level.target,
        "current_r": queue_set.r / SCALE,
        "dispatch_r": queue_set.last_dispatch.r / SCALE,
        "latest_s": queue_set.last_dispatch.start / SCALE,
    }


def _start_bounds(level: Level) -> dict[str, tuple[float, float]]:
    last = level.queue_set.last_dispatch
    return {
        "min": (last.lowest / SCALE, last.lowest_discounted / SCALE),
        "max": (last.highest / SCALE, last.highest_discounted / SCALE),
    }
