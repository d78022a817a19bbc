"""Pods that are counted on nodes without being bound: what a planner places, and what a question supposes."""

from __future__ import annotations

from bayplan.scheduler.binding_cycle import BindingCycle
from bayplan.scheduler.cycle import Cycle
from bayplan.scheduler.decision import Decision
from bayplan.scheduler.queueing.nominator import Nominator
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.scheduler.snapshot.snapshot import Snapshot


class TentativePlacements:
    """Places pods in a snapshot, with what plugins reserve for them, and takes them back."""

    def __init__(self, snapshot: Snapshot, nominator: Nominator) -> None:
        self._snapshot = snapshot
        self._nominator = nominator
        self._binding_cycles: dict[str, BindingCycle] = {}
        """Those of placed pods for which plugins have reserved something."""

    def place(self, cycle: Cycle, info: PodInfo, decision: Decision) -> None:
        """Count a pod on the node that was found for it, and let plugins reserve what it takes besides.

        If a plugin refuses, the decision is one of no node from then on.
        """
        node_name = decision.names[decision.row]
        self._nominator.remove(info.key)
        self._snapshot.place(info, node_name)
        plugin_plan = cycle.profile.plugin_plan(info.shape)
        if plugin_plan.reserve:
            binding_cycle = BindingCycle(plugin_plan, cycle.state_of(info.shape), info, node_name, cycle.profile)
            failure = binding_cycle.reserve()
            self._binding_cycles[info.key] = binding_cycle
            if failure is not None:
                self.take_back(info.key)
                decision.refuse(failure)
            else:
                binding_cycle.conclude()

    def take_back(self, key: str) -> None:
        """Undo `place`: count a pod no more, and let plugins give back what they reserved for it. Last placed, first undone."""
        self._snapshot.remove_pod(key)
        binding_cycle = self._binding_cycles.pop(key, None)
        if binding_cycle is not None:
            binding_cycle.undo()

    def forget(self, key: str) -> None:
        """What plugins reserved for a pod stays as it is."""
        self._binding_cycles.pop(key, None)
