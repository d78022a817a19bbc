"""Processes are told apart, started again, and stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path

import pytest

from bayplan.cluster.errors import RealNodeError
from bayplan.cluster.real_nodes.processes import SupervisedProcess, processes_with
from bayplan.support.clock import SystemClock
from bayplan.support.system.process_ids import ProcessId, end, process_id, read_pid_file
from tests.kubelet.waiting import eventually


def supervised(directory: Path, *command: str) -> SupervisedProcess:
    """A process with its files in a directory."""
    return SupervisedProcess("it", command, directory / "log", directory / "it.pid", SystemClock())


def test_process_is_started_again_and_stopped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def steps() -> None:
        it = supervised(tmp_path, "sh", "-c", "echo began; exec sleep 1000")
        running = asyncio.create_task(it.run())
        await eventually(
            lambda: "began" in (tmp_path / "log").read_text() if (tmp_path / "log").exists() else False, "a start"
        )
        first = it.pid
        recorded = read_pid_file(tmp_path / "it.pid")
        assert recorded is not None
        assert recorded.pid == first
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: it.starts == 2 and it.pid not in (0, first), "a second start")
        await it.stop(5)
        await asyncio.wait_for(running, 5)
        assert it.pid == 0
        assert not (tmp_path / "it.pid").exists()
        assert "it has ended (-9), it is started again in 0.5 s: began" in caplog.text
        await it.stop(5)

    asyncio.run(steps())


def test_owner_learns_of_unexpected_ends_before_the_next_start(tmp_path: Path) -> None:
    async def steps() -> None:
        starts: list[int] = []
        it = SupervisedProcess(
            "it",
            ("sleep", "1000"),
            tmp_path / "log",
            tmp_path / "it.pid",
            SystemClock(),
            lambda: starts.append(it.starts),
        )
        running = asyncio.create_task(it.run())
        await eventually(lambda: it.pid != 0, "a start")
        assert starts == []
        os.kill(it.pid, signal.SIGKILL)
        await eventually(lambda: it.starts == 2, "a second start")
        assert starts == [1]
        await it.stop(5)
        await asyncio.wait_for(running, 5)
        assert starts == [1]

    asyncio.run(steps())


def test_process_that_does_not_end_is_killed(tmp_path: Path) -> None:
    async def steps() -> None:
        it = supervised(tmp_path, "sh", "-c", "trap '' TERM; echo began; while true; do sleep 0.1; done")
        running = asyncio.create_task(it.run())
        await eventually(lambda: "began" in it.last_words(), "a start")
        pid = it.pid
        assert process_id(pid) is not None
        await it.stop(0.3)
        await asyncio.wait_for(running, 5)
        assert process_id(pid) is None

    asyncio.run(steps())


def test_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RealNodeError, match="it cannot be started: /nothing: No such file"):
        asyncio.run(supervised(tmp_path, "/nothing").run())


def test_later_process_of_the_same_number_is_another(tmp_path: Path) -> None:
    process = subprocess.Popen(["sh", "-c", "read line", "marked-argument"], stdin=subprocess.PIPE)
    try:
        found = process_id(process.pid)
        assert found is not None
        file = tmp_path / "pid"
        file.write_text(f"{found.pid} {found.started}\n")
        assert read_pid_file(file) == found
        file.write_text(f"{found.pid} {found.started - 1}\n")
        assert read_pid_file(file) is None
        file.write_text("nothing")
        assert read_pid_file(file) is None
        assert list(processes_with(["sh"], "marked-")) == [found]
        assert list(processes_with(["other"], "marked-")) == []
        other = ProcessId(found.pid, found.started - 1)
        assert asyncio.run(end([other], SystemClock(), signal.SIGKILL, 5)) == []
        assert process.poll() is None
        assert asyncio.run(end([found], SystemClock(), signal.SIGCONT, 0.05)) == [found]
        assert asyncio.run(end([found], SystemClock(), signal.SIGKILL, 5)) == []
    finally:
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
    assert process_id(process.pid) is None


def test_a_program_says_why_it_does_not_run(tmp_path: Path) -> None:
    async def steps() -> None:
        command = ("sh", "-c", "echo no way; exit 1")
        process = SupervisedProcess("it", command, tmp_path / "log", tmp_path / "pid", SystemClock())
        assert process.failure == "it has not started yet"
        running = asyncio.create_task(process.run())

        async def has_ended() -> bool:
            return process.failure == "it has ended: no way"

        await eventually(has_ended, "its last words")
        await process.stop(1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        lasting = SupervisedProcess("it", ("sleep", "100"), tmp_path / "log", tmp_path / "pid", SystemClock())
        running = asyncio.create_task(lasting.run())

        async def runs() -> bool:
            return not lasting.failure

        await eventually(runs, "a process")
        await lasting.stop(1)
        await running

    asyncio.run(steps())


@pytest.mark.parametrize(("command", "last"), [("exit 1", 60.0), ("kill -9 $$", 5.0)], ids=["fails", "is killed"])
def test_what_fails_each_time_waits_longer_than_what_is_killed(tmp_path: Path, command: str, last: float) -> None:
    class Hurried(SystemClock):
        """A clock for which no time passes while others sleep."""

        async def sleep(self, seconds: float) -> None:
            delays.append(seconds)
            if len(delays) == 9:
                await it.stop(1)

    async def steps() -> None:
        await asyncio.wait_for(it.run(), 20)

    delays: list[float] = []
    it = SupervisedProcess("it", ("sh", "-c", command), tmp_path / "log", tmp_path / "it.pid", Hurried())
    asyncio.run(steps())
    assert delays[:4] == [0.5, 1.0, 2.0, 4.0]
    assert delays[-1] == last
