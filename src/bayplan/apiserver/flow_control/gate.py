"""The gate through which every request passes: requests that have to wait are futures, and nothing polls.

    enter -> executing: `leave` when it is answered
          -> waiting: `wait` for its turn; its client may go away meanwhile, or its time be over
          -> rejected: `refusal`

Requests that last are not counted, as in Kubernetes, but for watches until they are open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from bayplan.api.types import flowcontrol_v1 as fc
from bayplan.apiserver.flow_control.configuration import Classification, Configuration
from bayplan.apiserver.flow_control.deadlines import Deadlines
from bayplan.apiserver.flow_control.estimation import MUTATING, Estimator, ObjectStatistics
from bayplan.apiserver.flow_control.levels import Level
from bayplan.apiserver.flow_control.measuring import FlowMetrics, FlowSeries
from bayplan.apiserver.flow_control.pacing import Paced
from bayplan.apiserver.flow_control.parameters import MAXIMUM_WAIT_SECONDS, WAIT_SHARE, WATCHES_PER_SEAT
from bayplan.apiserver.flow_control.queues import CANCELLED, TIME_OUT, State, Ticket
from bayplan.apiserver.flow_control.watch_counts import WatchCounts
from bayplan.apiserver.flow_control.work import ONE_SEAT, Work
from bayplan.apiserver.inflight import READING, too_many_requests
from bayplan.apiserver.request_info import RequestInfo
from bayplan.apiserver.requests import Request, Response
from bayplan.support.clock import Clock, Timer
from bayplan.support.durations import go_seconds
from bayplan.support.metrics.instruments import Registry

_EXECUTING = State.EXECUTING
Admission = Ticket[Classification]
"""A request at the gate; its details are the request."""


class Gate:
    """Applies API Priority and Fairness to the requests of one server."""

    def __init__(
        self,
        server_limit: int,
        request_timeout: float,
        statistics: Callable[[RequestInfo], ObjectStatistics | None],
        clock: Clock,
        registry: Registry,
    ) -> None:
        """server_limit: seats of all levels together; request_timeout: seconds that requests may take that do not say it; statistics: see `Estimator`."""
        self._clock = clock
        self._monotonic = clock.monotonic
        self._timeout = request_timeout
        self.configuration = Configuration(server_limit, clock.monotonic())
        self.watch_counts = WatchCounts()
        self._estimator = Estimator(statistics, self.watch_counts.interested_in)
        self._metrics = FlowMetrics(registry, clock.monotonic())
        self.executing = [0, 0]
        """Requests that execute: those that change something, and those that read."""
        self._waiters: dict[Admission, asyncio.Future[bool]] = {}
        self._deadlines: Deadlines[Admission] = Deadlines(clock, self._time_out)
        self._timers: dict[Level, Timer] = {}
        """Run when seats become free by themselves for which a request waits."""
        self._turns: dict[Level, None] = {}
        """Levels of which so many requests have just started that the next ones wait until the loop has looked for input."""

    # ------------------------------------------------------------------ configuration

    def load(self, configs: Sequence[fc.PriorityLevelConfiguration], schemas: Sequence[fc.FlowSchema]) -> None:
        """Take over the objects as they are now."""
        self._metrics.take_times(self.configuration, self._clock.monotonic())
        self.configuration.load(configs, schemas, self._clock.monotonic())
        self._limits_changed()

    def adjust(self) -> None:
        """Adjust the limits to the demand. To be called every `ADJUSTMENT_SECONDS`."""
        self._take_kinds()
        self._metrics.fold()
        self._metrics.take_times(self.configuration, self._clock.monotonic())
        self.configuration.adjust(self._clock.monotonic())
        self._limits_changed()

    async def keep_adjusted(self) -> None:
        """`adjust`, for who repeats it."""
        self.adjust()

    def wall_time(self, moment: float) -> float:
        """Unix seconds of a moment of the monotonic clock."""
        return self._clock.now() - (self._clock.monotonic() - moment)

    def update_metrics(self) -> None:
        """Bring the metrics up to date that are not counted as it happens."""
        self._take_kinds()
        self._metrics.update(self.configuration, self._clock.monotonic())

    def _take_kinds(self) -> None:
        """Sample how many requests that read and that change something there are: counting them all the time would cost each of them."""
        waiting = [0, 0]
        for one in self._waiters:
            waiting[one.details.info.verb in READING] += 1
        self._metrics.take_kinds(self.executing, waiting, self.configuration.server_limit, self._clock.monotonic())

    def _limits_changed(self) -> None:
        now = self._clock.monotonic()
        for level in tuple(self.configuration.levels.values()):
            if level.queue_set.waiting:
                self._settle(level, level.queue_set.dispatch(now))

    # ------------------------------------------------------------------ requests

    def enter(self, request: Request) -> Admission | None:
        """A request comes; None if it is not counted. It executes, or its `wait` says what becomes of it."""
        info = request.info
        verb = info.verb
        if (info.subresource or verb == "proxy") and info.is_long_running and verb != "watch":
            return None
        classification = self.configuration.classify(info, request.user)
        if classification.is_exempt:
            return self._enter_exempt(request, verb, classification)
        return self._enter(request, info, classification)

    def classify(self, request: Request) -> Classification:
        """Where a request belongs, which has not come to the gate yet."""
        return self.configuration.classify(request.info, request.user)

    def note_exempt_get(self, classification: Classification, started: float) -> None:
        """A get that always executes was answered before anything else happened, without `enter`. started: when, in monotonic seconds."""
        series = classification.series or self._series(classification)
        series.one_seat += 1
        classification.level.queue_set.note_exempt(classification)
        series.executed.observe(self._monotonic() - started)

    def enter_at_once(self, request: Request, classification: Classification) -> Admission | None:
        """Let a request in that cannot wait. None if it would have to, or be rejected. classification: that of `classify`."""
        info = request.info
        level, is_get = classification.level, info.verb == "get"
        if not classification.is_exempt:
            seats = 1 if is_get else self._estimator.write(self._estimator.watches(info), level.most_seats).seats
            if not level.queue_set.may_start(self._monotonic(), seats, classification.hand, is_instant=is_get):
                return None
        return self._enter(request, info, classification, is_instant=is_get)

    def _enter_exempt(self, request: Request, verb: str, classification: Classification) -> Admission:
        """`_enter` for a request that always executes, without what only limits need."""
        series = classification.series or self._series(classification)
        level = classification.level
        work = ONE_SEAT if verb == "get" else self._estimate(request, level, series)
        if work is ONE_SEAT:
            series.one_seat += 1
        else:
            series.seats.observe(work.seats)
        self.executing[verb in READING] += 1
        return level.queue_set.start_exempt(self._monotonic(), work, classification, request)

    def _series(self, classification: Classification) -> FlowSeries:
        """Where the requests of a classification are measured, found once."""
        series = classification.series = self._metrics.series(classification)
        return series

    def _enter(
        self, request: Request, info: RequestInfo, classification: Classification, *, is_instant: bool = False
    ) -> Admission:
        verb = info.verb
        series = classification.series or self._series(classification)
        level = classification.level
        work = ONE_SEAT if verb == "get" else self._estimate(request, level, series)
        if work is ONE_SEAT:  # as nearly always
            series.one_seat += 1
        else:
            series.seats.observe(work.seats)
        admission = level.queue_set.start(self._monotonic(), work, classification, request, is_instant=is_instant)
        if admission.queue is not None or admission.reason:
            self._enqueued(admission, level, series)
        if admission.state is _EXECUTING:
            self.executing[verb in READING] += 1
        return admission

    def _enqueued(self, admission: Admission, level: Level, series: FlowSeries) -> None:
        """A request came to a level that has queues, or was rejected."""
        if admission.reason:
            level.retry_after.rejected(admission.arrival)
            series.rejected(0.0)
            return
        if series.queue_length is not None and admission.queue is not None:
            series.queue_length.observe(len(admission.queue.waiting) or 1)
        if admission.is_waiting:
            self._settle(level, level.queue_set.dispatch(admission.arrival), but=admission)
            return
        if series.waited is not None:
            series.at_once += 1
        if level.queue_set.is_turn_over and level not in self._turns:
            self._end_turn_soon(level)

    def _estimate(self, request: Request, level: Level, series: FlowSeries) -> Work:
        info = request.info
        if info.verb in MUTATING:
            watches = self._estimator.watches(info)
            seen = series.watch_numbers
            seen[watches] = seen.get(watches, 0) + 1
            return ONE_SEAT if watches < WATCHES_PER_SEAT else self._estimator.write(watches, level.most_seats)
        if info.verb in ("list", "watch"):
            return self._estimator.read(info, request.query, level.most_seats)
        return ONE_SEAT

    async def wait(self, admission: Admission) -> bool:
        """Wait until a request executes; False if its time is over before, or it is rejected. If this is cancelled, the request is forgotten."""
        if not admission.is_waiting:
            return not admission.reason
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiters[admission] = future
        number = self._deadlines.add(admission.arrival + self._wait_seconds(admission.details), admission)
        try:
            return await future
        except asyncio.CancelledError:
            self._forget(admission)
            raise
        finally:
            self._deadlines.remove(number)
            del self._waiters[admission]

    async def pace_refusal(self, admission: Admission) -> None:
        """Wait until a rejected request may be answered, so that not all who are sent away come back at the same moment."""
        refusals = admission.flow.level.refusals
        if not refusals.try_pass():
            await refusals.wait(admission.flow.hand)

    def paced(self, admission: Admission, answer: Coroutine[Any, Any, Response]) -> Awaitable[Response]:
        """What answers a request that executes, so that it does not hold up the event loop together with others of its level."""
        flow = admission.flow
        level = flow.level
        if flow.is_exempt or not level.queue_set.waiting:
            return answer
        return Paced(answer, level.turnstile, flow.hand, level.is_contended)

    def abandon(self, request: Request) -> None:
        """The client of a request has gone: if it waits, that is rejected, since nobody is there for an answer."""
        for admission in self._waiters:
            if admission.details is request and admission.is_waiting:
                self._abandon(admission, CANCELLED)
                self._tell(admission, executes=False)
                return

    def leave(self, admission: Admission) -> None:
        """A request that executes is answered, or a watch is open. To be called once."""
        classification, verb = admission.flow, admission.details.info.verb
        level = classification.level
        queue_set = level.queue_set
        now = self._monotonic()
        if queue_set.desired_queues < 0 and admission.queue is None:
            queue_set.finish_exempt(admission)
            started: Sequence[Admission] = ()
        else:
            started = queue_set.finish(now, admission)
        self.executing[verb in READING] -= 1
        series = classification.series
        if series is not None:
            (series.executed if verb != "watch" else series.watch_times()).observe(now - admission.started)
        if started or queue_set.waiting or level.is_quiescing:
            self._settle(level, started)

    def refusal(self, admission: Admission) -> Response:
        """What a rejected request gets."""
        response = too_many_requests(admission.flow.level.retry_after.seconds)
        response.flow = admission.flow.identity
        return response

    # ------------------------------------------------------------------ waiting

    def _wait_seconds(self, request: Request) -> float:
        timeout, given = self._timeout, request.query.get("timeout", "")
        if given and request.info.verb != "watch":
            with suppress(ValueError):  # for which it will be refused
                timeout = min(timeout, go_seconds(given) or timeout)
        return min(timeout * WAIT_SHARE, MAXIMUM_WAIT_SECONDS)

    def _time_out(self, admission: Admission) -> None:
        """A request has waited as long as it may; one that has just started may not know it yet."""
        if admission.is_waiting:
            admission.flow.level.retry_after.rejected(self._clock.monotonic())
            self._abandon(admission, TIME_OUT)
            self._tell(admission, executes=False)

    def _abandon(self, admission: Admission, reason: str) -> None:
        level, now = admission.flow.level, self._clock.monotonic()
        if admission.flow.series is not None:
            admission.flow.series.rejected(now - admission.arrival)
        self._settle(level, level.queue_set.abandon(now, admission, reason))

    def _forget(self, admission: Admission) -> None:
        """The client of a request has gone while it waited."""
        if admission.is_executing:
            self.leave(admission)
        elif admission.is_waiting:
            self._abandon(admission, CANCELLED)

    def _tell(self, admission: Admission, *, executes: bool) -> None:
        waiter = self._waiters.get(admission)
        if waiter is not None and not waiter.done():
            waiter.set_result(executes)

    def _settle(self, level: Level, started: Sequence[Admission], but: Admission | None = None) -> None:
        """Tell requests that they have started, and see to it that what still waits is looked at again. but: this one is counted by the caller."""
        for admission in started:
            if admission is not but:
                self.executing[admission.details.info.verb in READING] += 1
            series = admission.flow.series
            if series is not None and series.waited is not None:
                series.waited.observe(admission.started - admission.arrival)
            self._tell(admission, executes=True)
        queue_set = level.queue_set
        if queue_set.is_turn_over and level not in self._turns:
            self._end_turn_soon(level)
        release = queue_set.next_release
        if queue_set.waiting and release is not None and level not in self._timers:
            delay = max(0.0, release - self._clock.monotonic())
            self._timers[level] = self._clock.call_later(delay, self._released, level)
        if level.is_quiescing:
            self.configuration.forget_idle(self._clock.monotonic())

    def _released(self, level: Level) -> None:
        del self._timers[level]
        self._settle(level, level.queue_set.dispatch(self._clock.monotonic()))

    def _end_turn_soon(self, level: Level) -> None:
        self._turns[level] = None
        asyncio.get_running_loop().call_soon(self._input_read, level)

    def _input_read(self, level: Level) -> None:
        """The loop has looked for input. What came is enqueued next, and only then is decided who is first."""
        if level.queue_set.waiting:
            asyncio.get_running_loop().call_soon(self._new_turn, level)
        else:
            self._new_turn(level)

    def _new_turn(self, level: Level) -> None:
        del self._turns[level]
        self._settle(level, level.queue_set.new_turn(self._clock.monotonic()))
