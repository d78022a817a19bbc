"""Registration of a driver with a kubelet (pluginregistration v1): a socket in `plugins_registry/` that says who the driver is and where it listens.

The kubelet calls GetInfo, takes the driver, and tells the result by NotifyRegistrationStatus. Drivers that have this need no node-driver-registrar beside them.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from bayplan.csi.messages import Empty, PluginInfo, RegistrationStatus
from bayplan.support.grpc.calls import SocketServer

logger = logging.getLogger(__name__)

KIND: Final = "CSIPlugin"
VERSIONS: Final = ("1.0.0",)
"""What node-driver-registrar says of every driver of CSI 1.x."""
GET_INFO: Final = "/pluginregistration.Registration/GetInfo"
NOTIFY: Final = "/pluginregistration.Registration/NotifyRegistrationStatus"


def registration_socket(registry: Path, driver: str) -> Path:
    """Where a driver's registration listens."""
    return registry / f"{driver}-reg.sock"


class RegistrationServer:
    """Offers a driver to the kubelet that looks at the directory `registry`. endpoint: the driver's own socket, as the kubelet sees it."""

    def __init__(self, registry: Path, driver: str, endpoint: Path) -> None:
        self._info = PluginInfo(KIND, driver, str(endpoint), VERSIONS)
        self._server = SocketServer(
            registration_socket(registry, driver),
            {GET_INFO: (Empty, self._get_info), NOTIFY: (RegistrationStatus, self._notify)},
        )
        self._told = asyncio.Event()
        self.status: RegistrationStatus | None = None
        """What the kubelet said last; None until it has."""

    async def start(self) -> None:
        """Listen. Raises OSError."""
        await self._server.start()

    async def stop(self) -> None:
        """Remove the socket, by which the kubelet sees that the driver has gone."""
        await self._server.stop()

    async def wait(self) -> RegistrationStatus:
        """What the kubelet said, once it has said something."""
        await self._told.wait()
        assert self.status is not None
        return self.status

    async def _get_info(self, request: Empty) -> PluginInfo:
        return self._info

    async def _notify(self, status: RegistrationStatus) -> Empty:
        self.status = status
        self._told.set()
        if status.plugin_registered:
            logger.info("the kubelet has registered %s", self._info.name)
        else:
            logger.warning("the kubelet refused %s: %s", self._info.name, status.error)
        return Empty()
