"""The columns that nodes fill: one row per node, whatever pods are on it.

A node gets a row when it comes and keeps it until it goes; rows of removed nodes are used again, and `alive` tells which
rows are nodes. What pods take of the nodes is counted in `snapshot`, over the same rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayplan.scheduler.snapshot.labels import Bools, EncodedColumn, Ints, LabelColumn, Rows, grow
from bayplan.scheduler.snapshot.nodes import NO_FACTS, NodeFacts
from bayplan.scheduler.snapshot.resources import ResourceTable
from bayplan.scheduler.snapshot.taints import TaintKey

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Node


class NodeColumns:
    """What nodes say of themselves. Entries beyond `size` and of rows that are not `alive` mean nothing.

    - `allocatable`: int64 [resource column, row]; cpu in milli-units, all else in whole units
    - `pod_limit`: int64
    - `unschedulable`, `alive`: bool
    - `names`, `taints`, `images`, `features`: encoded columns; label columns come from `label_column(key)`
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.size = 0
        self.node_count = 0
        self.membership = 0
        """Changes whenever a node gets a row or loses it."""
        self.resources = ResourceTable()
        self.nodes: list[Node | None] = []
        self.facts: list[NodeFacts | None] = []
        self.row_of: dict[str, int] = {}
        self.allocatable: Ints = np.zeros((8, capacity), dtype=np.int64)
        self.pod_limit: Ints = np.zeros(capacity, dtype=np.int64)
        self.unschedulable: Bools = np.zeros(capacity, dtype=np.bool_)
        self.alive: Bools = np.zeros(capacity, dtype=np.bool_)
        self.names: EncodedColumn[str] = EncodedColumn(capacity)
        self.taints: EncodedColumn[tuple[TaintKey, ...]] = EncodedColumn(capacity)
        self.images: EncodedColumn[frozenset[str]] = EncodedColumn(capacity)
        self.features: EncodedColumn[frozenset[str]] = EncodedColumn(capacity)
        self._labels: dict[str, LabelColumn] = {}
        self._image_sizes: dict[str, int] = {}
        self._image_rows: dict[str, dict[int, None]] = {}
        self._image_versions: dict[str, int] = {}
        self.image_epoch = 0
        """How often an image came to a node or left one."""
        self._free: list[int] = []

    # Reading

    @property
    def all_rows(self) -> slice:
        """Every row in use, removed nodes' rows included."""
        return slice(0, self.size)

    def select(self, rows: Rows) -> int:
        """How many rows are meant."""
        return self.size if isinstance(rows, slice) else len(rows)

    def rows_of(self, rows: Rows) -> list[int]:
        """The row numbers as Python integers."""
        return list(range(self.size)) if isinstance(rows, slice) else [int(row) for row in rows]

    def name(self, row: int) -> str:
        """The name of a row's node."""
        node = self.nodes[row]
        return node.metadata.name if node is not None else ""

    def label_column(self, key: str) -> LabelColumn:
        """The column of a label key, built when first asked for and kept up to date from then on."""
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = EncodedColumn(self.capacity)
            for row, node in enumerate(self.nodes):
                if node is not None:
                    column.set(row, node.metadata.labels.get(key))
        return column

    @property
    def has_images(self) -> bool:
        """Whether any node has told of an image."""
        return bool(self._image_rows)

    def image_size(self, name: str) -> int:
        """The size of an image as the first node that listed it reported; 0 if no node has it."""
        return self._image_sizes.get(name, 0)

    def image_spread(self, name: str) -> int:
        """How many nodes have an image."""
        return len(self._image_rows.get(name, ()))

    def image_version(self, name: str) -> int:
        """Another number after each change of which nodes have an image; 0 if none has it."""
        return self._image_versions.get(name, 0)

    # Rows

    def _take_row(self, name: str) -> int:
        """A row for a new node, whose facts have yet to be written."""
        if self._free:
            row = self._free.pop()
        else:
            if self.size == self.capacity:
                self._grow_rows()
            row = self.size
            self.size += 1
            self.nodes.append(None)
            self.facts.append(None)
        self.row_of[name] = row
        self.alive[row] = True
        self.names.set(row, name)
        self.node_count += 1
        self.membership += 1
        return row

    def _give_up_row(self, row: int) -> None:
        """The row's node is gone; the next new node gets the row."""
        self._write_images(row, NO_FACTS)
        self.nodes[row] = None
        self.facts[row] = None
        self.alive[row] = False
        self.names.set(row, None)
        for column in self._labels.values():
            column.set(row, None)
        self.allocatable[:, row] = 0
        self._free.append(row)
        self.node_count -= 1
        self.membership += 1

    def _write_facts(self, row: int, node: Node, facts: NodeFacts) -> None:
        self.nodes[row] = node
        self.facts[row] = facts
        self._grow_resources()
        self.allocatable[:, row] = 0
        for column, amount in facts.allocatable:
            self.allocatable[column, row] = amount
        self.pod_limit[row] = facts.pod_limit
        self.unschedulable[row] = facts.unschedulable
        self.taints.set(row, facts.taints)
        self.features.set(row, facts.features)
        self._write_images(row, facts)
        labels = node.metadata.labels
        for key, label in self._labels.items():
            label.set(row, labels.get(key))

    def _write_images(self, row: int, facts: NodeFacts) -> None:
        """Take over which images a node has. Only those that came or left change their versions."""
        before, now = self.images.get(row) or frozenset(), frozenset(name for name, _ in facts.images)
        self.images.set(row, now)
        for name, size in facts.images:
            if name not in before:
                self._image_rows.setdefault(name, {})[row] = None
                self._image_sizes.setdefault(name, size)
                self._note_image(name)
        for name in sorted(before - now):
            rows = self._image_rows[name]
            rows.pop(row, None)
            self._note_image(name)
            if not rows:
                del self._image_rows[name], self._image_sizes[name], self._image_versions[name]

    def _note_image(self, name: str) -> None:
        self.image_epoch += 1
        self._image_versions[name] = self.image_epoch

    def _grow_rows(self) -> None:
        """Make room for twice as many nodes."""
        capacity = self.capacity = self.capacity * 2
        self.allocatable = grow(self.allocatable, capacity, 0)
        self.pod_limit = grow(self.pod_limit, capacity, 0)
        self.unschedulable = grow(self.unschedulable, capacity, 0)
        self.alive = grow(self.alive, capacity, 0)
        columns: list[EncodedColumn[Any]] = [self.names, self.taints, self.images, self.features]
        for column in (*columns, *self._labels.values()):
            column.grow(capacity)

    def _grow_resources(self) -> None:
        """Make room for resources that were named for the first time."""
        wanted, have = len(self.resources), self.allocatable.shape[0]
        if wanted > have:
            self.allocatable = with_resources(self.allocatable, max(wanted, 2 * have))


def with_resources(column: Ints, count: int) -> Ints:
    """A matrix [resource column, row] with room for `count` resources, the new ones 0."""
    have, capacity = column.shape
    return np.concatenate((column, np.zeros((count - have, capacity), dtype=np.int64)))
