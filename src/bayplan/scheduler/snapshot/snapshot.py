"""The cluster as columns: one row per node.

Every event touches only its rows. `changes` logs the rows whose pods changed, so that whoever cached something per
row can catch up; `structure` changes with everything that is not a pod on a node (nodes, volumes, namespaces, ...),
after which caches start over. Rows of removed nodes are used again; `alive` tells which rows are nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bayplan.scheduler.snapshot.catalog import Catalog
from bayplan.scheduler.snapshot.counters import PodCounts
from bayplan.scheduler.snapshot.gangs import Gangs
from bayplan.scheduler.snapshot.labels import Bools, EncodedColumn, Ints, LabelColumn, Rows, grow
from bayplan.scheduler.snapshot.nodes import NodeFacts, node_facts
from bayplan.scheduler.snapshot.pods import PodInfo, is_ended
from bayplan.scheduler.snapshot.resources import ResourceTable
from bayplan.scheduler.snapshot.shape import HostPort, ShapeTable
from bayplan.scheduler.snapshot.taints import TaintKey

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Node, Pod
    from bayplan.api.types.resource_v1 import ResourceClaim

_FIRST_CAPACITY: Final = 64
_MAX_LOG: Final = 1 << 20


class Snapshot:
    """Columns and indexes. Only the methods below change them; plugins read.

    Columns (entries beyond `size` and of rows that are not `alive` mean nothing):

    - `allocatable`, `requested`: int64 [resource column, row]; cpu in milli-units, all else in whole units
    - `nonzero_cpu`, `nonzero_memory`: int64, requested with defaults for containers that say nothing
    - `pod_count`, `pod_limit`: int64
    - `unschedulable`, `alive`: bool
    - `names`, `taints`, `images`, `features`: encoded columns; label columns come from `label_column(key)`
    """

    def __init__(self, capacity: int = _FIRST_CAPACITY) -> None:
        self.capacity = capacity
        self.size = 0
        self.node_count = 0
        self.structure = 0
        self.membership = 0
        """Changes whenever a node gets a row or loses it; `structure` changes then as well."""
        self.resources = ResourceTable()
        self._labels: dict[str, LabelColumn] = {}
        self.nodes: list[Node | None] = []
        self.counts = PodCounts(capacity, self.label_column)
        self.shapes = ShapeTable(self.resources, self.counts)
        self.catalog = Catalog()
        self.gangs = Gangs()
        self.allocatable: Ints = np.zeros((8, capacity), dtype=np.int64)
        self.requested: Ints = np.zeros((8, capacity), dtype=np.int64)
        self.nonzero_cpu: Ints = np.zeros(capacity, dtype=np.int64)
        self.nonzero_memory: Ints = np.zeros(capacity, dtype=np.int64)
        self.pod_count: Ints = np.zeros(capacity, dtype=np.int64)
        self.pod_limit: Ints = np.zeros(capacity, dtype=np.int64)
        self.unschedulable: Bools = np.zeros(capacity, dtype=np.bool_)
        self.alive: Bools = np.zeros(capacity, dtype=np.bool_)
        self.names: EncodedColumn[str] = EncodedColumn(capacity)
        self.taints: EncodedColumn[tuple[TaintKey, ...]] = EncodedColumn(capacity)
        self.images: EncodedColumn[frozenset[str]] = EncodedColumn(capacity)
        self.features: EncodedColumn[frozenset[str]] = EncodedColumn(capacity)
        self.facts: list[NodeFacts | None] = []
        self.pods_on: list[dict[str, PodInfo]] = []
        self.pods: dict[str, PodInfo] = {}
        self.row_of: dict[str, int] = {}
        self.ports: dict[tuple[str, int], dict[int, dict[str, int]]] = {}
        self.claim_users: dict[str, int] = {}
        self._image_sizes: dict[str, int] = {}
        self._image_rows: dict[str, dict[int, None]] = {}
        self._orphans: dict[str, dict[str, PodInfo]] = {}
        self._free: list[int] = []
        self._log: list[int] = []
        self._log_start = 0

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

    def image_size(self, name: str) -> int:
        """The size of an image as the first node that listed it reported; 0 if no node has it."""
        return self._image_sizes.get(name, 0)

    def image_spread(self, name: str) -> int:
        """How many nodes have an image."""
        return len(self._image_rows.get(name, ()))

    @property
    def position(self) -> int:
        """The end of the change log."""
        return self._log_start + len(self._log)

    def changed_since(self, position: int) -> list[int] | None:
        """Rows whose pods changed since a position (with repeats); None if the log no longer reaches back."""
        if position < self._log_start:
            return None
        return self._log[position - self._log_start :]

    # Nodes

    def put_node(self, node: Node) -> None:
        """Add a node or take over its new state."""
        row = self.row_of.get(node.metadata.name)
        facts = node_facts(node, self.resources)
        if row is not None and self.facts[row] == facts:
            self.nodes[row] = node
            return
        new = row is None
        if row is None:
            row = self._take_row(node.metadata.name)
        else:
            self._drop_images(row)
        pods = list(self.pods_on[row].values())
        for info in pods:
            self._count(info, row, -1, live=info.live)
        self.nodes[row] = node
        self.facts[row] = facts
        self._write_facts(row, node, facts)
        for info in pods:
            self._count(info, row, 1, live=info.live)
        self.structure += 1
        if new:
            for info in self._orphans.pop(node.metadata.name, {}).values():
                self._place(info, row)

    def remove_node(self, name: str) -> None:
        """Take a node away. Pods that are still said to run there wait for it to come back."""
        row = self.row_of.pop(name, None)
        if row is None:
            return
        for info in list(self.pods_on[row].values()):
            self._unplace(info)
            self._orphans.setdefault(name, {})[info.key] = info
        self._drop_images(row)
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
        self.structure += 1

    def _take_row(self, name: str) -> int:
        if self._free:
            row = self._free.pop()
        else:
            if self.size == self.capacity:
                self._grow_rows()
            row = self.size
            self.size += 1
            self.nodes.append(None)
            self.facts.append(None)
            self.pods_on.append({})
        self.row_of[name] = row
        self.alive[row] = True
        self.names.set(row, name)
        self.node_count += 1
        self.membership += 1
        return row

    def _write_facts(self, row: int, node: Node, facts: NodeFacts) -> None:
        self._grow_resources()
        self.allocatable[:, row] = 0
        for column, amount in facts.allocatable:
            self.allocatable[column, row] = amount
        self.pod_limit[row] = facts.pod_limit
        self.unschedulable[row] = facts.unschedulable
        self.taints.set(row, facts.taints)
        self.features.set(row, facts.features)
        self.images.set(row, frozenset(name for name, _ in facts.images))
        for name, size in facts.images:
            self._image_rows.setdefault(name, {})[row] = None
            self._image_sizes.setdefault(name, size)
        labels = node.metadata.labels
        for key, label in self._labels.items():
            label.set(row, labels.get(key))

    def _drop_images(self, row: int) -> None:
        for name in self.images.get(row) or ():
            rows = self._image_rows.get(name, {})
            rows.pop(row, None)
            if not rows:
                self._image_rows.pop(name, None)
                self._image_sizes.pop(name, None)

    def _grow_rows(self) -> None:
        capacity = self.capacity = self.capacity * 2
        for name in ("allocatable", "requested", "nonzero_cpu", "nonzero_memory", "pod_count", "pod_limit"):
            setattr(self, name, grow(getattr(self, name), capacity, 0))
        self.unschedulable = grow(self.unschedulable, capacity, 0)
        self.alive = grow(self.alive, capacity, 0)
        columns: list[EncodedColumn[Any]] = [self.names, self.taints, self.images, self.features]
        for column in (*columns, *self._labels.values()):
            column.grow(capacity)
        self.counts.grow(capacity)

    def _grow_resources(self) -> None:
        """Make room for resources that were named for the first time."""
        wanted, have = len(self.resources), self.allocatable.shape[0]
        if wanted > have:
            more = np.zeros((max(wanted, 2 * have) - have, self.capacity), dtype=np.int64)
            self.allocatable = np.concatenate((self.allocatable, more))
            self.requested = np.concatenate((self.requested, more))

    # Pods

    def pod_info(self, pod: Pod, *, pending: bool = False) -> PodInfo:
        """A pod with its shape; it is not counted anywhere yet."""
        info = PodInfo(pod, self.shapes.shape(pod, pending=pending), self.resources)
        self._grow_resources()
        return info

    def put_pod(self, pod: Pod) -> PodInfo | None:
        """Count a pod on its node, or take over its new state. A pod that has ended, or has no node, is not counted."""
        if not pod.spec.node_name or is_ended(pod):
            self.remove_pod(f"{pod.metadata.namespace}/{pod.metadata.name}")
            return None
        info = self.pod_info(pod)
        self.place(info, pod.spec.node_name)
        return info

    def place(self, info: PodInfo, node_name: str) -> None:
        """Count a pod on a node, wherever it was before. If the node is unknown, the pod waits for it."""
        if info.key in self.pods:
            self.remove_pod(info.key)
        info.node_name = node_name
        self.pods[info.key] = info
        row = self.row_of.get(node_name)
        if row is None:
            self._orphans.setdefault(node_name, {})[info.key] = info
        else:
            self._place(info, row)

    def renew(self, info: PodInfo, pod: Pod) -> None:
        """Take over a new state of a pod that takes on its node what it took before."""
        info.pod = pod
        if info.start_time != pod.status.start_time:
            info.start_time = pod.status.start_time
            if info.row >= 0:
                self._record(info.row)

    def remove_pod(self, key: str) -> PodInfo | None:
        """Count a pod no more; None if it was not counted."""
        info = self.pods.pop(key, None)
        if info is None:
            return None
        if info.row >= 0:
            self._unplace(info)
        else:
            waiting = self._orphans.get(info.node_name)
            if waiting is not None:
                waiting.pop(key, None)
                if not waiting:
                    del self._orphans[info.node_name]
        return info

    def put_object(self, kind: str, obj: Any) -> None:
        """Store an object of the catalog."""
        self.catalog.put(kind, obj)
        self.structure += 1

    def remove_object(self, kind: str, key: str) -> None:
        """Forget an object of the catalog."""
        self.catalog.remove(kind, key)
        self.structure += 1

    def assume_object(self, kind: str, obj: Any) -> None:
        """Take an object of the catalog to be as given, until a newer state of it is seen."""
        self.catalog.assume(kind, obj)
        self.structure += 1

    def restore_object(self, kind: str, key: str) -> None:
        """Take such an assumption back."""
        self.catalog.restore(kind, key)
        self.structure += 1

    def begin_allocation(self, claim: ResourceClaim) -> None:
        """A claim has been given devices; nobody else may have them, or the claim, until that is written."""
        self.catalog.pending_allocations[claim.metadata.uid] = claim
        self.structure += 1

    def end_allocation(self, uid: str) -> None:
        """The allocation is written, or given up."""
        if self.catalog.pending_allocations.pop(uid, None) is not None:
            self.structure += 1

    @contextmanager
    def supposing(self, added: Sequence[PodInfo], removed: Sequence[PodInfo], row: int) -> Iterator[None]:
        """For a while, count some pods in and others out on one node, without a trace in the log.

        Two things follow kube-scheduler's preemption rather than common sense: pods that terminate are counted out of
        live counters, which never counted them; and a host port is free as soon as one of the pods that take it is
        gone.
        """
        pods, epoch = self.pods_on[row], self.counts.term_epoch
        ports = {(port.protocol, port.port) for info in (*added, *removed) for port in info.host_ports}
        addresses = {port: dict(self.ports.get(port, {}).get(row, {})) for port in ports}
        self.pods_on[row] = dict(pods)
        for info in removed:
            self.suppose(info, row, -1)
        for info in added:
            self.suppose(info, row, 1)
        try:
            yield
        finally:
            for info in added:
                self.suppose(info, row, -1)
            for info in removed:
                self.suppose(info, row, 1)
            self.pods_on[row] = pods
            for port, before in addresses.items():
                if before:
                    self.ports[port][row] = before
                else:
                    self.ports[port].pop(row, None)
            self.counts.term_epoch = epoch

    def suppose(self, info: PodInfo, row: int, delta: int) -> None:
        """Count a pod in or out for a while, within `supposing`; undone by the opposite `delta`."""
        if delta > 0:
            self.pods_on[row][info.key] = info
        else:
            self.pods_on[row].pop(info.key, None)
        self._count(info, row, delta, live=True)
        for port in info.host_ports:
            addresses = self.ports.setdefault((port.protocol, port.port), {}).setdefault(row, {})
            if delta > 0:
                addresses[port.ip] = 1
            else:
                addresses.pop(port.ip, None)

    def _place(self, info: PodInfo, row: int) -> None:
        info.row = row
        self.pods_on[row][info.key] = info
        self._count(info, row, 1, live=info.live)
        for port in info.host_ports:
            self._count_port(port, row, 1)
        self._record(row)

    def _unplace(self, info: PodInfo) -> None:
        row = info.row
        info.row = -1
        del self.pods_on[row][info.key]
        self._count(info, row, -1, live=info.live)
        for port in info.host_ports:
            self._count_port(port, row, -1)
        self._record(row)

    def _record(self, row: int) -> None:
        log = self._log
        log.append(row)
        if len(log) >= _MAX_LOG:
            drop = _MAX_LOG // 2
            del log[:drop]
            self._log_start += drop

    def _count(self, info: PodInfo, row: int, delta: int, *, live: bool) -> None:
        shape = info.shape
        requested = self.requested
        for column, amount in info.requests:
            requested[column, row] = requested.item(column, row) + delta * amount
        self.nonzero_cpu[row] = self.nonzero_cpu.item(row) + delta * info.nonzero_cpu
        self.nonzero_memory[row] = self.nonzero_memory.item(row) + delta * info.nonzero_memory
        self.pod_count[row] = self.pod_count.item(row) + delta
        if shape.volumes:
            for key in claim_keys(info):
                users = self.claim_users.get(key, 0) + delta
                if users:
                    self.claim_users[key] = users
                else:
                    self.claim_users.pop(key, None)
        self.counts.add(shape.group, shape.terms, row, delta, live=live)

    def _count_port(self, port: HostPort, row: int, delta: int) -> None:
        rows = self.ports.setdefault((port.protocol, port.port), {})
        addresses = rows.setdefault(row, {})
        count = addresses.get(port.ip, 0) + delta
        if count:
            addresses[port.ip] = count
            return
        addresses.pop(port.ip, None)
        if not addresses:
            del rows[row]


def claim_keys(info: PodInfo) -> list[str]:
    """`namespace/name` of the persistent volume claims that a pod mounts by name."""
    return [
        f"{info.shape.namespace}/{volume.persistent_volume_claim.claim_name}"
        for volume in info.shape.volumes
        if volume.persistent_volume_claim is not None
    ]
