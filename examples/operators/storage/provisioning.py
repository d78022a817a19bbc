"""The controller service of the CSI driver: a volume is a ReplicatedVolume, whose replicas the operator places."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from bayplan.api.errors import ApiError
from bayplan.csi import messages as csi
from bayplan.csi.errors import DriverError, InvalidArgument

from .objects import DRIVER, GROUP, VOLUMES, Api, path, volume_from

_C = csi.ControllerCapability
_SMALLEST: Final = 16 << 20
_BLOCK: Final = 4096
_WRITERS: Final = (
    csi.Access.SINGLE_NODE_WRITER,
    csi.Access.SINGLE_NODE_SINGLE_WRITER,
    csi.Access.SINGLE_NODE_MULTI_WRITER,
)
_PLACED_SECONDS: Final = 8.0
"""How long CreateVolume waits for replicas to be placed; it is called again."""

logger = logging.getLogger(__name__)


class IdentityService:
    """Who the driver is."""

    def __init__(self, *, with_controller: bool) -> None:
        self._services = (csi.PluginService.CONTROLLER_SERVICE,) if with_controller else ()

    async def get_plugin_info(self, request: csi.Empty) -> csi.GetPluginInfoResponse:
        """Name and version."""
        return csi.GetPluginInfoResponse(DRIVER, "1")

    async def get_plugin_capabilities(self, request: csi.Empty) -> csi.GetPluginCapabilitiesResponse:
        """Volumes can be used on every node."""
        offers = tuple(csi.PluginCapability(service=csi.Enumerated(one)) for one in self._services)
        return csi.GetPluginCapabilitiesResponse(offers)

    async def probe(self, request: csi.Empty) -> csi.ProbeResponse:
        """The driver listens when it is ready."""
        return csi.ProbeResponse(True)


class ControllerService:
    """See the module."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def controller_get_capabilities(self, request: csi.Empty) -> csi.CapabilitiesResponse:
        """Volumes are made and deleted."""
        return csi.CapabilitiesResponse((csi.RpcCapability(csi.Enumerated(_C.CREATE_DELETE_VOLUME)),))

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.VolumeResponse:
        """Make the object, and wait until its replicas have places."""
        check_capabilities(request.volume_capabilities)
        if request.volume_content_source is not None:
            raise InvalidArgument("volumes are not made of snapshots or of other volumes")
        size = size_for(request.capacity_range)
        spec = {"size": size, **numbers_of(dict(request.parameters))}
        tree = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "ReplicatedVolume",
            "metadata": {"name": request.name},
            "spec": spec,
        }
        try:
            await self._api.create(path(VOLUMES), tree)
        except ApiError as error:
            if error.code != 409:
                raise DriverError(str(error), "INTERNAL") from error
        for _ in range(int(_PLACED_SECONDS * 4)):
            volume = volume_from(await self._api.get(path(VOLUMES, request.name)))
            if volume.size != size:
                raise DriverError(f"{request.name} exists with {volume.size} bytes", "ALREADY_EXISTS")
            if volume.placement:
                return csi.VolumeResponse(csi.Volume(size, request.name))
            await asyncio.sleep(0.25)
        raise DriverError(f"no {volume.replicas} nodes have {size} bytes free for {request.name}", "RESOURCE_EXHAUSTED")

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.Empty:
        """Delete the object; the agents remove the replicas."""
        try:
            volume, _ = await self._api.volume(request.volume_id)
            if volume.holder and volume.holder in await self._api.nodes():
                raise DriverError(f"{volume.name} is in use on {volume.holder}", "FAILED_PRECONDITION")
            await self._api.delete(path(VOLUMES, request.volume_id))
        except ApiError as error:
            if error.code != 404:
                raise DriverError(str(error), "INTERNAL") from error
        return csi.Empty()

    async def validate_volume_capabilities(
        self, request: csi.ValidateVolumeCapabilitiesRequest
    ) -> csi.ValidateVolumeCapabilitiesResponse:
        """Say whether a volume can be used so."""
        try:
            check_capabilities(request.volume_capabilities)
        except InvalidArgument as error:
            return csi.ValidateVolumeCapabilitiesResponse(message=str(error))
        confirmed = csi.Confirmed(request.volume_context, request.volume_capabilities, request.parameters)
        return csi.ValidateVolumeCapabilitiesResponse(confirmed)


def check_capabilities(wanted: tuple[csi.VolumeCapability, ...]) -> None:
    """Raises InvalidArgument for other uses than as an ext4 file system of one node."""
    for one in wanted:
        if one.mount is None or one.mount.fs_type not in ("", "ext4"):
            raise InvalidArgument("volumes are file systems of type ext4")
        if one.access_mode is None or one.access_mode.mode not in _WRITERS:
            raise InvalidArgument("volumes are used on one node at a time (ReadWriteOnce, ReadWriteOncePod)")


def size_for(wanted: csi.CapacityRange | None) -> int:
    """The size of a volume, in whole blocks. Raises DriverError for a limit that is too low."""
    size = max(wanted.required_bytes if wanted is not None else 0, _SMALLEST)
    size = -(-size // _BLOCK) * _BLOCK
    if wanted is not None and 0 < wanted.limit_bytes < size:
        raise DriverError(f"the smallest volume has {size} bytes", "OUT_OF_RANGE")
    return size


def numbers_of(parameters: dict[str, str]) -> dict[str, int]:
    """`replicas` and `minInSync` of a StorageClass. Raises InvalidArgument."""
    own = {name: text for name, text in parameters.items() if not name.startswith("csi.storage.k8s.io/")}
    if set(own) - {"replicas", "minInSync"} or not all(text.isdecimal() for text in own.values()):
        raise InvalidArgument(f"parameters are replicas and minInSync, with numbers; not {own}")
    replicas, least = int(own.get("replicas", "2")), int(own.get("minInSync", "1"))
    if not 1 <= least <= replicas <= 3:
        raise InvalidArgument("1 <= minInSync <= replicas <= 3 does not hold")
    return {"replicas": replicas, "minInSync": least}
