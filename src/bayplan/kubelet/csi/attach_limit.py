"""Whether a node has no place for a volume any more, by what its driver's controller said when it was to be attached (VerifyExhaustedResource in csi_plugin.go)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from bayplan.kubelet.csi.objects import CsiObjects
from bayplan.kubelet.volumes.interface import VolumeSpec

_RESOURCE_EXHAUSTED: Final = 8
"""gRPC's number of the code RESOURCE_EXHAUSTED."""


class AttachLimits:
    """Concerns drivers whose limits change: those with nodeAllocatableUpdatePeriodSeconds. look_again: asks a driver how many volumes the node can have now."""

    def __init__(self, objects: CsiObjects, look_again: Callable[[str], Awaitable[None]]) -> None:
        self._objects = objects
        self._look_again = look_again

    async def has_reached(self, spec: VolumeSpec) -> bool:
        """Whether a volume could not be attached for that reason. If so, the CSINode is up to date when this returns."""
        source = spec.persistent_volume.spec.csi if spec.persistent_volume is not None else None
        described = self._objects.driver(source.driver) if source is not None else None
        if source is None or described is None or not described.spec.node_allocatable_update_period_seconds:
            return False
        error = await self._objects.attach_error(source.driver, source.volume_handle)
        if error is None or error.error_code != _RESOURCE_EXHAUSTED:
            return False
        await self._look_again(source.driver)
        return True
