"""logind over a bus of the test's own, with a logind of its own on it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from dbus_fast import Message, MessageType, Variant
from dbus_fast.aio import MessageBus

from bayplan.kubelet.logind import connect_to_logind
from bayplan.kubelet.node_shutdown import ShutdownError

PATH, MANAGER = "/org/freedesktop/login1", "org.freedesktop.login1.Manager"

pytestmark = pytest.mark.skipif(shutil.which("dbus-daemon") is None, reason="needs dbus-daemon")


class FakeLogind:
    """Answers as systemd-logind and systemd do. `settings`: where it reads its delay from when it is told to."""

    def __init__(self, bus: MessageBus, settings: Path) -> None:
        self._bus = bus
        self._settings = settings
        self.delay = 5_000_000
        self.inhibited: list[list[str]] = []
        self.locks: list[int] = []
        """Our ends of the pipes whose other ends are the locks."""
        self.refuses = ""

    async def serve(self) -> None:
        """Take both names on the bus."""
        self._bus.add_message_handler(self._answer)
        for name in ("org.freedesktop.login1", "org.freedesktop.systemd1"):
            await self._bus.request_name(name)

    async def announce(self, is_going_down: bool) -> None:
        """Tell everybody of a shutdown, or of its end."""
        await self._bus.send(Message.new_signal(PATH, MANAGER, "PrepareForShutdown", "b", [is_going_down]))

    def is_held(self) -> bool:
        """Whether somebody holds the last lock."""
        os.set_blocking(self.locks[-1], False)
        try:
            return os.read(self.locks[-1], 1) != b""
        except BlockingIOError:
            return True

    def _answer(self, message: Message) -> Message | bool | None:
        if message.message_type is not MessageType.METHOD_CALL:
            return None
        if message.member == self.refuses:
            return Message.new_error(message, "org.freedesktop.DBus.Error.AccessDenied", "Access denied")
        if message.member == "Get" and message.body == [MANAGER, "InhibitDelayMaxUSec"]:
            return Message.new_method_return(message, "v", [Variant("t", self.delay)])
        if message.member == "Inhibit":
            ours, theirs = os.pipe()
            self.inhibited.append(message.body)
            self.locks.append(ours)
            reply = Message.new_method_return(message, "h", [0], [theirs])
            asyncio.get_running_loop().call_later(0.2, os.close, theirs)  # when it has been sent
            return reply
        if message.member == "KillUnit" and message.body == ["systemd-logind.service", "all", 1]:
            self.delay = 1_000_000 * int(self._settings.read_text().partition("InhibitDelayMaxSec=")[2])
            return Message.new_method_return(message)
        return None


@contextlib.asynccontextmanager
async def bus_daemon() -> AsyncIterator[str]:
    """The address of a bus that ends with the block."""
    process = await asyncio.create_subprocess_exec(
        "dbus-daemon", "--session", "--nofork", "--nopidfile", "--print-address=1", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield (await asyncio.wait_for(process.stdout.readline(), 10)).decode().strip()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def play(
    monkeypatch: pytest.MonkeyPatch, settings: Path, case: Callable[[FakeLogind], Coroutine[Any, Any, None]]
) -> None:
    async def main() -> None:
        async with bus_daemon() as address:
            monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
            bus = await MessageBus(bus_address=address, negotiate_unix_fd=True).connect()
            logind = FakeLogind(bus, settings)
            await logind.serve()
            try:
                await case(logind)
            finally:
                bus.disconnect()
                for lock in logind.locks:
                    os.close(lock)

    asyncio.run(main())


def test_a_shutdown_is_delayed_until_the_lock_is_released(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def case(logind: FakeLogind) -> None:
        inhibitor = await connect_to_logind(tmp_path / "logind.conf")
        release = await inhibitor.delay()
        await asyncio.sleep(0.3)
        assert logind.inhibited == [["shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay"]]
        assert logind.is_held()
        release()
        assert not logind.is_held()
        await inhibitor.close()

    play(monkeypatch, tmp_path / "logind.conf", case)


def test_announcements_are_heard_until_the_bus_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def case(logind: FakeLogind) -> None:
        inhibitor = await connect_to_logind(tmp_path / "logind.conf")
        heard = []
        for each in (True, False):
            await logind.announce(each)
        async for is_going_down in inhibitor.announcements():
            heard.append(is_going_down)
            if len(heard) == 2:
                await inhibitor.close()
        assert heard == [True, False]

    play(monkeypatch, tmp_path / "logind.conf", case)


def test_a_longer_delay_is_asked_for_in_a_file_of_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = tmp_path / "logind.conf.d" / "99-kubelet.conf"

    async def case(logind: FakeLogind) -> None:
        inhibitor = await connect_to_logind(settings)
        assert await inhibitor.longest_delay() == 5
        await inhibitor.set_longest_delay(90)
        assert await inhibitor.longest_delay() == 90
        assert settings.read_text() == "# Kubelet logind override\n[Login]\nInhibitDelayMaxSec=90\n"
        await inhibitor.close()

    play(monkeypatch, settings, case)


def test_what_logind_refuses_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def case(logind: FakeLogind) -> None:
        logind.refuses = "Inhibit"
        inhibitor = await connect_to_logind(tmp_path / "logind.conf")
        with pytest.raises(ShutdownError, match=r"^cannot delay shutdowns: Access denied$"):
            await inhibitor.delay()
        await inhibitor.close()

    play(monkeypatch, tmp_path / "logind.conf", case)


def test_a_machine_without_a_bus_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path / 'none'}")
    with pytest.raises(ShutdownError, match=r"^cannot reach the system bus: "):
        asyncio.run(connect_to_logind(tmp_path / "logind.conf"))
