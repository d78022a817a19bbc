"""NodeVolumeLimits: a node can attach only so many volumes per CSI driver (`CSINode.spec.drivers[].allocatable`)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from bayplan.scheduler.framework.events import Action, EventHint
from bayplan.scheduler.framework.extension_points import FilterPlugin, PreFilterPlugin, Scope
from bayplan.scheduler.framework.state import CycleState, PodInfo, PodShape
from bayplan.scheduler.framework.verdicts import SKIP, Codes, Narrow, Reject, Skip, Status
from bayplan.scheduler.snapshot.labels import Rows
from bayplan.scheduler.snapshot.migration import CSI_DRIVERS, inline_source, is_migrated

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import PersistentVolumeClaim, Volume
    from bayplan.api.types.storage_v1 import CSINode


class NodeVolumeLimits(PreFilterPlugin, FilterPlugin):
    """Refuses nodes whose attachment limit the pod's volumes would exceed."""

    name = "NodeVolumeLimits"
    filter_scope = Scope.ROW
    sparse = True

    def pre_filter(self, state: CycleState, pod: PodShape) -> Skip | Narrow | Reject | None:
        if any(_may_attach(volume) for volume in pod.volumes):
            return None
        return SKIP

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        return np.array([self.filter_row(state, pod, row) for row in self.snapshot.rows_of(rows)], dtype=np.int32)

    def filter_row(self, state: CycleState, pod: PodShape, row: int) -> int:
        csi_node = self.snapshot.catalog.csi_nodes.get(self.snapshot.name(row))
        if csi_node is None:
            return 0
        limits = {
            driver.name: driver.allocatable.count
            for driver in csi_node.spec.drivers
            if driver.allocatable is not None and driver.allocatable.count is not None
        }
        new = self._attachments(pod, csi_node)
        if not new or not limits:
            return 0
        attached = self._attached(row, csi_node)
        for volume in attached:
            new.pop(volume, None)
        used = Counter(attached.values())
        for driver, count in Counter(new.values()).items():
            if driver in limits and used[driver] + count > limits[driver]:
                return self.reasons.code(Status.UNSCHEDULABLE, self.name, "node(s) exceed max volume count")
        return 0

    def _attached(self, row: int, csi_node: CSINode) -> dict[str, str]:
        """Volumes attached to a node for its pods, or according to VolumeAttachments."""
        attached: dict[str, str] = {}
        for other in self.snapshot.pods_on[row].values():
            if other.shape.volumes:
                attached |= self._attachments(other.shape, csi_node)
        for attachment in self.snapshot.catalog.volume_attachments.values():
            name = attachment.spec.source.persistent_volume_name
            if attachment.spec.node_name != csi_node.metadata.name or not attachment.spec.attacher or name is None:
                continue
            volume = self.snapshot.catalog.volumes.get(name)
            if volume is not None and volume.spec.csi is not None:
                attached[f"{volume.spec.csi.driver}/{volume.spec.csi.volume_handle}"] = volume.spec.csi.driver
        return attached

    def _attachments(self, pod: PodShape, csi_node: CSINode) -> dict[str, str]:
        """Unique volume name -> CSI driver, for the volumes that a pod attaches to a node."""
        found: dict[str, str] = {}
        for volume in pod.volumes:
            name = _claim_name(pod, volume)
            if name is None:
                source = inline_source(volume)
                if source is not None and is_migrated(csi_node, source[0]):
                    driver = CSI_DRIVERS[source[0]]
                    found[f"{driver}/{source[1]}"] = driver
                continue
            claim = self.snapshot.catalog.claims.get(f"{pod.namespace}/{name}")
            if claim is not None:
                driver, handle = self._driver(claim, csi_node)
                if driver and handle:
                    found[f"{driver}/{handle}"] = driver
        return found

    def _driver(self, claim: PersistentVolumeClaim, csi_node: CSINode) -> tuple[str, str]:
        """CSI driver and volume handle of a claim; empty if it is not attached through CSI."""
        volume = self.snapshot.catalog.volumes.get(claim.spec.volume_name)
        if volume is None:
            return self._driver_of_class(claim, csi_node)
        if volume.spec.csi is not None:
            return volume.spec.csi.driver, volume.spec.csi.volume_handle
        source = inline_source(volume)
        if source is None or not is_migrated(csi_node, source[0]):
            return "", ""
        return CSI_DRIVERS[source[0]], source[1]

    def _driver_of_class(self, claim: PersistentVolumeClaim, csi_node: CSINode) -> tuple[str, str]:
        """What an unbound claim will become according to its storage class."""
        storage_class = self.snapshot.catalog.storage_classes.get(claim.spec.storage_class_name or "")
        if storage_class is None:
            return "", ""
        handle = f"unbound-{claim.metadata.namespace}/{claim.metadata.name}"
        driver = storage_class.provisioner
        if driver in CSI_DRIVERS:
            return (CSI_DRIVERS[driver], handle) if is_migrated(csi_node, driver) else ("", "")
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
        volume.persistent_volume_claim is not None or volume.ephemeral is not None or inline_source(volume) is not None
    )


def _claim_name(pod: PodShape, volume: Volume) -> str | None:
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.name}-{volume.name}" if volume.ephemeral is not None else None


def _attached_something(pod: PodInfo, old: Any, new: Any) -> bool:
    return bool(old.spec.node_name) and any(_may_attach(volume) for volume in old.spec.volumes)
