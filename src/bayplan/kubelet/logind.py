"""systemd-logind over D-Bus: delays shutdowns of the machine, and hears of them (org.freedesktop.login1.Manager)."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayplan.kubelet.node_shutdown import ShutdownError

if TYPE_CHECKING:
    from dbus_fast import Message
    from dbus_fast.aio import MessageBus

logger = logging.getLogger(__name__)

_SERVICE, _PATH, _MANAGER = "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager"
_SYSTEMD, _SYSTEMD_PATH = "org.freedesktop.systemd1", "/org/freedesktop/systemd1"
_BUS, _BUS_PATH = "org.freedesktop.DBus", "/org/freedesktop/DBus"
_SIGNAL = "PrepareForShutdown"
SETTINGS = Path("/etc/systemd/logind.conf.d/99-kubelet.conf")
ANSWER_SECONDS = 10.0
_SIGHUP = 1


class Logind:
    """An `Inhibitor`. Made by `connect_to_logind`."""

    def __init__(self, bus: MessageBus, settings: Path) -> None:
        self._bus = bus
        self._settings = settings
        self._heard: asyncio.Queue[bool | None] = asyncio.Queue()
        self._ended = asyncio.create_task(self._wait_for_end())

    async def longest_delay(self) -> float:
        """See Inhibitor."""
        properties = "org.freedesktop.DBus.Properties"
        reply = await self._call(
            _SERVICE, _PATH, properties, "Get", "ss", _MANAGER, "InhibitDelayMaxUSec", what="read InhibitDelayMaxUSec"
        )
        delay: int = reply.body[0].value
        return delay / 1e6

    async def set_longest_delay(self, seconds: float) -> None:
        """See Inhibitor: as a file of settings that logind is told to read again."""
        try:
            self._settings.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._settings.write_text(f"# Kubelet logind override\n[Login]\nInhibitDelayMaxSec={seconds:.0f}\n")
        except OSError as error:
            raise ShutdownError(f"cannot write {self._settings}: {error}") from error
        unit = ("systemd-logind.service", "all", _SIGHUP)
        manager = "org.freedesktop.systemd1.Manager"
        await self._call(_SYSTEMD, _SYSTEMD_PATH, manager, "KillUnit", "ssi", *unit, what="reload logind")

    async def delay(self) -> Callable[[], None]:
        """See Inhibitor: logind waits for the end of a file descriptor."""
        words = ("shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay")
        reply = await self._call(_SERVICE, _PATH, _MANAGER, "Inhibit", "ssss", *words, what="delay shutdowns")
        descriptor: int = reply.unix_fds[reply.body[0]]
        return lambda: os.close(descriptor)

    async def announcements(self) -> AsyncIterator[bool]:
        """See Inhibitor."""
        while (heard := await self._heard.get()) is not None:
            yield heard

    async def close(self) -> None:
        """See Inhibitor."""
        self._bus.disconnect()
        await self._ended

    async def listen(self) -> None:
        """Hear announcements from now on. Raises ShutdownError."""
        self._bus.add_message_handler(self._hear)
        rule = f"type='signal',interface='{_MANAGER}',member='{_SIGNAL}',path='{_PATH}'"
        await self._call(_BUS, _BUS_PATH, _BUS, "AddMatch", "s", rule, what="watch for shutdowns")

    async def _wait_for_end(self) -> None:
        try:
            await self._bus.wait_for_disconnect()  # type: ignore[no-untyped-call]
        except (OSError, EOFError) as error:
            logger.warning("the system bus is lost: %s", error)
        self._heard.put_nowait(None)

    def _hear(self, message: Message) -> None:
        if message.interface == _MANAGER and message.member == _SIGNAL and message.signature == "b":
            self._heard.put_nowait(message.body[0])

    async def _call(
        self, service: str, path: str, interface: str, member: str, signature: str, *body: Any, what: str
    ) -> Message:
        from dbus_fast import DBusError, Message, MessageType

        message = Message(service, path, interface, member, signature=signature, body=list(body))
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reply = await self._bus.call(message)
        except (DBusError, OSError, EOFError, TimeoutError) as error:
            raise ShutdownError(f"cannot {what}: {str(error) or 'no answer'}") from error
        if reply is None or reply.message_type is MessageType.ERROR:
            raise ShutdownError(f"cannot {what}: {reply.body[0] if reply is not None and reply.body else 'no answer'}")
        return reply


async def connect_to_logind(settings: Path = SETTINGS) -> Logind:
    """logind of this machine, whose bus is where $DBUS_SYSTEM_BUS_ADDRESS says. Raises ShutdownError."""
    try:
        from dbus_fast import AuthError, BusType, DBusError, InvalidAddressError
        from dbus_fast.aio import MessageBus
    except ImportError as error:
        raise ShutdownError("the package dbus-fast is missing: pip install 'bayplan[kubelet]'") from error
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            bus = await MessageBus(bus_type=BusType.SYSTEM, negotiate_unix_fd=True).connect()
    except (AuthError, DBusError, InvalidAddressError, OSError, TimeoutError) as error:
        raise ShutdownError(f"cannot reach the system bus: {error}") from error
    logind = Logind(bus, settings)
    try:
        await logind.listen()
    except ShutdownError:
        await logind.close()
        raise
    return logind
