"""How many devices of a class each node has, and how many of them are taken: for scoring extended resources.

All slices count, whatever their pools look like; selectors are those of the class. Source of the behaviour:
`calculateDRAResourceTotals` in kube-scheduler's `noderesources`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayplan.scheduler.snapshot.device_expressions import ExpressionError, compiled
from bayplan.scheduler.snapshot.devices import DeviceId, usage_of
from bayplan.scheduler.snapshot.extended_resources import can_be_devices, class_behind
from bayplan.scheduler.snapshot.labels import Ints, Rows
from bayplan.scheduler.snapshot.node_selector import NodeAffinityMatcher

if TYPE_CHECKING:
    from bayplan.api.types.resource_v1 import Device, DeviceClass, ResourceSlice, ResourceSliceSpec
    from bayplan.scheduler.snapshot.snapshot import Snapshot


class DeviceTotals:
    """The devices behind one extended resource. `capacity` and `used`: per row; zero where they cannot be counted."""

    def __init__(self, snapshot: Snapshot, device_class: DeviceClass) -> None:
        catalog = snapshot.catalog
        self._snapshot = snapshot
        self._texts = [item.cel.expression for item in device_class.spec.selectors if item.cel is not None]
        self._usage = usage_of((*catalog.resource_claims.values(), *catalog.pending_allocations.values()))
        self._unknown: set[int] = set()
        """Rows with a device on which a selector fails."""
        self.capacity: Ints = np.zeros(snapshot.size, dtype=np.int64)
        self.used: Ints = np.zeros(snapshot.size, dtype=np.int64)
        for item in catalog.resource_slices.values():
            self._count(item)
        unknown = sorted(self._unknown)
        self.capacity[unknown] = self.used[unknown] = 0

    def instead_of(self, capacity: Ints, requested: Ints, rows: Rows) -> tuple[Ints, Ints]:
        """What rows have of the resource and how much of it is requested: devices where they have nothing of it."""
        counts = (capacity == 0) & (self.capacity[rows] > 0)
        return np.where(counts, self.capacity[rows], capacity), np.where(counts, self.used[rows], requested)

    def on(self, row: int) -> tuple[int, int]:
        """How many devices a row has, and how many of them are taken."""
        return self.capacity.item(row), self.used.item(row)

    def _count(self, item: ResourceSlice) -> None:
        spec = item.spec
        rows = [] if spec.per_device_node_selection else self._rows(spec)
        for device in spec.devices:
            there = self._rows(device) if spec.per_device_node_selection else rows
            if not there:
                continue
            try:
                if not all(compiled(text).matches(spec.driver, device) for text in self._texts):
                    continue
            except ExpressionError:
                self._unknown.update(there)
                continue
            self.capacity[there] += 1
            identity = DeviceId(spec.driver, spec.pool.name, device.name)
            if identity in self._usage.taken or identity in self._usage.shared:
                self.used[there] += 1

    def _rows(self, owner: ResourceSliceSpec | Device) -> list[int]:
        """The rows of the nodes that a slice, or a device, is for."""
        if owner.node_name:
            row = self._snapshot.row_of.get(owner.node_name)
            return [] if row is None else [row]
        matcher = NodeAffinityMatcher({}, owner.node_selector) if owner.node_selector is not None else None
        return [
            row
            for row, node in enumerate(self._snapshot.nodes)
            if node is not None
            and (
                owner.all_nodes
                or (matcher is not None and matcher.match_labels(node.metadata.labels, node.metadata.name))
            )
        ]


def device_totals(snapshot: Snapshot, resource: str) -> DeviceTotals | None:
    """The devices behind a resource; None if no class offers it."""
    classes = snapshot.catalog.device_classes
    name = class_behind(resource, classes) if classes and can_be_devices(resource) else ""
    return DeviceTotals(snapshot, classes[name]) if name else None
