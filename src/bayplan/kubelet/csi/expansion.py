"""The node's part of making a volume larger (operationexecutor/node_expander.go): the driver is asked, and the claim's status says how that went."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Final

from bayplan.api.codec import to_tree
from bayplan.api.quantity import Quantity, parse
from bayplan.api.types import core_v1
from bayplan.csi import messages as csi
from bayplan.csi.annotations import NODE_EXPANSION_NOT_REQUIRED
from bayplan.csi.errors import CsiError
from bayplan.kubelet.csi.drivers import Driver
from bayplan.kubelet.csi.objects import CsiObjects
from bayplan.kubelet.csi.requests import Source, capability
from bayplan.kubelet.volumes.errors import SetUpError
from bayplan.kubelet.volumes.interface import SetUp
from bayplan.support.timestamps import rfc3339

logger = logging.getLogger(__name__)

STORAGE: Final = "storage"
PENDING, IN_PROGRESS, INFEASIBLE = "NodeResizePending", "NodeResizeInProgress", "NodeResizeInfeasible"
SHARED: Final = "ReadWriteMany"
_SUCCESS, _FAILURE = "FileSystemResizeSuccessful", "FileSystemResizeFailed"
_FAILED: Final = "NodeResizeError"
_DONE_CONDITIONS: Final = frozenset({"Resizing", "FileSystemResizePending", "ControllerResizeError", _FAILED})


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
            self._event(context, "Warning", _FAILURE, "failed", " requested read-only file system")
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
        self._event(context, "Normal", _SUCCESS, "succeeded", "")
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


def wanted_size(persistent: core_v1.PersistentVolume, claim: core_v1.PersistentVolumeClaim | None) -> Quantity | None:
    """The size that the node is to bring a volume to; None if there is nothing to do, or nothing yet."""
    if claim is None or STORAGE not in persistent.spec.capacity:
        return None
    status = claim.status
    target = status.allocated_resources.get(STORAGE) or persistent.spec.capacity[STORAGE]
    wanted = parse(target)
    has = parse(status.capacity.get(STORAGE, "0"))
    if status.allocated_resource_statuses.get(STORAGE) in (PENDING, IN_PROGRESS):
        return wanted
    pending = any(each.type == "FileSystemResizePending" and each.status == "True" for each in status.conditions)
    old_controller = not status.allocated_resource_statuses and pending
    return wanted if old_controller and has < wanted else None


def is_other_size_requested(claim: core_v1.PersistentVolumeClaim, wanted: Quantity) -> bool:
    """Whether the user asks for another size by now than the one that the node tries: the controller is to decide anew."""
    return parse(claim.spec.resources.requests.get(STORAGE, "0")) != wanted


def shared_size(
    persistent: core_v1.PersistentVolume, claim: core_v1.PersistentVolumeClaim, known: Quantity
) -> Quantity | None:
    """The size that this node is to bring a volume to which others have brought there already, so that the claim says that it is done; None if there is none.

    known: what the volume has on this node.
    """
    if SHARED not in claim.spec.access_modes or NODE_EXPANSION_NOT_REQUIRED in claim.metadata.annotations:
        return None
    size = parse(persistent.spec.capacity.get(STORAGE, "0"))
    is_done = (
        not claim.status.allocated_resource_statuses.get(STORAGE)
        and parse(claim.status.capacity.get(STORAGE, "0")) >= size
    )
    return size if is_done and known < size else None


def finished(claim: core_v1.PersistentVolumeClaim, size: Quantity) -> dict[str, Any]:
    """What changes of a claim's status when its volume has its size, as a merge patch."""
    kept = [each for each in claim.status.conditions if each.type not in _DONE_CONDITIONS]
    return {
        "capacity": {STORAGE: str(size)},
        "allocatedResourceStatuses": {STORAGE: None},
        "conditions": [to_tree(each) for each in kept] or None,
    }


def failed(claim: core_v1.PersistentVolumeClaim, text: str, now: str, *, infeasible: bool) -> dict[str, Any]:
    """What changes of a claim's status when a driver has refused to make its volume larger. now: RFC 3339."""
    kept = [each for each in claim.status.conditions if each.type != _FAILED]
    condition = {"type": _FAILED, "status": "True", "lastTransitionTime": now, "message": text}
    change: dict[str, Any] = {"conditions": [*map(to_tree, kept), condition]}
    if infeasible:
        change["allocatedResourceStatuses"] = {STORAGE: INFEASIBLE}
    return change
