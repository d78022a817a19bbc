"""Trees of pod groups: composite groups of Kubernetes 1.37, whose children are pod groups or composite groups (KEP-6012).

A tree is placed as a whole. A composite group with a gang policy needs `minGroupCount` of its children, one with the basic policy one of them.
Worked example: job (gang, 2) over replica-0 and replica-1 (gangs of 4 pods): the tree is ready when both replicas have 4 pods, `root_of` either
is job, and `leaves` of job are the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bayplan.api.types.scheduling_v1alpha2 import PodGroup

if TYPE_CHECKING:
    from bayplan.scheduler.snapshot.gangs import Gangs

MOST_LEVELS: Final = 4
"""Levels of a tree, its pod groups included (`WorkloadMaxTreeDepth`)."""


class NewerPodGroup(PodGroup):
    """A pod group of Kubernetes 1.37 (`v1beta1`), which can be the child of a composite group."""

    parent: str = ""
    """`namespace/name` of the composite group; empty for a group that stands alone."""
    preempts: bool = True
    """Whether its preemption policy allows it to evict others."""


@dataclass(frozen=True, slots=True)
class CompositeGroup:
    """A group of groups. `group` holds its metadata, topology, priority and conditions in the form of a pod group."""

    group: PodGroup
    parent: str = ""
    """`namespace/name` of the composite group above; empty for a root."""
    min_groups: int = 0
    """How many children have to be placed together; 0 with the basic policy."""
    preempts: bool = True

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.group.metadata.namespace}/{self.group.metadata.name}"

    @property
    def needed(self) -> int:
        """How many children have to be placed for the group to be."""
        return max(self.min_groups, 1)


class TreeError(Exception):
    """A group is not in a tree that can be placed; the text says why."""


class GroupTrees:
    """All composite groups and the pod groups under them."""

    def __init__(self) -> None:
        self.composites: dict[str, CompositeGroup] = {}
        self._parents: dict[str, str] = {}
        """Pod group -> composite group."""
        self._groups_in: dict[str, dict[str, None]] = {}
        self._composites_in: dict[str, dict[str, None]] = {}

    def put(self, composite: CompositeGroup) -> None:
        """Keep a composite group."""
        self.remove(composite.key)
        self.composites[composite.key] = composite
        if composite.parent:
            self._composites_in.setdefault(composite.parent, {})[composite.key] = None

    def remove(self, key: str) -> None:
        """Forget a composite group, if it is known."""
        known = self.composites.pop(key, None)
        if known is not None and known.parent:
            _unlist(self._composites_in, known.parent, key)

    def put_group(self, key: str, parent: str) -> None:
        """Keep under which composite group a pod group is; under none if `parent` is empty."""
        before = self._parents.pop(key, "")
        if before and before != parent:
            _unlist(self._groups_in, before, key)
        if parent:
            self._parents[key] = parent
            self._groups_in.setdefault(parent, {})[key] = None

    @property
    def has_children(self) -> bool:
        """Whether any pod group is under a composite group."""
        return bool(self._parents)

    def is_child(self, group: str) -> bool:
        """Whether a pod group is under a composite group."""
        return group in self._parents

    def root_of(self, group: str) -> str:
        """The composite group on top of a pod group; empty if it stands alone. Raises TreeError."""
        key, seen = self._parents.get(group, ""), 1
        while key:
            composite = self.composites.get(key)
            if composite is None:
                raise TreeError(f'waiting for composite pod group "{_name(key)}" spec to appear')
            seen += 1
            if seen > MOST_LEVELS:
                raise TreeError(f'composite pod group "{_name(key)}" is in a tree of more than {MOST_LEVELS} levels')
            if not composite.parent:
                return key
            key = composite.parent
        return ""

    def is_beside(self, group: str, other: str) -> bool:
        """Whether two pod groups are in one tree, as far as it is known."""
        above = self.above(group)
        return bool(above) and self.above(other)[:1] == above[:1]

    def above(self, group: str) -> list[str]:
        """The composite groups above a pod group that are there, the topmost first."""
        found: list[str] = []
        key = self._parents.get(group, "")
        while key in self.composites and len(found) < MOST_LEVELS:
            found.insert(0, key)
            key = self.composites[key].parent
        return found

    def groups_in(self, composite: str) -> list[str]:
        """The pod groups right under a composite group, in the order in which they came."""
        return list(self._groups_in.get(composite, ()))

    def composites_in(self, composite: str) -> list[str]:
        """The composite groups right under one, in the order in which they came."""
        return list(self._composites_in.get(composite, ()))

    def leaves(self, composite: str, levels: int = MOST_LEVELS) -> Iterator[str]:
        """All pod groups under a composite group."""
        if levels <= 0:
            return
        yield from self.groups_in(composite)
        for child in self.composites_in(composite):
            yield from self.leaves(child, levels - 1)

    def is_ready(self, composite: str, is_group_ready: Callable[[str], bool], levels: int = MOST_LEVELS) -> bool:
        """Whether enough children are ready, as far down as the tree goes."""
        known = self.composites.get(composite)
        if known is None or levels <= 0:
            return False
        ready = sum(is_group_ready(key) for key in self.groups_in(composite))
        ready += sum(self.is_ready(key, is_group_ready, levels - 1) for key in self.composites_in(composite))
        return ready >= known.needed

    def fewest_pods(self, composite: str, minimum: Callable[[str], int], levels: int = MOST_LEVELS) -> int:
        """How many pods have to be placed, at least, for a composite group to be; `minimum` of a pod group."""
        known = self.composites.get(composite)
        if known is None or levels <= 0:
            return 0
        counts = [minimum(key) for key in self.groups_in(composite)]
        counts += [self.fewest_pods(key, minimum, levels - 1) for key in self.composites_in(composite)]
        return sum(sorted(counts)[: known.needed])

    def is_constrained(self, composite: str, levels: int = MOST_LEVELS) -> bool:
        """Whether a composite group, or one under it, is bound to a topology."""
        known = self.composites.get(composite)
        if known is None or levels <= 0:
            return False
        return known.group.spec.scheduling_constraints is not None or any(
            self.is_constrained(child, levels - 1) for child in self.composites_in(composite)
        )


def count_is_enough(gangs: Gangs, group: PodGroup | None, key: str) -> bool:
    """Whether a pod group has as many pods as it needs; one at least."""
    if group is None:
        return False
    gang = group.spec.scheduling_policy.gang
    return gangs.count(key) >= max(gang.min_count if gang is not None else 0, 1)


def _unlist(table: dict[str, dict[str, None]], parent: str, key: str) -> None:
    children = table.get(parent)
    if children is not None:
        children.pop(key, None)
        if not children:
            del table[parent]


def _name(key: str) -> str:
    return key.partition("/")[2]
