"""VolumeRestrictions: disks that only one pod or node can use, and claims with access mode ReadWriteOncePod."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from bayplan.scheduler.framework.events import Action, EventHint, is_own_claim, left_node
from bayplan.scheduler.framework.extension_points import FilterPlugin, PreFilterPlugin, Scope
from bayplan.scheduler.framework.state import CycleState, PodInfo, PodShape
from bayplan.scheduler.framework.verdicts import SKIP, Codes, Narrow, Reject, Skip, Status
from bayplan.scheduler.snapshot.labels import Rows

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Volume

READ_WRITE_ONCE_POD = "ReadWriteOncePod"


def is_restricted(volume: Volume) -> bool:
    """Whether a volume names a disk in the pod itself that others may hold."""
    return (
        volume.gce_persistent_disk is not None
        or volume.aws_elastic_block_store is not None
        or volume.rbd is not None
        or volume.iscsi is not None
    )


def conflict(wanted: Volume, held: Volume) -> bool:
    """Whether two pods with these volumes cannot share a node."""
    disk, other_disk = wanted.gce_persistent_disk, held.gce_persistent_disk
    if disk is not None and other_disk is not None and disk.pd_name == other_disk.pd_name:
        return not (disk.read_only and other_disk.read_only)
    store, other_store = wanted.aws_elastic_block_store, held.aws_elastic_block_store
    if store is not None and other_store is not None and store.volume_id == other_store.volume_id:
        return True
    target, other_target = wanted.iscsi, held.iscsi
    if target is not None and other_target is not None and target.iqn == other_target.iqn:
        return not (target.read_only and other_target.read_only)
    image, other_image = wanted.rbd, held.rbd
    if image is None or other_image is None:
        return False
    same = (image.pool, image.image) == (other_image.pool, other_image.image)
    shared = not set(image.monitors).isdisjoint(other_image.monitors)
    return same and shared and not (image.read_only and other_image.read_only)


class VolumeRestrictions(PreFilterPlugin, FilterPlugin):
    """Refuses nodes where a pod's disk is held, and all nodes while its exclusive claim is in use."""

    name = "VolumeRestrictions"
    filter_scope = Scope.CLUSTER
    filter_alone = None

    def reads(self, pod: PodShape) -> Hashable | None:
        return None if pod.volumes else ()

    def pre_filter(self, state: CycleState, pod: PodShape) -> Skip | Narrow | Reject | None:
        claims: dict[str, None] = {}
        for volume in pod.volumes:
            if volume.persistent_volume_claim is None:
                continue
            name = volume.persistent_volume_claim.claim_name
            claim = self.snapshot.catalog.claims.get(f"{pod.namespace}/{name}")
            if claim is None:
                return Reject(Status.UNRESOLVABLE, (f'persistentvolumeclaim "{name}" not found',))
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                claims[f"{pod.namespace}/{name}"] = None
        restricted = any(is_restricted(volume) for volume in pod.volumes)
        if not restricted and not claims:
            return SKIP
        state.data[self.name] = list(claims)
        return None

    def _in_use(self, pod: PodShape, claims: list[str]) -> bool:
        """Whether a pod has one of the claims, the pods included that are supposed to be there.

        As in kube-scheduler, claims that no pod has are not watched any further, unless there are disks to look at.
        """
        users = self.snapshot.claim_users
        used = sum(key in users for key in claims)
        if not used and not any(is_restricted(volume) for volume in pod.volumes):
            return False
        return used + sum(self.snapshot.what_if_claim_users.get(key, 0) for key in claims) > 0

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        return np.array([self.filter_row(state, pod, row) for row in self.snapshot.rows_of(rows)], dtype=np.int32)

    def filter_row(self, state: CycleState, pod: PodShape, row: int) -> int:
        if self._is_held(pod, row):
            return self.reasons.code(Status.UNSCHEDULABLE, self.name, "node(s) had no available disk")
        claims: list[str] | None = state.data.get(self.name)
        if claims is None:
            return self.failed('cannot read "PreFilterVolumeRestrictions" from cycleState')
        if self._in_use(pod, claims):
            return self.reasons.code(
                Status.UNSCHEDULABLE,
                self.name,
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
                "another pod",
            )
        return 0

    def _is_held(self, pod: PodShape, row: int) -> bool:
        wanted = [volume for volume in pod.volumes if is_restricted(volume)]
        if not wanted:
            return False
        return any(
            conflict(volume, held)
            for other in self.snapshot.pods_on[row].values()
            for held in other.shape.volumes
            for volume in wanted
        )

    def events(self) -> tuple[EventHint, ...]:
        return (
            EventHint("Pod", Action.DELETE, _had_volumes),
            EventHint("Node", Action.ADD),
            EventHint("PersistentVolumeClaim", Action.ADD | Action.UPDATE, is_own_claim),
        )


def _had_volumes(pod: PodInfo, old: Any, new: Any) -> bool:
    return bool(old.spec.volumes) and bool(left_node(old))
