"""Supervised tasks and the worker thread."""

from __future__ import annotations

import asyncio
import logging
import threading
from functools import partial
from typing import NoReturn

import pytest

from bayplan.support.tasks import Supervisor
from bayplan.support.worker import WorkerThread
from bayplan.testing.clock import ManualClock


async def crash() -> NoReturn:
    raise ValueError("broken")


async def forever() -> None:
    await asyncio.Event().wait()


def test_a_crash_is_logged_reported_and_raised_by_wait(caplog: pytest.LogCaptureFixture) -> None:
    crashes: list[tuple[str, str]] = []

    async def run() -> None:
        async with Supervisor("service", on_crash=lambda name, error: crashes.append((name, str(error)))) as tasks:
            tasks.spawn("steady", forever())
            tasks.spawn("broken", crash())
            assert tasks.names == ["steady", "broken"]
            with pytest.raises(ValueError, match="broken"):
                await tasks.wait()
            assert tasks.names == ["steady"]
        assert len(tasks) == 0

    asyncio.run(run())
    assert crashes == [("broken", "broken")]
    assert "service: broken crashed" in caplog.text


def test_an_expected_failure_is_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    runs: list[int] = []

    async def start() -> None:
        runs.append(len(runs))
        if len(runs) == 1:
            raise ConnectionError("away")
        if len(runs) == 2:
            raise ValueError("a mistake")

    async def run() -> None:
        async with Supervisor("service", is_expected=lambda error: isinstance(error, ConnectionError)) as tasks:
            await tasks.keep_running("part", start, first_delay=0.0)

    asyncio.run(run())
    expected, mistake = caplog.records
    assert (expected.levelname, expected.exc_info) == ("WARNING", None)
    assert expected.getMessage() == "service: part failed, trying again in 0.0 s: away"
    assert (mistake.levelname, bool(mistake.exc_info)) == ("ERROR", True)


def test_wait_returns_when_all_tasks_ended() -> None:
    async def run() -> None:
        tasks = Supervisor("service")
        tasks.spawn("short", asyncio.sleep(0))
        await tasks.wait()
        await tasks.close()

    asyncio.run(run())


def test_close_cancels_everything_and_refuses_more() -> None:
    ended: list[str] = []

    async def note_end(name: str) -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    async def run() -> None:
        tasks = Supervisor("service")
        for name in ("a", "b"):
            tasks.spawn(name, note_end(name))
        await asyncio.sleep(0)
        await tasks.close()
        await tasks.close()
        assert sorted(ended) == ["a", "b"]
        with pytest.raises(RuntimeError, match="closed"):
            tasks.spawn("late", forever())

    asyncio.run(run())


def test_a_restarted_task_waits_longer_each_time(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    starts: list[float] = []

    async def flaky() -> None:
        starts.append(clock.monotonic())
        if len(starts) < 5:
            raise ValueError("not yet")

    async def run() -> None:
        async with Supervisor("service", clock=clock) as tasks:
            task = tasks.keep_running("flaky", flaky, first_delay=1.0, longest_delay=4.0)
            while not task.done():
                if clock.timers:
                    clock.advance(0.5)
                await asyncio.sleep(0)
            await tasks.wait()

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert starts == [0.0, 1.0, 3.0, 7.0, 11.0]
    assert caplog.text.count("starting it again") == 4


def test_a_long_healthy_run_resets_the_delay() -> None:
    clock = ManualClock()
    starts: list[float] = []

    async def flaky() -> None:
        starts.append(clock.monotonic())
        if len(starts) == 3:
            await clock.sleep(100)
        if len(starts) < 5:
            raise ValueError("not yet")

    async def run() -> None:
        async with Supervisor("service", clock=clock) as tasks:
            task = tasks.keep_running("flaky", flaky, first_delay=1.0)
            while not task.done():
                if clock.timers:
                    clock.advance(0.5)
                await asyncio.sleep(0)

    asyncio.run(run())
    assert starts == [0.0, 1.0, 3.0, 104.0, 106.0]


def test_the_worker_thread_runs_jobs_in_order_off_the_loop() -> None:
    async def run() -> None:
        worker = WorkerThread("worker")
        seen: list[int] = []
        await asyncio.gather(*[worker.run(partial(seen.append, number)) for number in range(50)])
        assert seen == list(range(50))
        assert await worker.run(lambda: threading.current_thread().name) == "worker"
        with pytest.raises(ZeroDivisionError):
            await worker.run(lambda: 1 // 0)
        assert await worker.run(lambda: 7) == 7
        await worker.close()
        assert not any(thread.name == "worker" for thread in threading.enumerate())

    asyncio.run(run())
