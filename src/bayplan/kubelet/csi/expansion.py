"""The node's part of making a volume larger (operationexecutor/node_expander.go): the driver is asked, and the claim's status says how that went."""

from __future__ import annotations

import logging
from pathlib import Path

from bayplan.api.quantity import Quantity, parse
from bayplan.api.types import core_v1
from bayplan.csi import messages as csi
from bayplan.csi.errors import CsiError
from bayplan.kubelet.core.volume_sizes import (
    FAILURE,
    IN_PROGRESS,
    STORAGE,
    SUCCESS,
    failed,
    finished,
    is_other_size_requested,
    shared_size,
    wanted_size,
)
from bayplan.kubelet.csi.drivers import Driver
from bayplan.kubelet.csi.objects import CsiObjects
from bayplan.kubelet.csi.requests import Source, capability
from bayplan.kubelet.volumes.errors import SetUpError
from bayplan.kubelet.volumes.interface import SetUp
from bayplan.support.timestamps import rfc3339

logger = logging.getLogger(__name__)


class Expansion:
    """See the module. What was refused is not tried again at the same size, as long as the volume stays where it is."""

    def __init__(self, objects: CsiObjects) -> None:
        self._objects = objects
        self._refused: dict[str, Quantity] = {}
        self._failed_finally: set[str] = set()
        """Volumes whose last expansion ended with an error after which nothing goes on in the driver."""
        self._sizes: dict[str, Quantity] = {}
        """What this node has brought volumes to, as far as it knows: at first, what their claims said when they came."""

    def forget_size(self, key: str) -> None:
        """A volume has left the node."""
        self._sizes.pop(key, None)

    def forget(self, key: str) -> None:
        """A volume was taken from a pod: what it refused while it was in use may work the next time."""
        self._refused.pop(key, None)
        self._failed_finally.discard(key)

    async def expand(self, context: SetUp, driver: Driver, source: Source, volume_path: Path, staging: Path) -> None:
        """Make a published volume as large as it is to be, where that is not done. Raises SetUpError."""
        persistent = context.spec.persistent_volume
        if persistent is None:
            return
        persistent = await self._objects.persistent_volume(persistent.metadata.name)
        claim = await self._objects.claim_of(persistent)
        if claim is None:
            return
        known = self._sizes.setdefault(source.key, parse(claim.status.capacity.get(STORAGE, "0")))
        wanted, is_elsewhere_done = wanted_size(persistent, claim), False
        if wanted is None:
            wanted, is_elsewhere_done = shared_size(persistent, claim, known), True
        if wanted is None or self._refused.get(source.key) == wanted:
            return
        if source.read_only:
            self._event(context, "Warning", FAILURE, "failed", " requested read-only file system")
            self._refused[source.key] = wanted
            return
        if not await self._offers(driver):
            return
        if not is_elsewhere_done:
            claim = await self._objects.patch_claim_status(claim, {"allocatedResourceStatuses": {STORAGE: IN_PROGRESS}})
        try:
            await self._ask(context, driver, source, volume_path, staging, wanted)
        except CsiError as error:
            if not (is_elsewhere_done and error.code == "UNIMPLEMENTED"):
                await self._failed(context, claim, error, wanted, source)
                return
        self.forget(source.key)
        self._sizes[source.key] = wanted
        self._event(context, "Normal", SUCCESS, "succeeded", "")
        if not is_elsewhere_done:
            await self._objects.patch_claim_status(claim, finished(claim, wanted))

    async def _offers(self, driver: Driver) -> bool:
        try:
            return await driver.offers(csi.NodeCapability.EXPAND_VOLUME)
        except CsiError as error:
            raise SetUpError(
                f"Expander.NodeExpand failed to check if node supports expansion : {error}",
                doing="MountVolume.NodeExpandVolume",
            ) from error

    async def _ask(
        self, context: SetUp, driver: Driver, source: Source, volume_path: Path, staging: Path, wanted: Quantity
    ) -> None:
        secrets = await self._objects.credentials(source.expand_secret, "NodeExpandSecretRef")
        multi = await driver.offers(csi.NodeCapability.SINGLE_NODE_MULTI_WRITER)
        staged = await driver.offers(csi.NodeCapability.STAGE_UNSTAGE_VOLUME)
        request = csi.NodeExpandVolumeRequest(
            source.handle,
            str(volume_path),
            csi.CapacityRange(wanted.value()),
            str(staging) if staged else "",
            capability(source, is_block=context.spec.is_block, single_node_multi_writer=multi),
            secrets,
        )
        await driver.client.node_expand_volume(request)

    async def _failed(
        self,
        context: SetUp,
        claim: core_v1.PersistentVolumeClaim,
        error: CsiError,
        wanted: Quantity,
        source: Source,
    ) -> None:
        text = f"Expander.NodeExpand failed to expand the volume : {error}"
        is_given_up = error.is_infeasible or (
            source.key in self._failed_finally and is_other_size_requested(claim, wanted)
        )
        if error.is_final:
            now = rfc3339(context.host.clock.now())
            await self._objects.patch_claim_status(claim, failed(claim, text, now, infeasible=is_given_up))
            self._failed_finally.add(source.key)
        if is_given_up or error.code == "FAILED_PRECONDITION":
            self._refused[source.key] = wanted
        if (
            error.code == "FAILED_PRECONDITION"
        ):  # the driver does not grow volumes that are in use: no reason not to use it
            logger.warning("volume %s: %s", context.spec.name, text)
            return
        raise SetUpError(text, doing="MountVolume.NodeExpandVolume")

    def _event(self, context: SetUp, kind: str, reason: str, how: str, detail: str) -> None:
        text = f'MountVolume.NodeExpandVolume {how} for volume "{context.spec.name}"{detail}'
        context.host.event(context.pod, kind, reason, text)
