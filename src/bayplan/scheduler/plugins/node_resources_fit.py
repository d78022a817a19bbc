"""NodeResourcesFit: a node must have room for what the pod requests; how full it then is makes the score.

Strategies: LeastAllocated (default) spreads, MostAllocated packs, RequestedToCapacityRatio follows a given curve.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final, NamedTuple

import numpy as np

from bayplan.scheduler.framework.arguments import NodeResourcesFitArgs, ShapePoint
from bayplan.scheduler.framework.events import Action, EventHint, is_itself, left_node
from bayplan.scheduler.framework.extension_points import (
    MAX_NODE_SCORE,
    FilterPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Scope,
    ScorePlugin,
)
from bayplan.scheduler.framework.placement_fullness import PlacementFullness
from bayplan.scheduler.framework.placements import PlacementScorePlugin, Proposal
from bayplan.scheduler.framework.resource_columns import resource_columns, with_defaults
from bayplan.scheduler.framework.state import CycleState, Handle, PodInfo, PodShape
from bayplan.scheduler.framework.two_resource_scores import least_allocated
from bayplan.scheduler.framework.verdicts import Codes, Narrow, Reject, Skip, Status
from bayplan.scheduler.framework.what_if import WhatIf
from bayplan.scheduler.kernels.choice import KERNELS
from bayplan.scheduler.snapshot.device_totals import DeviceTotals, device_totals
from bayplan.scheduler.snapshot.extended_resources import class_behind
from bayplan.scheduler.snapshot.labels import Ints, Rows, part
from bayplan.scheduler.snapshot.nodes import node_facts
from bayplan.scheduler.snapshot.resources import (
    CPU,
    MEMORY,
    Vector,
    is_extended_resource,
    is_scalar_resource,
)

TOO_MANY_PODS: Final = 1
"""Lowest bit of a verdict's bit set; then two bits per requested resource: insufficient, and more than the node has."""


_TABULATED: Final = 5
"""Requested resources whose bit sets are looked up in a table."""
_IN_32_BITS: Final = 15
"""So many have bit sets of 32 bits at most."""
_UNKNOWN: Final = -1


class _Scored(NamedTuple):
    """A resource that counts for the score: `request` is what the pod adds to it."""

    column: int
    request: int
    weight: int
    devices: DeviceTotals | None
    """What nodes without the resource have of devices that stand for it."""


class _RowWhatIf(WhatIf):
    """The room on one node while pods come and go. `free`: per requested resource, negative if over-committed."""

    __slots__ = ("capacity", "free", "places", "plugin", "state", "vector")

    def __init__(self, plugin: NodeResourcesFit, state: CycleState, row: int) -> None:
        snapshot = plugin.snapshot
        allocatable, free = snapshot.allocatable, snapshot.free
        self.plugin = plugin
        self.state = state
        self.vector: Vector = state.data[plugin.name]
        self.capacity: list[int] = []
        self.free: dict[int, int] = {}
        for column, _ in self.vector:
            self.capacity.append(allocatable.item(column, row))
            self.free[column] = free.item(column, row)
        self.places = snapshot.places.item(row)

    def put_back(self, pod: PodInfo) -> None:
        self.places -= 1
        for column, amount in pod.requests:
            if column in self.free:
                self.free[column] -= amount

    def take_away(self, pod: PodInfo) -> None:
        self.places += 1
        for column, amount in pod.requests:
            if column in self.free:
                self.free[column] += amount

    def verdict(self) -> int:
        bits = TOO_MANY_PODS if self.places <= 0 else 0
        for position, (column, amount) in enumerate(self.vector):
            if amount <= self.free[column]:
                continue
            capacity = self.capacity[position]
            if capacity or column not in self.plugin.devices(self.state):
                bits |= (3 if amount > capacity else 1) << (2 * position + 1)
        return self.plugin.code(self.vector, bits)


class NodeResourcesFit(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, PlacementScorePlugin):
    """Refuses nodes without room; scores by how much of a node is requested, and placements of pod groups by how full they are."""

    name = "NodeResourcesFit"
    filter_scope = Scope.ROW
    score_scope = Scope.ROW
    filter_alone = 'error reading "PreFilterNodeResourcesFit" from cycleState: not found'

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args = args if isinstance(args, NodeResourcesFitArgs) else NodeResourcesFitArgs()
        self.curve = utilization_curve(self.args.shape) if self.args.shape else np.zeros(101, dtype=np.int64)
        self._codes: dict[tuple[tuple[int, ...], int], int] = {}
        """By the columns of the requested resources and the bit set."""
        self._tables: dict[tuple[int, ...], Codes] = {}
        """By these columns, the verdicts of all bit sets, as far as they have come up."""
        self._judged: tuple[Vector, frozenset[int], int, int, int] | None = None
        self._verdicts_on_all: Codes = np.zeros(0, dtype=np.int32)
        """The latest verdicts on all rows, and what they were about: pods of a gang often differ in labels only."""
        self._fullness = PlacementFullness(self.snapshot, self.args)

    # Filter

    def pre_filter(self, state: CycleState, pod: PodShape) -> Skip | Narrow | Reject | None:
        names = self.snapshot.resources.names
        vector = tuple(pair for pair in pod.requests if not self._is_ignored(names[pair[0]]))
        state.data[self.name] = vector
        classes = self.snapshot.catalog.device_classes
        if classes:
            state.data[f"{self.name}/devices"] = frozenset(
                column for column, _ in vector if "/" in names[column] and class_behind(names[column], classes)
            )
        return None

    def _is_ignored(self, name: str) -> bool:
        if not is_extended_resource(name):
            return False
        group = name.split("/", 1)[0]
        return name in self.args.ignored_resources or group in self.args.ignored_resource_groups

    def devices(self, state: CycleState) -> frozenset[int]:
        """Resources that nodes without them may provide as devices; DynamicResources sees to these."""
        found: frozenset[int] = state.data.get(f"{self.name}/devices", frozenset())
        return found

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        snapshot = self.snapshot
        vector: Vector = state.data[self.name]
        if snapshot.fits_everywhere(vector):
            return np.zeros(snapshot.select(rows), dtype=np.int32)
        if not isinstance(rows, slice):
            return self._by_columns(state, vector, rows)
        judged = (vector, self.devices(state), snapshot.position, snapshot.supposed, snapshot.structure)
        if judged != self._judged:
            codes = self._by_loop(state, vector)
            self._verdicts_on_all = codes if codes is not None else self._by_columns(state, vector, rows)
            self._judged = judged
            if not np.count_nonzero(self._verdicts_on_all):
                snapshot.look_for_room()
        return self._verdicts_on_all.copy()

    def _by_loop(self, state: CycleState, vector: Vector) -> Codes | None:
        """The verdicts on all rows by a compiled loop; None if one has not come up before, or the pod requests too many resources."""
        snapshot, loops = self.snapshot, KERNELS.loops
        if loops is None or len(vector) > _TABULATED:
            return None
        devices = self.devices(state)
        columns = [column for column, _ in vector]
        codes: Codes = loops.verdicts(
            snapshot.places,
            snapshot.free,
            snapshot.allocatable,
            np.array(columns, dtype=np.int64),
            np.array([amount for _, amount in vector], dtype=np.int64),
            np.array([column in devices for column in columns], dtype=np.int64),
            self._table(tuple(columns)),
            snapshot.size,
        )
        return None if len(codes) and codes.min() == _UNKNOWN else codes

    def _by_columns(self, state: CycleState, vector: Vector, rows: Rows) -> Codes:
        """The verdicts by NumPy; see `kernels.loops.verdicts` for the bit sets."""
        snapshot, devices = self.snapshot, self.devices(state)
        bits: Ints = (part(snapshot.places, rows) <= 0).astype(np.int32 if len(vector) < _IN_32_BITS else np.int64)
        for position, (column, amount) in enumerate(vector):
            short = part(snapshot.free[column], rows) < amount
            if not np.count_nonzero(short):
                continue
            allocatable = part(snapshot.allocatable[column], rows)
            if column in devices:
                short &= allocatable != 0
            bits |= short.astype(bits.dtype) << (2 * position + 1)
            short &= allocatable < amount
            bits |= short.astype(bits.dtype) << (2 * position + 2)
        return self._verdicts(vector, bits) if np.count_nonzero(bits) else np.zeros(len(bits), dtype=np.int32)

    def _verdicts(self, vector: Vector, bits: Ints) -> Codes:
        """The verdicts that bit sets stand for."""
        if len(vector) > _TABULATED:
            distinct, numbers = np.unique(bits, return_inverse=True)
            return np.array([self.code(vector, one) for one in distinct.tolist()], dtype=np.int32).take(numbers)
        table = self._table(tuple([column for column, _ in vector]))
        codes: Codes = table.take(bits)
        unknown = codes == _UNKNOWN
        if np.count_nonzero(unknown):
            # Not np.unique, which is slower and would import numpy.ma.
            for one in np.flatnonzero(np.bincount(bits[unknown])).tolist():
                table[one] = self.code(vector, one)
            codes = table.take(bits)
        return codes

    def _table(self, columns: tuple[int, ...]) -> Codes:
        """The verdicts by bit set, `_UNKNOWN` for those that have not come up."""
        table = self._tables.get(columns)
        if table is None:
            table = self._tables[columns] = np.full(2 << 2 * len(columns), _UNKNOWN, dtype=np.int32)
            table[0] = 0
        return table

    def filter_row(self, state: CycleState, pod: PodShape, row: int) -> int:
        snapshot = self.snapshot
        vector: Vector = state.data[self.name]
        bits = TOO_MANY_PODS if snapshot.places.item(row) <= 0 else 0
        free = snapshot.free
        for position, (column, amount) in enumerate(vector):
            if amount > free.item(column, row):
                capacity = snapshot.allocatable.item(column, row)
                if capacity or column not in self.devices(state):
                    bits |= (3 if amount > capacity else 1) << (2 * position + 1)
        return self.code(vector, bits)

    def row_what_if(self, state: CycleState, pod: PodShape, row: int) -> WhatIf | None:
        return _RowWhatIf(self, state, row)

    def code(self, vector: Vector, bits: int) -> int:
        """The verdict that a bit set stands for; it is the same whatever the amounts."""
        if not bits:
            return 0
        columns = tuple([column for column, _ in vector])
        code = self._codes.get((columns, bits))
        if code is None:
            reasons = ["Too many pods"] if bits & TOO_MANY_PODS else []
            status = Status.UNSCHEDULABLE
            for position, column in enumerate(columns):
                if bits >> (2 * position + 1) & 1:
                    reasons.append(f"Insufficient {self.snapshot.resources.names[column]}")
                if bits >> (2 * position + 2) & 1:
                    status = Status.UNRESOLVABLE
            code = self._codes[columns, bits] = self.reasons.code(status, self.name, *reasons)
        return code

    # Score

    def pre_score(self, state: CycleState, pod: PodShape, feasible: Rows) -> Skip | None:
        resources = self.snapshot.resources
        scored = []
        for item in self.args.resources:
            request = pod.amounts.filled.get(item.name, 0)
            column = resources.find(item.name)
            if column is None or (request == 0 and is_scalar_resource(item.name)):
                continue
            devices = device_totals(self.snapshot, item.name)
            scored.append(_Scored(column, request, item.weight, devices))
        state.score_data[self.name] = tuple(scored)
        return None

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        scored: tuple[_Scored, ...] = state.score_data[self.name]
        if len(scored) == 2 and self.args.strategy == "LeastAllocated":
            one, other = scored
            columns = resource_columns(self.snapshot, one.column, other.column)
            fast = least_allocated(columns, rows, (one.request, other.request), (one.weight, other.weight))
            if fast is not None:  # all nodes have both, so that no devices stand for them
                return fast
        return self._scores(state, rows, is_empty=False)

    def score_empty(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        return self._scores(state, rows, is_empty=True)

    def _scores(self, state: CycleState, rows: Rows, *, is_empty: bool) -> Ints:
        """The scores in whole numbers, by whatever strategy. is_empty: as if no pods were on the nodes."""
        snapshot = self.snapshot
        strategy = self.args.strategy
        total = np.zeros(snapshot.select(rows), dtype=np.int64)
        weights = np.zeros_like(total)
        scored: tuple[_Scored, ...] = state.score_data[self.name]
        for item in scored:
            capacity = snapshot.allocatable[item.column, rows]
            requested = np.zeros_like(capacity) if is_empty else self._requested(item, rows)
            if item.devices is not None:
                capacity, requested = item.devices.instead_of(capacity, requested, rows)
            requested = requested + item.request
            present = capacity != 0
            divisor = np.where(present, capacity, 1)
            if strategy == "LeastAllocated":
                scores = np.maximum(capacity - requested, 0) * MAX_NODE_SCORE // divisor
            else:
                scores = np.minimum(requested, capacity) * MAX_NODE_SCORE // divisor
                if strategy == "RequestedToCapacityRatio":
                    scores = self.curve[scores]
                    present = present & (scores > 0)
            total += np.where(present, scores * item.weight, 0)
            weights += np.where(present, item.weight, 0)
        divisor = np.where(weights == 0, 1, weights)
        if strategy == "RequestedToCapacityRatio":
            rounded: Ints = (2 * total + divisor) // (2 * divisor)
            return rounded
        quotient: Ints = total // divisor
        return quotient

    def _requested(self, item: _Scored, rows: Rows) -> Ints:
        return with_defaults(self.snapshot, item.column)[rows]

    def score_row(self, state: CycleState, pod: PodShape, row: int) -> int:
        if self.args.strategy != "LeastAllocated":
            return super().score_row(state, pod, row)
        snapshot = self.snapshot
        total = weights = 0
        scored: tuple[_Scored, ...] = state.score_data[self.name]
        for item in scored:
            column = item.column
            capacity = snapshot.allocatable.item(column, row)
            if not capacity:
                capacity, requested = item.devices.on(row) if item.devices is not None else (0, 0)
                if not capacity:
                    continue
            elif column == CPU:
                requested = snapshot.nonzero_cpu.item(row)
            elif column == MEMORY:
                requested = snapshot.nonzero_memory.item(row)
            else:
                requested = snapshot.requested.item(column, row)
            total += max(capacity - requested - item.request, 0) * MAX_NODE_SCORE // capacity * item.weight
            weights += item.weight
        return total // weights if weights else 0

    def score_placements(self, placed: int, proposal: Proposal) -> Ints:
        return self._fullness.of(proposal)

    # Hints

    def events(self) -> tuple[EventHint, ...]:
        return (
            EventHint("Pod", Action.DELETE, self._frees_room, per_shape=True),
            EventHint("Pod", Action.POD_SCALE_DOWN, _is_itself_or_placed),
            EventHint("Node", Action.ADD | Action.NODE_ALLOCATABLE, self._node_could_fit, per_shape=True),
            EventHint("DeviceClass", Action.ADD | Action.UPDATE, _offers_a_resource, per_shape=True),
        )

    def _frees_room(self, pod: PodInfo, old: Any, new: Any) -> bool:
        """The node that a pod left, or was promised, has room now, or would have without the pods of lower priority there.

        kube-scheduler does not look at the node: it tries all pods again whenever one is deleted.
        """
        snapshot = self.snapshot
        node_name = left_node(old)
        row = snapshot.row_of.get(node_name)
        if row is None:
            return bool(node_name)
        removable = [other for other in snapshot.pods_on[row].values() if other.priority < pod.priority]
        if snapshot.pod_count.item(row) - len(removable) >= snapshot.pod_limit.item(row):
            return False
        names = snapshot.resources.names
        for column, amount in pod.shape.requests:
            if "/" in names[column]:
                continue  # May be ignored, or come from devices.
            free = snapshot.allocatable.item(column, row) - snapshot.requested.item(column, row)
            if amount > free and amount > free + sum(dict(other.requests).get(column, 0) for other in removable):
                return False
        return True

    def _node_could_fit(self, pod: PodInfo, old: Any, new: Any) -> bool:
        facts = node_facts(new, self.snapshot.resources)
        capacity = dict(facts.allocatable)
        if facts.pod_limit < 1 or any(amount > capacity.get(column, 0) for column, amount in pod.shape.requests):
            return False
        if old is None:
            return True
        before = node_facts(old, self.snapshot.resources)
        earlier = dict(before.allocatable)
        return facts.pod_limit > before.pod_limit or any(
            capacity.get(column, 0) > earlier.get(column, 0) for column, _ in pod.shape.requests
        )


def utilization_curve(shape: tuple[ShapePoint, ...]) -> Ints:
    """Score (0..100) at each utilization from 0 to 100 %, linear between the points of the shape (scores 0..10)."""
    points = [(point.utilization, point.score * 10) for point in shape]
    curve = []
    for utilization in range(101):
        index = bisect_left(points, (utilization,))
        if index in (0, len(points)):
            curve.append(points[min(index, len(points) - 1)][1])
            continue
        (left, low), (right, high) = points[index - 1], points[index]
        curve.append(low + int((high - low) * (utilization - left) / (right - left)))
    return np.array(curve, dtype=np.int64)


def _is_itself_or_placed(pod: PodInfo, old: Any, new: Any) -> bool:
    """A pod that takes less now is the waiting one, or leaves more of its node."""
    return is_itself(pod, old, new) or bool(new.spec.node_name)


def _offers_a_resource(pod: PodInfo, old: Any, new: Any) -> bool:
    """A class came to stand for a resource that the pod requests."""
    resources = {name for container in pod.shape.spec.containers for name in container.resources.requests}
    name = new.metadata.name
    return any(class_behind(resource, {name: new}) for resource in resources if "/" in resource)
