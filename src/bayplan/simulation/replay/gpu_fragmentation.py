"""How much of the GPUs that are free is in pieces that pods cannot use.

The measure of "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (USENIX ATC
2023), for the pods of a workload that ask for GPUs: for each, what is free on nodes that do not take it, and on others
what is free of GPUs that have less than it asks for; in the mean over the pods, as a share of all that is free. Which
nodes take a pod is asked of the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from bayplan.api.types.core_v1 import Container, Pod
from bayplan.scheduler.library import Planner
from bayplan.scheduler.planning.capacity import capacity_for
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.simulation.replay.gpu_shares import GPU, GpuShares, Shares, shares_of


@dataclass(frozen=True, slots=True)
class Want:
    """Pods of one shape that ask for GPUs."""

    pod: PodInfo
    """One of them, which is nowhere."""
    shares: Shares
    count: int


def wants_of(planner: Planner, looks: Iterable[tuple[Pod, int]]) -> list[Want]:
    """Those of the pods (one of each look, and how many there are) that ask for GPUs."""
    found = []
    for number, (pod, count) in enumerate(looks):
        shares = shares_of(pod.spec)
        if shares:
            name = f"look-{number}"
            alike = replace(pod, metadata=replace(pod.metadata, name=name, uid=name))
            found.append(Want(planner.pod(alike), shares, count))
    return found


def gpu_fragmentation(planner: Planner, gpus: GpuShares, wants: Iterable[Want]) -> float:
    """The share of the free GPUs, 0 to 1, that pods cannot use in the mean; 0 if nothing is free."""
    rows = {row: gpus.free(row) for row in planner.snapshot.row_of.values()}
    free = {row: (sum(each), each) for row, each in rows.items() if any(each)}
    total = sum(amount for amount, _ in free.values())
    pods = usable = 0
    for want in wants:
        cycle = planner.cycle_for(want.pod)
        evaluation, codes = cycle.judged(want.pod)
        verdicts = codes.tolist() if evaluation.rejection is None else []
        least = want.shares[-1]
        if verdicts:
            usable += want.count * sum(
                _at_least(least, amount, each) for row, (amount, each) in free.items() if verdicts[row] == 0
            )
        pods += want.count
    return 1.0 - usable / (pods * total) if pods and total else 0.0


def _at_least(least: int, amount: int, each: Iterable[int]) -> int:
    """What is free (`amount` in all) of GPUs of which so much is free."""
    return amount - sum(room for room in each if room < least)


def room_with_gpus(planner: Planner, gpus: GpuShares, pod: Pod) -> int:
    """How many more pods like this one fit.

    Where pods take what they need and do not see one another, that is node by node the lesser of two numbers: of those
    that fit by all but their GPUs, and of those that the GPUs take. Others are placed one by one.
    """
    shares = shares_of(pod.spec)
    containers = tuple(_without_gpus(container) for container in pod.spec.containers)
    room = capacity_for(planner, replace(pod, spec=replace(pod.spec, containers=containers)))
    if room.one_by_one or len(set(shares)) > 1:
        return capacity_for(planner, pod).total
    row_of = planner.snapshot.row_of
    return sum(min(count, _pods_on(gpus.free(row_of[name]), shares)) for name, count in room.per_node.items())


def _without_gpus(container: Container) -> Container:
    requests: Mapping[str, str | int | float] = {
        name: amount for name, amount in container.resources.requests.items() if name != GPU
    }
    return replace(container, resources=replace(container.resources, requests=dict(requests)))


def _pods_on(free: Iterable[int], shares: Shares) -> int:
    """How many pods with these shares, which are equal and each of a pod on another GPU, such GPUs take.

    So many pods fit if the GPUs take all their shares, and no GPU more than one of each pod.
    """
    wanted = len(shares)
    takes = [room // shares[0] for room in free]
    low, high = 0, sum(takes) // wanted
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(middle, take) for take in takes) >= wanted * middle:
            low = middle
        else:
            high = middle - 1
    return low
