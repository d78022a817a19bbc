"""The local driver at its socket, and its registration with the kubelet of the node."""

from __future__ import annotations

import os

from bayplan.csi.registration import RegistrationServer
from bayplan.csi.server import csi_server
from bayplan.csi_local.driver import LocalDriver
from bayplan.csi_local.errors import LocalDriverError
from bayplan.csi_local.loop_devices import LoopDevices
from bayplan.csi_local.settings import LocalDriverSettings
from bayplan.csi_local.volumes import LocalVolumes
from bayplan.support.blocking import Blocking
from bayplan.support.clock import Clock
from bayplan.support.grpc.calls import LONGEST_SOCKET
from bayplan.support.randomness import Randomness
from bayplan.support.running import Service
from bayplan.support.system.mounts import SystemMounter


class LocalDriverService(Service):
    """The driver while it listens: from `start` on, which finishes what an earlier driver has left."""

    def __init__(
        self, settings: LocalDriverSettings, *, clock: Clock, randomness: Randomness, blocking: Blocking
    ) -> None:
        mounter = SystemMounter(blocking)
        self._volumes = LocalVolumes(
            settings.data_dir, LoopDevices(), mounter, blocking=blocking, randomness=randomness
        )
        self._driver = LocalDriver(settings, self._volumes, clock)
        self._server = csi_server(settings.endpoint, self._driver.handlers)
        self._endpoint = settings.endpoint
        self.registration: RegistrationServer | None = None
        """What tells the kubelet; None if it is not to be told."""
        if settings.registry is not None:
            seen = settings.endpoint_seen_by_kubelet or settings.endpoint
            self.registration = RegistrationServer(settings.registry, settings.name, seen)

    async def start(self) -> None:
        """Listen. Raises LocalDriverError; then `stop` it."""
        if (
            len(os.fsencode(self._endpoint)) > LONGEST_SOCKET
        ):  # Bayplan could listen, but other programs could not connect
            raise LocalDriverError(f"--endpoint: {self._endpoint} is longer than {LONGEST_SOCKET} bytes")
        await self._volumes.open()
        try:
            await self._server.start()
            if self.registration is not None:
                await self.registration.start()
        except OSError as error:
            raise LocalDriverError(f"cannot listen: {error}; choose another --endpoint or --plugin-registry") from error

    async def stop(self) -> None:
        """Listen no longer, and return when all that was started is done."""
        if self.registration is not None:
            await self.registration.stop()
        await self._server.stop()
        await self._driver.operations.drain()
