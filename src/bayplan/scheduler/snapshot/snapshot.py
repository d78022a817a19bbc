"""The cluster as columns: one row per node.

Every event touches only its rows. `changes` logs the rows whose pods changed, so that whoever cached something per
row can catch up; `structure` changes with everything that is not a pod on a node (nodes, volumes, namespaces, ...),
after which caches start over. What nodes say of themselves is in `columns`; here is what pods take of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

import numpy as np

from bayplan.scheduler.snapshot.catalog import Catalog
from bayplan.scheduler.snapshot.columns import NodeColumns, with_resources
from bayplan.scheduler.snapshot.counters import PodCounts
from bayplan.scheduler.snapshot.gangs import Gangs
from bayplan.scheduler.snapshot.labels import ChangedRows, Counts, Ints, grow
from bayplan.scheduler.snapshot.nodes import NodeFacts, node_facts
from bayplan.scheduler.snapshot.pending_allocations import PendingAllocation
from bayplan.scheduler.snapshot.pods import PodInfo, is_ended
from bayplan.scheduler.snapshot.resources import Vector
from bayplan.scheduler.snapshot.shape import HostPort, ShapeTable, keeps_shape

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Node, Pod
    from bayplan.api.types.resource_v1 import ResourceClaim

_FIRST_CAPACITY: Final = 64
_FEW: Final = 8
"""Catch up row by row while at most one in `_FEW` rows changed."""
_MAX_LOG: Final = 1 << 20
_LISTED: Final = 8
"""Up to so many changes are listed one by one."""
_WIDTH_OF_LISTING: Final = 100
"""Rows among which those that changed are found in the time that one change takes to be listed."""
_TOPOLOGY: Final = "topology.kubernetes.io/"
_POD_GROUP: Final = "PodGroup"
"""The kind that no verdict on a node follows from: groups come and go without a new structure."""


class WhatIfPods:
    """Pods that are supposed to have come (counted 1) or gone (-1), per row."""

    __slots__ = ("__weakref__", "per_row")

    def __init__(self, capacity: int) -> None:
        self.per_row: Counts = np.zeros(capacity, dtype=np.int32)


class Snapshot(NodeColumns):
    """Columns and indexes. Only the methods below change them; plugins read.

    Besides the columns of `NodeColumns`, what pods take:

    - `requested`: int64 [resource column, row]; cpu in milli-units, all else in whole units
    - `nonzero_cpu`, `nonzero_memory`: int64, requested with defaults for containers that say nothing
    - `pod_count`: int64
    - `free`: int64 [resource column, row], `allocatable` less `requested`; negative if over-committed
    - `places`: int64, `pod_limit` less `pod_count`
    """

    def __init__(self, capacity: int = _FIRST_CAPACITY) -> None:
        super().__init__(capacity)
        self.structure = 0
        """Changes with everything that is not a pod on a node, `membership` included; with images only if plugins may read these unsaid."""
        self.images_are_structure = False
        """Whether plugins look at nodes that are not Bayplan's own: what these read is not known, so images matter to all of a pod's answers."""
        self.counts = PodCounts(capacity, self.label_column)
        self.shapes = ShapeTable(self.resources, self.counts)
        self.catalog = Catalog()
        self.gangs = Gangs()
        self.requested: Ints = np.zeros((8, capacity), dtype=np.int64)
        self.free: Ints = np.zeros((8, capacity), dtype=np.int64)
        self.nonzero_cpu: Ints = np.zeros(capacity, dtype=np.int64)
        self.nonzero_memory: Ints = np.zeros(capacity, dtype=np.int64)
        self.pod_count: Ints = np.zeros(capacity, dtype=np.int64)
        self.places: Ints = np.zeros(capacity, dtype=np.int64)
        self._least_free = [0] * 8
        self._least_places = 0
        """No node has less of a resource, or fewer places; some may have more. No places until `look_for_room` after a change of nodes."""
        self.pods_on: list[dict[str, PodInfo]] = []
        self.pods: dict[str, PodInfo] = {}
        self.ports: dict[tuple[str, int], dict[int, dict[str, int]]] = {}
        self.claim_users: dict[str, int] = {}
        self.what_if_claim_users: dict[str, int] = {}
        """How many more (or, negative, fewer) users claims have while pods are supposed to come or go."""
        self.derived: dict[Hashable, Any] = {}
        """What plugins work out of these columns and share."""
        self._what_if_pods: WeakValueDictionary[str, WhatIfPods] = WeakValueDictionary()
        self._orphans: dict[str, dict[str, PodInfo]] = {}
        self._log: list[int] = []
        self._log_start = 0
        self._changed_at: Ints = np.full(capacity, -1, dtype=np.int64)
        """Per row, the position in the log of its last change."""
        self.supposed = 0
        """Goes up whenever pods are supposed on nodes, or no more, which leaves no trace in the log."""

    # Reading

    @property
    def position(self) -> int:
        """The end of the change log."""
        return self._log_start + len(self._log)

    def changed_since(self, position: int) -> list[int] | None:
        """Rows whose pods changed since a position (with repeats); None if the log no longer reaches back."""
        if position < self._log_start:
            return None
        return self._log[position - self._log_start :]

    def changed_rows(self, position: int) -> ChangedRows | None:
        """Rows whose pods changed since a position, each once; None if the log no longer reaches back."""
        if position < self._log_start:
            return None
        changes = self._log_start + len(self._log) - position
        if changes <= _LISTED or changes * _WIDTH_OF_LISTING < self.size:
            return list(dict.fromkeys(self._log[position - self._log_start :]))
        return (self._changed_at[: self.size] >= position).nonzero()[0]

    def is_much(self, rows: int) -> bool:
        """Whether so many rows changed that all are sooner asked about at once than these one by one."""
        return rows * _FEW > self.size + _FEW

    # Nodes

    def put_node(self, node: Node) -> None:
        """Add a node or take over its new state."""
        row = self.row_of.get(node.metadata.name)
        facts = node_facts(node, self.resources)
        if row is not None and self.facts[row] == facts:
            self.nodes[row] = node
            return
        if row is not None and not self.images_are_structure and self._differs_by_images(row, facts):
            self.nodes[row], self.facts[row] = node, facts
            self._write_images(row, facts)
            return
        new = row is None
        if row is None:
            row = self._take_row(node.metadata.name)
        pods = list(self.pods_on[row].values())
        for info in pods:
            self._count(info, row, -1, live=info.live)
        self._write_facts(row, node, facts)
        for info in pods:
            self._count(info, row, 1, live=info.live)
        self.structure += 1
        if new:
            for info in self._orphans.pop(node.metadata.name, {}).values():
                self._place(info, row)

    def _differs_by_images(self, row: int, facts: NodeFacts) -> bool:
        """Whether a node has other images than before, and all else as it was."""
        before = self.facts[row]
        return before is not None and before._replace(images=facts.images) == facts

    def remove_node(self, name: str) -> None:
        """Take a node away. Pods that are still said to run there wait for it to come back."""
        row = self.row_of.pop(name, None)
        if row is None:
            return
        for info in list(self.pods_on[row].values()):
            self._unplace(info)
            self._orphans.setdefault(name, {})[info.key] = info
        self._give_up_row(row)
        self.structure += 1

    def _take_row(self, name: str) -> int:
        row = super()._take_row(name)
        if row == len(self.pods_on):
            self.pods_on.append({})
        return row

    def _grow_rows(self) -> None:
        super()._grow_rows()
        for name in ("requested", "free", "nonzero_cpu", "nonzero_memory", "pod_count", "places"):
            setattr(self, name, grow(getattr(self, name), self.capacity, 0))
        self._changed_at = grow(self._changed_at, self.capacity, -1)
        self.counts.grow(self.capacity)

    def _grow_resources(self) -> None:
        if len(self.resources.names) > self.requested.shape[0]:
            super()._grow_resources()
            self.requested = with_resources(self.requested, self.allocatable.shape[0])
            self.free = with_resources(self.free, self.allocatable.shape[0])
            self._least_free += [0] * (len(self.free) - len(self._least_free))

    def _write_facts(self, row: int, node: Node, facts: NodeFacts) -> None:
        super()._write_facts(row, node, facts)
        self._compare(row)

    def _give_up_row(self, row: int) -> None:
        super()._give_up_row(row)
        self._compare(row)

    def _compare(self, row: int) -> None:
        """What the node has is written: work out what is left of it."""
        self.free[:, row] = self.allocatable[:, row] - self.requested[:, row]
        self.places[row] = self.pod_limit[row] - self.pod_count[row]
        self._least_places = 0

    def fits_everywhere(self, requests: Vector) -> bool:
        """Whether every node has room for such a pod; True is certain, False is not. See `look_for_room`."""
        if self._least_places <= 0:
            return False
        least = self._least_free
        return all(amount <= least[column] for column, amount in requests)

    def look_for_room(self) -> None:
        """Find out how much every node has left at least, so that `fits_everywhere` can tell more often."""
        alive = self.alive[self.all_rows]
        if alive.any():
            self._least_free = self.free[:, self.all_rows][:, alive].min(axis=1).tolist()
            self._least_places = int(self.places[self.all_rows][alive].min())

    # Pods

    def pod_info(self, pod: Pod, *, pending: bool = False, before: PodInfo | None = None) -> PodInfo:
        """A pod with its shape; it is not counted anywhere yet. `before`: what it was, as which it mostly has the same shape."""
        if before is not None and keeps_shape(before.shape, before.pod, pod, pending=pending):
            shape = before.shape
        else:
            shape = self.shapes.shape(pod, pending=pending)
        info = PodInfo(pod, shape, self.resources)
        self._grow_resources()
        return info

    def put_pod(self, pod: Pod) -> PodInfo | None:
        """Count a pod on its node, or take over its new state. A pod that has ended, or has no node, is not counted."""
        if not pod.spec.node_name or is_ended(pod):
            self.remove_pod(f"{pod.metadata.namespace}/{pod.metadata.name}")
            return None
        info = self.pod_info(pod, before=self.pods.get(f"{pod.metadata.namespace}/{pod.metadata.name}"))
        self.place(info, pod.spec.node_name)
        return info

    def place(self, info: PodInfo, node_name: str) -> None:
        """Count a pod on a node, wherever it was before. If the node is unknown, the pod waits for it."""
        if info.key in self.pods:
            self.remove_pod(info.key)
        info.node_name = node_name
        self.pods[info.key] = info
        if info.shape.spec.scheduling_group is not None:
            self.gangs.note_placed(info.pod, 1)
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

    def terminate(self, info: PodInfo, pod: Pod) -> None:
        """Take over a new state of a pod that is being deleted now and takes on its node what its shape says, as before.

        It comes behind the other pods, as if it had been taken out and put in again.
        """
        row, key = info.row, info.key
        fresh = PodInfo(pod, info.shape, self.resources)
        if row < 0:
            self.place(fresh, info.node_name)
            return
        pods = self.pods_on[row]
        del pods[key], self.pods[key]
        pods[key] = self.pods[key] = fresh
        info.row, fresh.row = -1, row
        self.counts.terminate(info.shape.group, row)
        self._record(row)

    def relabel(self, info: PodInfo, pod: Pod) -> None:
        """Take over a new state of a pod that has other labels and is the same otherwise.

        That a pod got its node's topology labels when it was bound is no news of the node, unless somebody counts them.
        """
        old, new = info.shape, self.shapes.relabelled(info.shape, pod)
        row = info.row
        if row >= 0:
            self.counts.add(new.group, new.terms, row, 1, live=info.live)
            self.counts.add(old.group, old.terms, row, -1, live=info.live)
            if old.group.tallies != new.group.tallies or not _is_placed(old.labels, new.labels):
                self._record(row)
        info.shape = new
        self.renew(info, pod)

    def remove_pod(self, key: str) -> PodInfo | None:
        """Count a pod no more; None if it was not counted."""
        info = self.pods.pop(key, None)
        if info is None:
            return None
        if info.shape.spec.scheduling_group is not None:
            self.gangs.note_placed(info.pod, -1)
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
        self.structure += kind != _POD_GROUP

    def remove_object(self, kind: str, key: str) -> None:
        """Forget an object of the catalog."""
        self.catalog.remove(kind, key)
        self.structure += kind != _POD_GROUP

    def assume_object(self, kind: str, obj: Any) -> None:
        """Take an object of the catalog to be as given, until a newer state of it is seen."""
        self.catalog.assume(kind, obj)
        self.structure += 1

    def restore_object(self, kind: str, key: str) -> None:
        """Take such an assumption back."""
        self.catalog.restore(kind, key)
        self.structure += 1

    # Allocations of devices, until they are written; see `pending_allocations`

    def begin_allocation(self, claim: ResourceClaim, pod: str) -> PendingAllocation:
        """A claim has been given devices for a pod; nobody else may have them, or the claim, until that is written."""
        self.structure += 1
        return self.catalog.pending_allocations.begin(claim, pod)

    def join_allocation(self, claim: ResourceClaim, pod: str) -> PendingAllocation:
        """One more pod of the gang is going to use a claim that has been given devices. KeyError if it has not."""
        return self.catalog.pending_allocations.join(claim, pod)

    def leave_allocation(self, claim: str, pod: str) -> None:
        """A pod is not going to use the claim (by its identity); if nobody else is, the allocation is given up."""
        if self.catalog.pending_allocations.leave(claim, pod):
            self.structure += 1

    def end_allocation(self, claim: str) -> None:
        """The allocation of a claim (by its identity) is written, or given up."""
        if self.catalog.pending_allocations.end(claim):
            self.structure += 1

    @contextmanager
    def sharing_allocations(self) -> Iterator[None]:
        """While a gang is decided about: its pods find claims allocated that were allocated for others of them."""
        self.catalog.pending_allocations.open_cycle()
        try:
            yield
        finally:
            if self.catalog.pending_allocations.close_cycle():
                self.structure += 1

    # What-if evaluation

    @contextmanager
    def what_if(self, added: Sequence[PodInfo], removed: Sequence[PodInfo], row: int) -> Iterator[None]:
        """For a while, count some pods in and others out on one node, without a trace in the log.

        Two things follow kube-scheduler's preemption rather than common sense: pods that terminate are counted out of
        live counters, which never counted them; and a host port is free as soon as one of the pods that take it is
        gone.
        """
        pods = self.pods_on[row]
        ports = {(port.protocol, port.port) for info in (*added, *removed) for port in info.host_ports}
        addresses = {port: dict(self.ports.get(port, {}).get(row, {})) for port in ports}
        self.pods_on[row] = dict(pods)
        with self.counts.what_if():
            for info in removed:
                self.count_what_if(info, row, -1)
            for info in added:
                self.count_what_if(info, row, 1)
            try:
                yield
            finally:
                for info in added:
                    self.count_what_if(info, row, -1)
                for info in removed:
                    self.count_what_if(info, row, 1)
                self.pods_on[row] = pods
                for port, before in addresses.items():
                    if before:
                        self.ports[port][row] = before
                    else:
                        self.ports[port].pop(row, None)

    def count_what_if(self, info: PodInfo, row: int, delta: int) -> None:
        """Count a pod in or out for a while, within `what_if`; undone by the opposite `delta`."""
        self.supposed += 1
        if delta > 0:
            self.pods_on[row][info.key] = info
        else:
            self.pods_on[row].pop(info.key, None)
        self._count(info, row, delta, live=True)
        what_if = self._what_if_pods.get(info.shape.namespace)
        if what_if is not None:
            what_if.per_row[row] += delta
        if info.shape.volumes:
            _count_claims(info, self.what_if_claim_users, delta)
        for port in info.host_ports:
            addresses = self.ports.setdefault((port.protocol, port.port), {}).setdefault(row, {})
            if delta > 0:
                addresses[port.ip] = 1
            else:
                addresses.pop(port.ip, None)

    @contextmanager
    def taking(self, info: PodInfo, rows: Ints, counts: Ints) -> Iterator[None]:
        """For a while, count so many such pods in on each of some rows, in the columns of what they take only."""
        self._take(info, rows, counts)
        try:
            yield
        finally:
            self._take(info, rows, -counts)

    def _take(self, info: PodInfo, rows: Ints, counts: Ints) -> None:
        self.supposed += 1
        for column, amount in info.requests:
            self.requested[column, rows] += amount * counts
            self.free[column, rows] -= amount * counts
        self.nonzero_cpu[rows] += info.nonzero_cpu * counts
        self.nonzero_memory[rows] += info.nonzero_memory * counts
        self.pod_count[rows] += counts
        self.places[rows] -= counts
        if len(rows):
            least = self._least_free
            for column, _ in info.requests:
                least[column] = min(least[column], int(self.free[column, rows].min()))
            self._least_places = min(self._least_places, int(self.places[rows].min()))

    def what_if_pods(self, namespace: str) -> WhatIfPods:
        """How many more (or, negative, fewer) pods of a namespace are supposed to be on each node; hold it to be kept informed."""
        known = self._what_if_pods.get(namespace)
        if known is None or len(known.per_row) < self.capacity:
            known = self._what_if_pods[namespace] = WhatIfPods(self.capacity)
        return known

    def _place(self, info: PodInfo, row: int) -> None:
        info.row = row
        self.pods_on[row][info.key] = info
        self._count(info, row, 1, live=info.live)
        if info.shape.volumes:
            _count_claims(info, self.claim_users, 1)
        for port in info.host_ports:
            self._count_port(port, row, 1)
        self._record(row)

    def _unplace(self, info: PodInfo) -> None:
        row = info.row
        info.row = -1
        del self.pods_on[row][info.key]
        self._count(info, row, -1, live=info.live)
        if info.shape.volumes:
            _count_claims(info, self.claim_users, -1)
        for port in info.host_ports:
            self._count_port(port, row, -1)
        self._record(row)

    def _record(self, row: int) -> None:
        log = self._log
        self._changed_at[row] = self._log_start + len(log)
        log.append(row)
        if len(log) >= _MAX_LOG:
            drop = _MAX_LOG // 2
            del log[:drop]
            self._log_start += drop

    def _count(self, info: PodInfo, row: int, delta: int, *, live: bool) -> None:
        shape = info.shape
        requested, free, least = self.requested, self.free, self._least_free
        for column, amount in info.requests:
            requested[column, row] = requested.item(column, row) + delta * amount
            free[column, row] = left = free.item(column, row) - delta * amount
            if left < least[column]:
                least[column] = left
        self.nonzero_cpu[row] = self.nonzero_cpu.item(row) + delta * info.nonzero_cpu
        self.nonzero_memory[row] = self.nonzero_memory.item(row) + delta * info.nonzero_memory
        self.pod_count[row] = self.pod_count.item(row) + delta
        self.places[row] = places = self.places.item(row) - delta
        if places < self._least_places:
            self._least_places = places
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


def _is_placed(old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    """Whether all that differs are labels that tell where a pod runs."""
    return all(new.get(key) == value for key, value in old.items()) and all(
        key in old or key.startswith(_TOPOLOGY) for key in new
    )


def _count_claims(info: PodInfo, users: dict[str, int], delta: int) -> None:
    for key in claim_keys(info):
        count = users.get(key, 0) + delta
        if count:
            users[key] = count
        else:
            users.pop(key, None)


def claim_keys(info: PodInfo) -> list[str]:
    """`namespace/name` of the persistent volume claims that a pod mounts by name."""
    return [
        f"{info.shape.namespace}/{volume.persistent_volume_claim.claim_name}"
        for volume in info.shape.volumes
        if volume.persistent_volume_claim is not None
    ]
