"""VolumeZone: a persistent volume labelled with a zone or region is usable only on nodes there."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

import numpy as np

from bayplan.scheduler.framework.events import Action, EventHint, is_own_claim
from bayplan.scheduler.framework.extension_points import FilterPlugin, PreFilterPlugin, Scope
from bayplan.scheduler.framework.state import CycleState, PodShape
from bayplan.scheduler.framework.verdicts import SKIP, Codes, Narrow, Reject, Skip, Status
from bayplan.scheduler.snapshot.labels import Rows
from bayplan.scheduler.snapshot.migration import BETA, STABLE

BETA_TO_STABLE: Final = dict(zip(BETA, STABLE, strict=True))
TOPOLOGY_LABELS: Final = (*BETA, *STABLE)


@dataclass(frozen=True, slots=True)
class _Topology:
    """A label that nodes must have with one of these values."""

    key: str
    values: frozenset[str]


class VolumeZone(PreFilterPlugin, FilterPlugin):
    """Refuses nodes outside the zones of the pod's bound volumes; nodes without zone labels are let pass."""

    name = "VolumeZone"
    filter_scope = Scope.NODE

    def reads(self, pod: PodShape) -> Hashable | None:
        return None if pod.volumes else ()

    def pre_filter(self, state: CycleState, pod: PodShape) -> Skip | Narrow | Reject | None:
        topologies: list[_Topology] = []
        for volume in pod.volumes:
            if volume.persistent_volume_claim is None:
                continue
            found = self._topologies(pod.namespace, volume.persistent_volume_claim.claim_name)
            if isinstance(found, Reject):
                return found
            topologies.extend(found)
        if not topologies:
            return SKIP
        state.data[self.name] = topologies
        return None

    def _topologies(self, namespace: str, name: str) -> list[_Topology] | Reject:
        catalog = self.snapshot.catalog
        if not name:
            return _unresolvable("PersistentVolumeClaim had no name")
        claim = catalog.claims.get(f"{namespace}/{name}")
        if claim is None:
            return _unresolvable(f'persistentvolumeclaim "{name}" not found')
        if not claim.spec.volume_name:
            class_name = claim.spec.storage_class_name or ""
            if not class_name:
                return _unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
            storage_class = catalog.storage_classes.get(class_name)
            if storage_class is None:
                return _unresolvable(f'storageclass.storage.k8s.io "{class_name}" not found')
            if storage_class.volume_binding_mode == "WaitForFirstConsumer":
                return []
            return _unresolvable("PersistentVolume had no name")
        volume = catalog.volumes.get(claim.spec.volume_name)
        if volume is None:
            return _unresolvable(f'persistentvolume "{claim.spec.volume_name}" not found')
        labels = volume.metadata.labels
        return [_Topology(key, frozenset(labels[key].split("__"))) for key in TOPOLOGY_LABELS if key in labels]

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        snapshot = self.snapshot
        topologies: list[_Topology] = state.data[self.name]
        zoned = np.zeros(snapshot.select(rows), dtype=np.bool_)
        for key in TOPOLOGY_LABELS:
            zoned |= snapshot.label_column(key).ids[rows] >= 0
        outside = np.zeros_like(zoned)
        for topology in topologies:
            column = snapshot.label_column(topology.key)
            inside = column.where(topology.values.__contains__, rows)
            stable = BETA_TO_STABLE.get(topology.key)
            if stable is not None:
                fallback = snapshot.label_column(stable).where(topology.values.__contains__, rows)
                inside = np.where(column.ids[rows] >= 0, inside, fallback)
            outside |= ~inside
        code = self.reasons.code(Status.UNRESOLVABLE, self.name, "node(s) had no available volume zone")
        return np.where(zoned & outside, code, 0).astype(np.int32)

    def events(self) -> tuple[EventHint, ...]:
        return (
            EventHint("StorageClass", Action.ADD),
            EventHint("Node", Action.ADD | Action.NODE_LABEL),
            EventHint("PersistentVolumeClaim", Action.ADD | Action.UPDATE, is_own_claim),
            EventHint("PersistentVolume", Action.ADD | Action.UPDATE),
        )


def _unresolvable(reason: str) -> Reject:
    return Reject(Status.UNRESOLVABLE, (reason,))
