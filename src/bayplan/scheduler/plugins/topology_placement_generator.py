"""TopologyPlacementGenerator: a pod group runs within one domain of a topology key, such as one rack (KEP-5732).

The key is the one of `spec.schedulingConstraints.topology`. Bayplan adds levels in order of preference by an
annotation of the group, which kube-scheduler does not read:

    bayplan.dev/preferred-topology: example.com/rack,example.com/block

A group that no rack holds is tried in the blocks, and in the end wherever the required key lets it be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from bayplan.scheduler.framework.events import Action, EventHint
from bayplan.scheduler.framework.placements import PlacementGeneratePlugin, Placements
from bayplan.scheduler.framework.state import Handle, PodInfo
from bayplan.scheduler.framework.verdicts import PluginError, Reject, Status
from bayplan.scheduler.snapshot.gangs import PREFERRED_TOPOLOGY
from bayplan.scheduler.snapshot.labels import Ids

if TYPE_CHECKING:
    from bayplan.api.types.scheduling_v1alpha2 import PodGroup

NOWHERE: Final = "no feasible placements found"


class TopologyPlacementGenerator(PlacementGeneratePlugin):
    """The domains of a node label as placements."""

    name = "TopologyPlacementGenerator"

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self._known: dict[tuple[str, ...], Placements] = {}
        self._structure = -1

    def generate_placements(self, group: PodGroup, placed: Sequence[PodInfo]) -> tuple[Placements, ...] | Reject | None:
        constraints = group.spec.scheduling_constraints
        required = tuple(item.key for item in constraints.topology) if constraints is not None else ()
        preferred = preferred_keys(group)
        if not required and not preferred:
            return None
        if len(required) > 1:
            reason = f"{NOWHERE}: a pod group has one topology key at most, not {', '.join(required)}"
            return Reject(Status.UNRESOLVABLE, (reason,))
        levels = [self._placements((*required, key)) for key in preferred if key not in required]
        last = self._placements(required)
        if not len(last.numbers):
            reason = f"{NOWHERE}: no node has the label {last.label}"
            return Reject(Status.UNRESOLVABLE, (reason,))
        if placed:
            levels = [within for level in levels if (within := _holding(level, placed)) is not None]
            last = self._holding_all(last, placed)
        return (*levels, last)

    def _holding_all(self, placements: Placements, placed: Sequence[PodInfo]) -> Placements:
        """The domain in which the group's pods are already. Raises PluginError if that is not one."""
        domains = {int(placements.domain_of[pod.row]): pod for pod in placed if pod.row >= 0}
        if -1 in domains:
            pod = domains[-1]
            raise PluginError(
                self.name,
                f"cannot determine domain for already scheduled pods: no topology domain found for pod {pod.key}",
            )
        if len(domains) > 1:
            names = ", ".join(sorted(placements.names[number] for number in domains))
            raise PluginError(
                self.name,
                f"cannot determine domain for already scheduled pods: more than 1 domain found for pod group: {names}",
            )
        return _only(placements, next(iter(domains))) if domains else placements

    def _placements(self, keys: tuple[str, ...]) -> Placements:
        """The sets of nodes that agree in all of some labels; of no labels, all nodes."""
        if self._structure != self.snapshot.structure:
            self._known.clear()
            self._structure = self.snapshot.structure
        known = self._known.get(keys)
        if known is None:
            known = self._known[keys] = self._made(keys)
        return known

    def _made(self, keys: tuple[str, ...]) -> Placements:
        snapshot = self.snapshot
        if not keys:
            everywhere: Ids = np.where(snapshot.alive, 0, -1).astype(np.int32)
            return Placements("", ("the cluster",), everywhere)
        columns = [snapshot.label_column(key) for key in keys]
        if len(columns) == 1:
            return Placements(keys[0], tuple(columns[0].values), columns[0].ids.copy())
        outer, inner = columns
        pairs = outer.ids.astype(np.int64) * (len(inner.values) + 1) + inner.ids
        has_both = (outer.ids >= 0) & (inner.ids >= 0)
        distinct, numbers = np.unique(pairs[has_both], return_inverse=True)
        domain_of: Ids = np.full(len(pairs), -1, dtype=np.int32)
        domain_of[has_both] = numbers
        names = [
            f"{outer.values[pair // (len(inner.values) + 1)]}/{inner.values[pair % (len(inner.values) + 1)]}"
            for pair in distinct.tolist()
        ]
        return Placements(",".join(keys), tuple(names), domain_of)

    def events(self) -> tuple[EventHint, ...]:
        return (
            EventHint("Node", Action.ADD),
            EventHint("Node", Action.NODE_LABEL),
            EventHint("Node", Action.NODE_ALLOCATABLE),
            EventHint("Node", Action.NODE_TAINT),
            EventHint("Pod", Action.DELETE),
        )


def preferred_keys(group: PodGroup) -> tuple[str, ...]:
    """The topology keys that a group's annotation names, the narrowest first."""
    text = group.metadata.annotations.get(PREFERRED_TOPOLOGY, "")
    return tuple(dict.fromkeys(key.strip() for key in text.split(",") if key.strip()))


def _holding(placements: Placements, placed: Sequence[PodInfo]) -> Placements | None:
    """The one domain that has all of some pods; None if there is none."""
    domains = {int(placements.domain_of[pod.row]) for pod in placed if pod.row >= 0}
    if len(domains) > 1 or -1 in domains:
        return None
    return _only(placements, domains.pop()) if domains else placements


def _only(placements: Placements, number: int) -> Placements:
    domain_of: Ids = np.where(placements.domain_of == number, number, -1).astype(np.int32)
    return Placements(placements.label, placements.names, domain_of)
