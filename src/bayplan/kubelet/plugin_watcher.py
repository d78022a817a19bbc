"""Finds plugins by their sockets in the registry of plugins (pkg/kubelet/pluginmanager): each tells its kind, name and versions, and is told whether it is taken.

What is done with a plugin is the business of the handler of its kind: device plugins, storage drivers, drivers of dynamic resources. The directory is looked at
every second.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from bayplan.csi.messages import Empty, PluginInfo, RegistrationStatus
from bayplan.csi.registration import GET_INFO, NOTIFY
from bayplan.kubelet.errors import KubeletError
from bayplan.support.clock import Clock
from bayplan.support.grpc.calls import Connection
from bayplan.support.grpc.errors import RpcError

logger = logging.getLogger(__name__)

_PERIOD_SECONDS: Final = 1.0
_DIAL_SECONDS, _INFO_SECONDS, _NOTIFY_SECONDS = 10.0, 1.0, 5.0
_FIRST_DELAY, _LONGEST_DELAY = 0.5, 122.0


class PluginRefused(KubeletError):
    """A plugin cannot be taken; the text is told to it."""


class PluginHandler(Protocol):
    """What is done with the plugins of a kind."""

    def refusal(self, path: Path, name: str, endpoint: str, versions: tuple[str, ...]) -> str:
        """Why a plugin is not taken; empty if it is."""

    async def register(self, name: str, endpoint: Path, versions: tuple[str, ...]) -> None:
        """Take a plugin that listens at `endpoint`. Raises PluginRefused."""

    async def deregister(self, name: str, endpoint: Path) -> None:
        """A plugin that listened at `endpoint` has gone."""


@dataclass(slots=True)
class _Seen:
    """A socket: which file it is, the kind, name and endpoint of its plugin once it is taken, and when it is tried again otherwise."""

    file: tuple[int, int, int]
    plugin: tuple[str, str, Path] | None = None
    delay: float = 0.0
    retry_at: float = 0.0


class PluginWatcher:
    """See the module. handlers: by the kinds of plugins."""

    def __init__(self, directory: Path, handlers: Mapping[str, PluginHandler], clock: Clock) -> None:
        self._directory = directory
        self._handlers = handlers
        self._clock = clock
        self._seen: dict[Path, _Seen] = {}

    async def run(self) -> None:
        """Look every second, until cancelled. Raises OSError where there can be no directory."""
        self._directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        while True:
            await self.look()
            await self._clock.sleep(_PERIOD_SECONDS)

    async def look(self) -> None:
        """Take what has come, and leave what has gone."""
        sockets = find_sockets(self._directory)
        for path, seen in list(self._seen.items()):
            if sockets.get(path) != seen.file:
                del self._seen[path]
                if seen.plugin is not None:
                    kind, name, endpoint = seen.plugin
                    await self._handlers[kind].deregister(name, endpoint)
        for path, file in sockets.items():
            self._seen.setdefault(path, _Seen(file))
        now = self._clock.monotonic()
        due = [(path, seen) for path, seen in self._seen.items() if seen.plugin is None and now >= seen.retry_at]
        await asyncio.gather(*(self._try(path, seen) for path, seen in due))

    async def _try(self, path: Path, seen: _Seen) -> None:
        connection = Connection(path)
        try:
            seen.plugin = await self._take(path, connection)
        except (PluginRefused, RpcError) as error:
            seen.delay = min(seen.delay * 2 or _FIRST_DELAY, _LONGEST_DELAY)
            seen.retry_at = self._clock.monotonic() + seen.delay
            logger.warning("RegisterPlugin error -- %s: %s", path, error)
        finally:
            await connection.close()

    async def _take(self, path: Path, connection: Connection) -> tuple[str, str, Path]:
        """The kind, name and endpoint of the plugin at a socket. Raises PluginRefused, RpcError."""
        await connection.ready(_DIAL_SECONDS)
        info: PluginInfo = await connection.call(GET_INFO, Empty(), PluginInfo, _INFO_SECONDS)
        handler = self._handlers.get(info.type)
        endpoint = Path(info.endpoint.removeprefix("unix://") or path)
        error = await self._refusal(path, handler, info, endpoint)
        try:
            await connection.call(NOTIFY, RegistrationStatus(not error, error), Empty, _NOTIFY_SECONDS)
        except RpcError:
            if handler is not None and not error:
                await handler.deregister(info.name, endpoint)
            raise
        if error:
            raise PluginRefused(error)
        return info.type, info.name, endpoint

    async def _refusal(self, path: Path, handler: PluginHandler | None, info: PluginInfo, endpoint: Path) -> str:
        """Take a plugin, or say why not."""
        begin = "RegisterPlugin error --"
        if handler is None:
            return f"{begin} no handler registered for plugin type: {info.type} at socket {path}"
        versions = tuple(info.supported_versions)
        refused = handler.refusal(path, info.name, info.endpoint, versions)
        if refused:
            return f"{begin} plugin validation failed with err: {refused}"
        try:
            await handler.register(info.name, endpoint, versions)
        except PluginRefused as error:
            return f"{begin} plugin registration failed with err: {error}"
        return ""


def find_sockets(directory: Path) -> dict[Path, tuple[int, int, int]]:
    """The sockets in a directory and below, with what tells one file of a name from the next: device, inode, time."""
    found = {}
    for root, directories, names in os.walk(directory):
        directories[:] = sorted(each for each in directories if not each.startswith("."))
        for name in sorted(names):
            path = Path(root, name)
            try:
                status = path.lstat()
            except FileNotFoundError:
                continue
            if not name.startswith(".") and stat.S_ISSOCK(status.st_mode):
                found[path] = (status.st_dev, status.st_ino, status.st_ctime_ns)
    return found
