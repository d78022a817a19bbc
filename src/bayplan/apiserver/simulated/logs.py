"""Logs of containers in simulated pods: no program wrote one, so what happened to the container is told, as its status says.

web: started on simulated node node-1, image nginx:1.27, which runs no program
web: ready
web: ended with exit code 1, Error
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final, NamedTuple

from bayplan.api.errors import bad_request
from bayplan.api.pods.container_logs import LoggedRun, LogOptions, NoLogError, logged_run
from bayplan.api.types import core_v1
from bayplan.support.clock import Clock
from bayplan.support.timestamps import parse_rfc3339

LOOK_SECONDS: Final = 0.5
"""Between two looks at a container whose log is followed."""


class LogLine(NamedTuple):
    """Something that happened to a container."""

    time: str
    """RFC 3339, in seconds, UTC."""
    text: str


def lines_of(pod: core_v1.Pod, run: LoggedRun) -> list[LogLine]:
    """What happened in one run of a container."""
    state, name = run.running or run.ended, run.status.name
    assert state is not None
    started = state.started_at or ""
    lines = [
        LogLine(
            started,
            f"{name}: started on simulated node {pod.spec.node_name}, image {run.status.image}, which runs no program",
        )
    ]
    if run.running is not None and run.status.ready:
        conditions = (one for one in pod.status.conditions if one.type == "ContainersReady" and one.status == "True")
        lines += [LogLine(max(started, one.last_transition_time or ""), f"{name}: ready") for one in conditions]
    if run.ended is not None:
        lines.append(LogLine(run.ended.finished_at or started, f"{name}: {_end(run.ended)}"))
    return lines


def _end(ended: core_v1.ContainerStateTerminated) -> str:
    """How a container ended."""
    parts = [f"ended with exit code {ended.exit_code}"]
    parts += [f"signal {ended.signal}"] if ended.signal else []
    return ", ".join((*parts, *(text for text in (ended.reason, ended.message) if text)))


def run_of(pod: core_v1.Pod, container: str, *, previous: bool) -> LoggedRun:
    """The run of a container whose log is meant. Raises ApiError (400)."""
    try:
        return logged_run(pod.metadata.name, pod.status, container, previous=previous)
    except NoLogError as error:
        raise bad_request(str(error)) from None


async def log_of(
    pod: core_v1.Pod, run: LoggedRun, options: LogOptions, clock: Clock, current: Callable[[], core_v1.Pod | None]
) -> AsyncIterator[bytes]:
    """A log, piece by piece. One that is followed ends with the run; it has b"" where nothing happens for a while.

    current: the pod as it is now; None if it has gone.
    """
    selection = _Selection(options)
    shown = lines_of(pod, run)
    yield selection.first(shown)
    found: LoggedRun | None = run
    while options.follow and found is not None and found.running is not None and not selection.is_complete:
        await clock.sleep(LOOK_SECONDS)
        now = current()
        found = None if now is None or now.metadata.uid != pod.metadata.uid else _same_run(now, run)
        if now is not None and found is not None:
            lines = lines_of(now, found)
            known = {line.text for line in shown}
            new, shown = [line for line in lines if line.text not in known], lines
            yield selection.more(new)


def _same_run(pod: core_v1.Pod, run: LoggedRun) -> LoggedRun | None:
    """The same run of a container as it is now; None if nothing is known of it any more."""
    for previous in (False, True):
        try:
            found = logged_run(pod.metadata.name, pod.status, run.status.name, previous=previous)
        except NoLogError:
            continue  # it waits for its next run, or there was none before
        if found.container_id == run.container_id:
            return found
    return None


class _Selection:
    """Which lines are shown, and how."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._bytes_left = options.limit_bytes

    @property
    def is_complete(self) -> bool:
        """Whether nothing more is to be shown."""
        return self._bytes_left == 0

    def first(self, lines: list[LogLine]) -> bytes:
        """What is shown of the lines that there are at first."""
        tail = self._options.tail_lines
        return self.more(lines if tail is None else lines[len(lines) - min(tail, len(lines)) :])

    def more(self, lines: list[LogLine]) -> bytes:
        """What is shown of further lines."""
        text = "".join(self._shown(lines)).encode()
        if self._bytes_left is not None:
            text = text[: self._bytes_left]
            self._bytes_left -= len(text)
        return text

    def _shown(self, lines: list[LogLine]) -> Iterator[str]:
        since = self._options.since
        for line in lines:
            if since is None or (line.time and parse_rfc3339(line.time) >= since):
                time = f"{line.time.removesuffix('Z')}.000000000Z " if self._options.timestamps else ""
                yield f"{time}{line.text}\n"
