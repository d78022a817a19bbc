"""NodeVolumeLimits: a node can attach only so many volumes per CSI driver (`CSINode.spec.drivers[].allocatable`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from bayplan.api.csi_migration import CSI_DRIVERS
from bayplan.scheduler.framework.events import Action, EventHint, left_node
from bayplan.scheduler.framework.extension_points import FilterPlugin, PreFilterPlugin, Scope
from bayplan.scheduler.framework.state import CycleState, PodInfo, PodShape
from bayplan.scheduler.framework.verdicts import SKIP, Codes, Narrow, PluginError, Reject, Skip, Status
from bayplan.scheduler.snapshot.labels import Rows
from bayplan.scheduler.snapshot.migration import (
    TranslationError,
    handle_of,
    in_tree_plugin,
    is_attached_by_csi,
)
from bayplan.scheduler.snapshot.volumes import claim_name, class_of_claim, ephemeral_problem

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import PersistentVolumeClaim, Volume
    from bayplan.api.types.storage_v1 import CSINode


class NodeVolumeLimits(PreFilterPlugin, FilterPlugin):
    """Refuses nodes whose attachment limit the pod's volumes would exceed."""

    name = "NodeVolumeLimits"
    filter_scope = Scope.ROW
    sparse = True

    def reads(self, pod: PodShape) -> Hashable | None:
        return None if pod.volumes else ()

    def pre_filter(self, state: CycleState, pod: PodShape) -> Skip | Narrow | Reject | None:
        if any(_may_attach(volume) for volume in pod.volumes):
            return None
        return SKIP

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        return np.array([self.filter_row(state, pod, row) for row in self.snapshot.rows_of(rows)], dtype=np.int32)

    def filter_row(self, state: CycleState, pod: PodShape, row: int) -> int:
        csi_node = self.snapshot.catalog.csi_nodes.get(self.snapshot.name(row))
        missing = next((name for name in _claim_names(pod) if self._claim(pod, name) is None), None)
        if missing is not None:
            reason = f'looking up PVC {pod.namespace}/{missing}: persistentvolumeclaim "{missing}" not found'
            return self.reasons.code(Status.UNRESOLVABLE, self.name, reason)
        try:
            return self._verdict(pod, row, csi_node)
        except (TranslationError, PluginError) as error:
            return self.failed(str(error))

    def _verdict(self, pod: PodShape, row: int, csi_node: CSINode | None) -> int:
        new = self._attachments(pod, csi_node)
        if not new or csi_node is None:
            return 0
        limits = {
            driver.name: driver.allocatable.count
            for driver in csi_node.spec.drivers
            if driver.allocatable is not None and driver.allocatable.count is not None
        }
        if not limits:
            return 0
        used = self._used(row, csi_node, new)
        for driver, count in Counter(new.values()).items():
            if driver in limits and used[driver] + count > limits[driver]:
                return self.reasons.code(Status.UNSCHEDULABLE, self.name, "node(s) exceed max volume count")
        return 0

    def _used(self, row: int, csi_node: CSINode, new: dict[str, str]) -> Counter[str]:
        """Volumes per driver that are on a node for its pods, or attached according to VolumeAttachments.

        New volumes that pods there use already are not new. One that is merely attached counts twice, as in Kubernetes.
        """
        held: dict[str, str] = {}
        for other in self.snapshot.pods_on[row].values():
            if other.shape.volumes:
                held |= self._attachments(other.shape, csi_node)
        for volume in held:
            new.pop(volume, None)
        return Counter(held.values()) + Counter(
            driver for volume, driver in self._attached_to(csi_node.metadata.name).items() if volume not in held
        )

    def _attached_to(self, node_name: str) -> dict[str, str]:
        """Unique volume name -> attacher, of the CSI volumes that VolumeAttachments name for a node."""
        attached: dict[str, str] = {}
        for item in self.snapshot.catalog.volume_attachments.values():
            volume = self.snapshot.catalog.volumes.get(item.spec.source.persistent_volume_name or "")
            if item.spec.node_name == node_name and volume is not None and volume.spec.csi is not None:
                attached[f"{item.spec.attacher}/{volume.spec.csi.volume_handle}"] = item.spec.attacher
        return attached

    def _claim(self, pod: PodShape, name: str) -> PersistentVolumeClaim | None:
        return self.snapshot.catalog.claims.get(f"{pod.namespace}/{name}")

    def _attachments(self, pod: PodShape, csi_node: CSINode | None) -> dict[str, str]:
        """Unique volume name -> CSI driver, for the volumes that a pod attaches to a node. Raises TranslationError, PluginError."""
        found: dict[str, str] = {}
        for volume in pod.volumes:
            name = claim_name(pod, volume)
            if name is None:
                driver, handle = _driver_of_inline(volume, csi_node)
            else:
                claim = self._claim(pod, name)
                if claim is None:
                    continue
                problem = ephemeral_problem(pod, volume, claim)
                if problem:
                    raise PluginError(self.name, problem)
                driver, handle = self._driver(claim, csi_node)
            if driver and handle:
                found[f"{driver}/{handle}"] = driver
        return found

    def _driver(self, claim: PersistentVolumeClaim, csi_node: CSINode | None) -> tuple[str, str]:
        """CSI driver and volume handle of a claim; empty if it is not attached through CSI."""
        volume = self.snapshot.catalog.volumes.get(claim.spec.volume_name)
        if volume is None:
            return self._driver_of_class(claim, csi_node)
        if volume.spec.csi is not None:
            return volume.spec.csi.driver, volume.spec.csi.volume_handle
        plugin = in_tree_plugin(volume)
        if plugin is None or not is_attached_by_csi(csi_node, plugin):
            return "", ""
        try:
            return CSI_DRIVERS[plugin], handle_of(volume, plugin)
        except TranslationError:
            return "", ""

    def _driver_of_class(self, claim: PersistentVolumeClaim, csi_node: CSINode | None) -> tuple[str, str]:
        """What an unbound claim will become according to its storage class."""
        storage_class = self.snapshot.catalog.storage_classes.get(class_of_claim(claim))
        if storage_class is None:
            return "", ""
        handle = f"unbound-{claim.metadata.namespace}/{claim.metadata.name}"
        driver = storage_class.provisioner
        if driver in CSI_DRIVERS:
            return (CSI_DRIVERS[driver], handle) if is_attached_by_csi(csi_node, driver) else ("", "")
        return driver, handle

    def events(self) -> tuple[EventHint, ...]:
        return (
            EventHint("CSINode", Action.ADD | Action.UPDATE),
            EventHint("Pod", Action.DELETE, _attached_something),
            EventHint("PersistentVolumeClaim", Action.ADD),
            EventHint("VolumeAttachment", Action.DELETE),
        )


def _may_attach(volume: Volume) -> bool:
    return (
        volume.persistent_volume_claim is not None or volume.ephemeral is not None or in_tree_plugin(volume) is not None
    )


def _driver_of_inline(volume: Volume, csi_node: CSINode | None) -> tuple[str, str]:
    """CSI driver and volume handle of a volume that the pod itself describes. Raises TranslationError."""
    plugin = in_tree_plugin(volume)
    if plugin is None or not is_attached_by_csi(csi_node, plugin):
        return "", ""
    try:
        return CSI_DRIVERS[plugin], handle_of(volume, plugin)
    except TranslationError as error:
        raise TranslationError(f"converting volume({volume.name}) from inline to csi: {error}") from error


def _claim_names(pod: PodShape) -> list[str]:
    """The claims of a pod, those of ephemeral volumes included."""
    return [name for volume in pod.volumes if (name := claim_name(pod, volume)) is not None]


def _attached_something(pod: PodInfo, old: Any, new: Any) -> bool:
    return bool(left_node(old)) and any(_may_attach(volume) for volume in old.spec.volumes)
