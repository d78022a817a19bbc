"""TenantFairness: dominant resource fairness between queues of pods, with quotas and borrowing.

The share of a queue is the largest part of any one resource of the cluster that its pods have been given, divided by its weight. The next pod is
always one of the queue with the lowest share: progressive filling, so that no queue can have more without another with a lower share having less. Within
a queue pods go by priority, then by arrival. For example, with 9 cpu and 18 GiB, one queue of pods of 1 cpu and 4 GiB and one of pods of
3 cpu and 1 GiB end with three and two pods, a share of two thirds each.

A queue with a quota is kept to it; beyond it, it may borrow what the quotas of all queues together leave. What is borrowed comes back as pods end; nothing
is evicted.

Source of the behaviour: Ghodsi et al., Dominant Resource Fairness (NSDI 2011).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from bayplan.scheduler.framework.events import Action, EventHint
from bayplan.scheduler.framework.extension_points import GroupedQueueSortPlugin, PreEnqueuePlugin
from bayplan.scheduler.framework.extra_arguments import TenantFairnessArgs, TenantQueue
from bayplan.scheduler.framework.state import Handle, PodInfo, PodShape
from bayplan.scheduler.framework.verdicts import Reject, Status
from bayplan.scheduler.snapshot.resources import CPU
from bayplan.scheduler.snapshot.snapshot import Snapshot

_Amounts = dict[int, int]
"""Resource column -> amount."""


class _Usage:
    """What the pods of each queue take on nodes, kept up to date through the snapshot's log."""

    def __init__(self, snapshot: Snapshot, queue_of: Callable[[PodShape], str]) -> None:
        self._snapshot = snapshot
        self._queue_of = queue_of
        self._position = -1
        self._rows: dict[int, dict[str, _Amounts]] = {}
        self._totals: dict[str, _Amounts] = {}

    def of(self, queue: str) -> _Amounts:
        """What the pods of a queue take now; not to be changed."""
        snapshot = self._snapshot
        if self._position != snapshot.position:
            rows = snapshot.changed_since(self._position)
            if rows is None:
                self._rows, self._totals = {}, {}
                rows = list(range(len(snapshot.pods_on)))
            for row in dict.fromkeys(rows):
                self._count_again(row)
            self._position = snapshot.position
        return self._totals.get(queue, {})

    def _count_again(self, row: int) -> None:
        for queue, amounts in self._rows.pop(row, {}).items():
            self._add(self._totals[queue], amounts.items(), -1)
        found: dict[str, _Amounts] = {}
        for info in self._snapshot.pods_on[row].values():
            self._add(found.setdefault(self._queue_of(info.shape), {}), info.requests, 1)
        for queue, amounts in found.items():
            self._add(self._totals.setdefault(queue, {}), amounts.items(), 1)
        if found:
            self._rows[row] = found

    @staticmethod
    def _add(total: _Amounts, amounts: Any, sign: int) -> None:
        for column, amount in amounts:
            total[column] = total.get(column, 0) + sign * amount


class TenantFairness(GroupedQueueSortPlugin, PreEnqueuePlugin):
    """See the module."""

    name = "TenantFairness"
    tells = True

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args = args if isinstance(args, TenantFairnessArgs) else TenantFairnessArgs()
        self._queues = {queue.name: queue for queue in self.args.queues}
        self._usage = _Usage(self.snapshot, self.queue_of)
        self._capacity: _Amounts = {}
        self._structure = -1

    def queue_of(self, pod: PodShape) -> str:
        """The name of a pod's queue: its label, or its namespace."""
        return pod.labels.get(self.args.queue_label) or pod.namespace

    # Order

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[float, ...]:
        return (-pod.priority, queued_at)

    def group_of(self, pod: PodInfo) -> Hashable:
        return self.queue_of(pod.shape)

    def rank(self, group: Hashable) -> tuple[float, ...]:
        return (self.share(str(group)),)

    def share(self, queue: str) -> float:
        """The dominant share of a queue, divided by its weight: 0.5 is half of the cluster at weight 1."""
        capacity = self._capacities()
        parts = [amount / capacity[column] for column, amount in self._usage.of(queue).items() if column in capacity]
        known = self._queues.get(queue)
        return max(parts, default=0.0) / (known.weight if known is not None else 1)

    def _capacities(self) -> _Amounts:
        """What all nodes have together of the resources that are compared."""
        snapshot = self.snapshot
        if self._structure != snapshot.structure:
            self._structure = snapshot.structure
            rows = snapshot.all_rows
            alive = snapshot.alive[rows]
            sums = {
                column: int(snapshot.allocatable[column, rows][alive].sum())
                for column, name in enumerate(snapshot.resources.names)
                if not self.args.resources or name in self.args.resources
            }
            self._capacity = {column: total for column, total in sums.items() if total > 0}
        return self._capacity

    # Quotas

    def concerns(self, pod: PodShape) -> bool:
        queue = self._queues.get(self.queue_of(pod))
        return queue is not None and bool(queue.quota)

    def pre_enqueue(self, pod: PodInfo) -> Reject | None:
        queue = self._queues.get(self.queue_of(pod.shape))
        if queue is None:
            return None
        requests = dict(pod.requests)
        for resource, quota in queue.quota.items():
            column = self.snapshot.resources.find(resource)
            wanted = requests.get(column, 0) if column is not None else 0
            if column is None or not wanted:
                continue
            after = self._usage.of(queue.name).get(column, 0) + wanted
            if after > quota and (reason := self._why_not_borrowed(queue, resource, column, wanted, after)):
                return Reject(Status.UNSCHEDULABLE, (reason,))
        return None

    def _why_not_borrowed(self, queue: TenantQueue, resource: str, column: int, wanted: int, after: int) -> str:
        """Why a queue may not have so much of a resource, which is beyond its quota; "" if it may."""
        quota = queue.quota[resource]
        beyond = (
            f'queue "{queue.name}" would use {_shown(column, after)} {resource} of its quota of {_shown(column, quota)}'
        )
        if queue.borrowing_limit is not None:
            limit = queue.borrowing_limit.get(resource, 0)
            if after > quota + limit:
                return f"{beyond} and may borrow {_shown(column, limit)}"
        limited = [one for one in self.args.queues if resource in one.quota]
        total = sum(one.quota[resource] for one in limited)
        used = sum(self._usage.of(one.name).get(column, 0) for one in limited)
        if used + wanted > total:
            return f"{beyond}, and all queues leave {_shown(column, max(total - used, 0))}"
        return ""

    # Hints

    def events(self) -> tuple[EventHint, ...]:
        return (EventHint("Pod", Action.DELETE | Action.POD_SCALE_DOWN, self._frees_quota),)

    def _frees_quota(self, pod: PodInfo, old: Any, new: Any) -> bool:
        return self.pre_enqueue(pod) is None


def _shown(column: int, amount: int) -> str:
    """An amount as people write it."""
    if column != CPU:
        return str(amount)
    return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
