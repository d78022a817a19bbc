"""Finds plugins by their sockets in the registry of plugins (pkg/kubelet/pluginmanager): each tells its kind, name and versions, and is told whether it is taken.

Device plugins are taken; others (storage, dynamic resources) are told that nobody is there for them. The directory is looked at every second.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bayplan.api.validation.resources import is_extended
from bayplan.kubelet.resource_managers.errors import PluginError
from bayplan.kubelet.resource_managers.plugin_messages import DISCOVERY, REGISTRATION, VERSION
from bayplan.kubelet.resource_managers.plugin_server import PluginServer
from bayplan.support.clock import Clock
from bayplan.support.rpc import Connection
from bayplan.support.rpc_errors import RpcError

logger = logging.getLogger(__name__)

KIND: Final = "DevicePlugin"
_PERIOD_SECONDS, _DIAL_SECONDS, _INFO_SECONDS, _NOTIFY_SECONDS = 1.0, 10.0, 1.0, 5.0
_FIRST_DELAY, _LONGEST_DELAY = 0.5, 122.0


@dataclass(slots=True)
class _Seen:
    """A socket: which file it is, the resource of its plugin once it is taken, and when it is tried again otherwise."""

    file: tuple[int, int, int]
    resource: str = ""
    delay: float = 0.0
    retry_at: float = 0.0


class PluginWatcher:
    """See the module."""

    def __init__(self, directory: Path, plugins: PluginServer, clock: Clock) -> None:
        self._directory = directory
        self._plugins = plugins
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
                if seen.resource:
                    await self._plugins.leave(seen.resource)
        for path, file in sockets.items():
            self._seen.setdefault(path, _Seen(file))
        now = self._clock.monotonic()
        due = [(path, seen) for path, seen in self._seen.items() if not seen.resource and now >= seen.retry_at]
        await asyncio.gather(*(self._try(path, seen) for path, seen in due))

    async def _try(self, path: Path, seen: _Seen) -> None:
        connection = Connection(path)
        try:
            seen.resource = await self._take(path, connection)
        except (PluginError, RpcError) as error:
            seen.delay = min(seen.delay * 2 or _FIRST_DELAY, _LONGEST_DELAY)
            seen.retry_at = self._clock.monotonic() + seen.delay
            logger.warning("RegisterPlugin error -- %s: %s", path, error)
        finally:
            await connection.close()

    async def _take(self, path: Path, connection: Connection) -> str:
        """The resource of the plugin at a socket. Raises PluginError, RpcError."""
        await connection.ready(_DIAL_SECONDS)
        info = await connection.call(
            f"{REGISTRATION}GetInfo", DISCOVERY["InfoRequest"](), DISCOVERY["PluginInfo"], _INFO_SECONDS
        )
        error = refusal(path, info.type, info.name, tuple(info.supported_versions))
        if not error:
            try:
                await self._plugins.connect(info.name, Path(info.endpoint or path))
            except PluginError as failure:
                error = f"RegisterPlugin error -- plugin registration failed with err: {failure}"
        try:
            await self._notify(connection, error)
        except RpcError:
            if not error:
                await self._plugins.leave(info.name)
            raise
        if error:
            raise PluginError(error)
        resource: str = info.name
        return resource

    async def _notify(self, connection: Connection, error: str) -> Any:
        status = DISCOVERY["RegistrationStatus"](plugin_registered=not error, error=error)
        return await connection.call(
            f"{REGISTRATION}NotifyRegistrationStatus", status, DISCOVERY["RegistrationStatusResponse"], _NOTIFY_SECONDS
        )


def refusal(path: Path, kind: str, name: str, versions: tuple[str, ...]) -> str:
    """Why a plugin is not taken; empty if it is."""
    if kind != KIND:
        return f"RegisterPlugin error -- no handler registered for plugin type: {kind} at socket {path}"
    begin = "RegisterPlugin error -- plugin validation failed with err:"
    if VERSION not in versions:
        shown = " ".join(versions)
        return f"{begin} manager version, {VERSION}, is not among plugin supported versions [{shown}]"
    if not is_extended(name):
        return f'{begin} invalid name of device plugin socket: the ResourceName "{name}" is invalid'
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
