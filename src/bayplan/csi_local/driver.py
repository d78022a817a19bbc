"""The local driver: who it is, and the handlers of all its calls."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from bayplan import __version__
from bayplan.csi import messages as csi
from bayplan.csi.errors import DriverError
from bayplan.csi.server import Handler, handlers
from bayplan.csi_local.controller import ControllerService
from bayplan.csi_local.node import NodeService
from bayplan.csi_local.operations import Operations
from bayplan.csi_local.settings import LocalDriverSettings
from bayplan.csi_local.volumes import LocalVolumes
from bayplan.support.clock import Clock
from bayplan.support.grpc.errors import RefusedError
from bayplan.support.system.mounts import MountError
from bayplan.support.system.programs import ProgramError

logger = logging.getLogger(__name__)


class IdentityService:
    """Who the driver is."""

    def __init__(self, settings: LocalDriverSettings) -> None:
        self._settings = settings

    async def get_plugin_info(self, request: csi.Empty) -> csi.GetPluginInfoResponse:
        """Name and version."""
        return csi.GetPluginInfoResponse(self._settings.name, __version__)

    async def get_plugin_capabilities(self, request: csi.Empty) -> csi.GetPluginCapabilitiesResponse:
        """Volumes are made here, usable on this node only, and grow while they are used."""
        services = (csi.PluginService.CONTROLLER_SERVICE, csi.PluginService.VOLUME_ACCESSIBILITY_CONSTRAINTS)
        offers = [csi.PluginCapability(service=csi.Enumerated(one)) for one in services]
        offers.append(csi.PluginCapability(volume_expansion=csi.Enumerated(csi.Expansion.ONLINE)))
        return csi.GetPluginCapabilitiesResponse(tuple(offers))

    async def probe(self, request: csi.Empty) -> csi.ProbeResponse:
        """The driver listens when it is ready, and not before."""
        return csi.ProbeResponse(True)


class LocalDriver:
    """All services over one directory of volumes."""

    def __init__(self, settings: LocalDriverSettings, volumes: LocalVolumes, clock: Clock) -> None:
        self.operations = Operations()
        controller = ControllerService(settings, volumes, self.operations, clock)
        node = NodeService(settings, volumes, controller, self.operations)
        found = {**handlers(IdentityService(settings)), **handlers(controller), **handlers(node)}
        self.handlers: Mapping[str, Handler] = {name: partial(_answer, name, one) for name, one in found.items()}


async def _answer(name: str, handler: Handler, request: Any) -> Any:
    """What fails on the machine becomes an error for the client, whose text names it. Requests are not logged: they have secrets."""
    try:
        return await handler(request)
    except RefusedError as error:
        logger.info("%s refused (%s): %s", name, error.code, error)
        raise
    except (ProgramError, MountError, OSError) as error:
        logger.warning("%s failed: %s", name, error)
        raise DriverError(f"{name}: {error}", "INTERNAL") from error
