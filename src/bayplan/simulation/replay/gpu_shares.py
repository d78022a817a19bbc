"""GPUs of a replay one by one: a scheduler plugin that gives each share of a GPU to one GPU, and whole GPUs to one pod.

Kubernetes knows how much of an extended resource a node has, and not of how many devices. A trace whose pods ask for
parts of GPUs needs more: what a container asks for of the resource is, up to 1000, a share of one GPU, and above that
so many whole GPUs. All shares of a pod are on different GPUs. Of those that have room, a share gets the fullest.

    free 500 500; pod asks 600 -> refused, though 1000 are free; pod asks 400 -> free 100 500
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bayplan.api.quantity import parse
from bayplan.api.types import core_v1
from bayplan.scheduler.framework.extension_points import PreFilterPlugin, ReservePlugin, ScalarFilterPlugin, Scope
from bayplan.scheduler.framework.state import CycleState
from bayplan.scheduler.framework.verdicts import SKIP, Narrow, Reject, Skip, Status
from bayplan.scheduler.library import Planner
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.scheduler.snapshot.shape import PodShape
from bayplan.support.metrics.instruments import Counter

GPU: Final = "alibabacloud.com/gpu-milli"
"""Extended resource: thousandths of GPUs."""
WHOLE: Final = 1000

Shares = tuple[int, ...]
"""Thousandths of one GPU each, largest first."""


def shares_in(amounts: Mapping[str, Any]) -> Shares:
    """The GPUs behind an amount: whole ones, and what is left over of one more."""
    whole, rest = divmod(parse(amounts.get(GPU, 0)).value(), WHOLE)
    return (WHOLE,) * whole + ((rest,) if rest else ())


def shares_of(spec: core_v1.PodSpec) -> Shares:
    """The shares that a pod asks for, container by container."""
    found = [share for container in spec.containers for share in shares_in(container.resources.requests)]
    return tuple(sorted(found, reverse=True))


def fits(free: Sequence[int], shares: Shares) -> bool:
    """Whether GPUs with so much free take these shares, each on another GPU."""
    if len(shares) > len(free):
        return False
    if len(shares) == 1:
        return max(free) >= shares[0]
    return all(room >= share for room, share in zip(sorted(free, reverse=True), shares, strict=False))


def chosen(free: Sequence[int], shares: Shares) -> list[int]:
    """For each share the index of its GPU: of those that have room, the one with the least. Raises ValueError if they do not fit."""
    found: list[int] = []
    for share in shares:
        open_ = (index for index, room in enumerate(free) if room >= share and index not in found)
        found.append(min(open_, key=lambda index: (free[index], index)))
    return found


class GpuShares(PreFilterPlugin, ScalarFilterPlugin, ReservePlugin):
    """Keeps pods off nodes that have no GPU with enough free, and remembers who has which."""

    name = "GpuShares"
    filter_scope = Scope.ROW
    sparse = True

    def __init__(self, args: object, handle: Any) -> None:
        super().__init__(args, handle)
        self._given: dict[str, tuple[str, list[int]]] = {}
        """Pod -> its node and the GPUs of its shares there. Of pods that are gone it means nothing."""

    def concerns(self, pod: PodShape) -> bool:
        return bool(self._shares(pod))

    def pre_filter(self, state: CycleState, pod: PodShape) -> Skip | Narrow | Reject | None:
        return None if self._shares(pod) else SKIP

    def filter_node(self, state: CycleState, pod: PodShape, row: int) -> int:
        if fits(self.free(row), self._shares(pod)):
            return 0
        return self.reasons.code(Status.UNSCHEDULABLE, self.name, "no GPU with enough free")

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Reject | None:
        shares = self._shares(pod.shape)
        self._given.pop(pod.key, None)
        free = self._free(self.snapshot.row_of[node_name], without=pod.key)
        if not fits(free, shares):
            return Reject(Status.UNSCHEDULABLE, ("no GPU with enough free",))
        self._given[pod.key] = (node_name, chosen(free, shares))
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._given.pop(pod.key, None)

    def free(self, row: int) -> list[int]:
        """Thousandths that are free of each GPU of a node."""
        return self._free(row)

    def _free(self, row: int, without: str = "") -> list[int]:
        node = self.snapshot.nodes[row]
        free = list(shares_in(node.status.allocatable)) if node is not None else []
        if not free or node is None:
            return free
        newcomers: list[Shares] = []
        for key, info in self.snapshot.pods_on[row].items():
            shares = self._shares(info.shape) if key != without else ()
            if not shares:
                continue
            place, gpus = self._given.get(key, ("", []))
            if place != node.metadata.name:
                newcomers.append(shares)
                continue
            for share, gpu in zip(shares, gpus, strict=True):
                free[gpu] -= share
        for shares in newcomers:  # supposed to be here, or here from the beginning: nobody has chosen for them
            for share, gpu in zip(shares, chosen(free, shares) if fits(free, shares) else (), strict=False):
                free[gpu] -= share
        return free

    def _shares(self, pod: PodShape) -> Shares:
        known = pod.cache.get(self.name)
        if known is None:
            known = pod.cache[self.name] = shares_of(pod.spec)
        return known  # type: ignore[return-value]  # the cache is everybody's


def share_gpus(planner: Planner) -> GpuShares | None:
    """Let a planner that has decided nothing yet place GPUs one by one; None, and nothing changed, if no node has any.

    The plugin is the last filter of every profile. Returns that of the first, which knows all if pods have one scheduler.
    """
    nodes = (node for node in planner.snapshot.nodes if node is not None)
    if not any(shares_in(node.status.allocatable) for node in nodes):
        return None
    shared: GpuShares | None = None
    for settings in planner.settings.profiles:
        stub = core_v1.Pod(spec=core_v1.PodSpec(scheduler_name=settings.scheduler_name))
        profile = planner.cycle_for(planner.pod(stub)).profile
        plugin = GpuShares(None, profile)
        if shared is None:
            shared = plugin
        plugin._given = shared._given
        profile.plugins[plugin.name] = plugin
        profile.pre_filter.append(plugin)
        profile.filter.append(plugin)
        profile.reserve.insert(0, plugin)
        profile.evaluations |= {(plugin.name, "PreFilter"): Counter(), (plugin.name, "Filter"): Counter()}
    return shared
