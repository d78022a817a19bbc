"""The event loop whose time passes only when nothing is left to do."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
import time
import weakref

import pytest

from bayplan.support.virtual_time import NothingLeft, run


def test_a_year_passes_at_once() -> None:
    async def main() -> float:
        await asyncio.sleep(365 * 86400.0)
        return asyncio.get_running_loop().time()

    began = time.perf_counter()
    assert run(main()) == pytest.approx(365 * 86400.0)
    assert time.perf_counter() - began < 5.0


def test_timers_run_in_order_of_their_time() -> None:
    async def main() -> list[str]:
        seen: list[str] = []

        async def after(seconds: float, name: str) -> None:
            await asyncio.sleep(seconds)
            seen.append(f"{name} {asyncio.get_running_loop().time():g}")

        await asyncio.gather(after(3, "c"), after(1, "a"), after(2, "b"))
        return seen

    assert run(main()) == ["a 1", "b 2", "c 3"]


def test_work_takes_no_time() -> None:
    async def main() -> float:
        for _ in range(1000):
            await asyncio.sleep(0)
        return asyncio.get_running_loop().time()

    assert run(main()) == 0.0


def test_timeouts_are_virtual_too() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    assert run(main()) == 60.0


def test_waiting_for_what_never_happens_is_an_error() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(NothingLeft):
        run(main())


def test_there_are_neither_threads_nor_sockets() -> None:
    async def thread() -> None:
        await asyncio.to_thread(time.monotonic)

    async def read() -> None:
        one, other = socket.socketpair()
        with one, other:
            asyncio.get_running_loop().add_reader(one.fileno(), lambda: None)

    with pytest.raises(RuntimeError, match="no threads"):
        run(thread())
    with pytest.raises(RuntimeError, match="no sockets"):
        run(read())


def test_virtual_time_passes_while_another_loop_waits() -> None:
    async def hour() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    async def notebook() -> float:
        return run(hour())

    assert asyncio.run(notebook()) == pytest.approx(3600)


def test_whoever_interrupts_the_waiting_loop_ends_virtual_time() -> None:
    hours, ended = [], threading.Event()

    async def years() -> None:
        try:
            for hour in range(100_000):
                await asyncio.sleep(3600)
                hours.append(hour)
                if hour == 10:
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        finally:
            ended.set()

    async def notebook() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run(years())

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(notebook())
    assert ended.wait(10)
    assert len(hours) < 100_000


def test_errors_in_virtual_time_come_from_nothing_else() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken") as caught:
        run(fail())
    assert caught.value.__context__ is None


def test_a_run_leaves_no_cycles_behind() -> None:
    class Part:
        def __init__(self) -> None:
            self.whole = self

    async def story() -> weakref.ref[Part]:
        return weakref.ref(Part())

    assert run(story())() is None
