"""Storage drivers come and go: what the kubelet does with plugins of the kind CSIPlugin (csi_plugin.go, csi_node_updater.go)."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bayplan.csi.errors import CsiError
from bayplan.kubelet.csi.drivers import Drivers
from bayplan.kubelet.csi.node_info import CsiNodeInfo, NodeInfoError
from bayplan.kubelet.csi.objects import CsiObjects
from bayplan.kubelet.plugin_watcher import PluginRefused
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)

_VERSION: Final = re.compile(r"v?(\d+(?:\.\d+)+)$")
_LOOK_SECONDS: Final = 1.0


class CsiRegistration:
    """Takes drivers in. It is a PluginHandler."""

    def __init__(self, drivers: Drivers, node_info: CsiNodeInfo, objects: CsiObjects, clock: Clock) -> None:
        self._drivers = drivers
        self._node_info = node_info
        self._objects = objects
        self._clock = clock
        self._asked: dict[str, float] = {}

    def refusal(self, path: Path, name: str, endpoint: str, versions: tuple[str, ...]) -> str:
        """See PluginHandler."""
        try:
            self._checked_version(name, versions)
        except PluginRefused as error:
            return f"validation failed for CSI Driver {name} at endpoint {endpoint}: {error}"
        return ""

    async def register(self, name: str, endpoint: Path, versions: tuple[str, ...]) -> None:
        """See PluginHandler."""
        driver = await self._drivers.add(name, endpoint, self._checked_version(name, versions))
        try:
            await self._node_info.install(name, await driver.client.node_get_info())
        except (CsiError, NodeInfoError) as error:
            await self.deregister(name, endpoint)
            raise PluginRefused(str(error)) from error
        self._asked[name] = self._clock.monotonic()
        logger.info("storage driver %s is at %s", name, endpoint)

    async def deregister(self, name: str, endpoint: Path) -> None:
        """See PluginHandler."""
        await self._drivers.remove(name)
        self._asked.pop(name, None)
        try:
            await self._node_info.uninstall(name)
        except NodeInfoError as error:
            logger.error("storage driver %s: %s", name, error)

    def _checked_version(self, name: str, versions: Sequence[str]) -> tuple[int, ...]:
        """The newest version of a driver. Raises PluginRefused."""
        prefix = f"kubernetes.io/csi: RegisterPlugin for CSI driver {name!r} failed."
        if not versions:
            raise PluginRefused(f"{prefix} Plugin returned an empty list for supported versions")
        newest = newest_version(versions)
        if newest is None:
            shown = " ".join(f'"{each}"' for each in versions)
            raise PluginRefused(f"{prefix} None of the versions specified [{shown}] are supported")
        known = self._drivers.find(name)
        if known is not None and known.version >= newest:
            shown = ".".join(map(str, known.version))
            text = "Another driver with the same name is already registered with a higher supported version"
            raise PluginRefused(f"{prefix} {text}: {shown}")
        return newest

    async def run(self) -> None:
        """Have a CSINode of the node, and ask drivers again about the node whose CSIDriver says how often (nodeAllocatableUpdatePeriodSeconds), until cancelled."""
        while self._node_info.error:
            try:
                await self._node_info.ensure()
            except NodeInfoError as error:
                logger.warning("%s", error)
                await self._clock.sleep(_LOOK_SECONDS)
        while True:
            await self._clock.sleep(_LOOK_SECONDS)
            for driver in self._drivers:
                described = self._objects.driver(driver.name)
                period = described.spec.node_allocatable_update_period_seconds if described is not None else None
                now = self._clock.monotonic()
                if not period or now - self._asked.get(driver.name, now) < period:
                    continue
                await self.look_again(driver.name)

    async def look_again(self, name: str) -> None:
        """Ask a driver anew about the node, and have its CSINode say that. What fails is only logged."""
        driver = self._drivers.find(name)
        if driver is None:
            return
        self._asked[name] = self._clock.monotonic()
        try:
            await self._node_info.install(name, await driver.client.node_get_info())
        except (CsiError, NodeInfoError) as error:
            logger.warning("storage driver %s: %s", name, error)


def newest_version(versions: Sequence[str]) -> tuple[int, ...] | None:
    """The newest version that this kubelet knows: of 0.x and 1.x; None if there is none."""
    found = [tuple(map(int, match[1].split("."))) for each in versions if (match := _VERSION.match(each))]
    return max((each for each in found if each[0] <= 1), default=None)
