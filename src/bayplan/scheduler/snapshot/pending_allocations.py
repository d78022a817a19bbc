"""Claims that have been given devices, which nobody has written yet.

Each belongs to the pod for which it was allocated. The pods of a gang that are placed in one cycle share it: the first
is given devices, the others find the claim allocated and join, and it is given up when the last of them leaves.

    cycle of gang g          pods of claim c
    g0 is given gpu-0        g0
    g1 finds it, joins       g0, g1
    g0 is taken back         g1
    g1 is taken back         (gone, gpu-0 is free)

Whoever comes after the cycle waits until the allocation is written, pods of the same gang included. Source:
`podGroupStateData` and `claimTracker` of kube-scheduler 1.36's DynamicResources.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayplan.api.types.resource_v1 import ResourceClaim


def identity(claim: ResourceClaim) -> str:
    """What tells a claim from all others: its UID, or `namespace/name` if no API server has seen it."""
    return claim.metadata.uid or f"{claim.metadata.namespace}/{claim.metadata.name}"


@dataclass(slots=True, eq=False)
class PendingAllocation:
    """One of them, and who is going to use it."""

    claim: ResourceClaim
    """As it will be once the allocation is written."""
    pods: set[str] = field(default_factory=set)
    """`namespace/name`."""
    is_written: bool = False
    """One of the pods has written it."""


class PendingAllocations(Mapping[str, "ResourceClaim"]):
    """By the claims' identity: the claims as they will be once their allocation is written."""

    __slots__ = ("_begun", "_pending")

    def __init__(self) -> None:
        self._pending: dict[str, PendingAllocation] = {}
        self._begun: set[str] | None = None
        """What was begun in the cycle of the gang that is being decided about; None if none is."""

    def __getitem__(self, claim: str) -> ResourceClaim:
        return self._pending[claim].claim

    def __iter__(self) -> Iterator[str]:
        return iter(self._pending)

    def __len__(self) -> int:
        return len(self._pending)

    def begin(self, claim: ResourceClaim, pod: str) -> PendingAllocation:
        """A claim has been allocated for a pod."""
        key = identity(claim)
        begun = self._pending[key] = PendingAllocation(claim, {pod})
        if self._begun is not None:
            self._begun.add(key)
        return begun

    def shared(self, claim: ResourceClaim) -> ResourceClaim | None:
        """The claim as allocated for another pod of the gang that is being decided about; None if it was not."""
        key = identity(claim)
        return self[key] if self._begun is not None and key in self._begun else None

    def user_count(self, claim: ResourceClaim) -> int:
        """How many pods are going to use a claim, besides those that do."""
        pending = self._pending.get(identity(claim))
        return len(pending.pods) if pending is not None else 0

    def join(self, claim: ResourceClaim, pod: str) -> PendingAllocation:
        """One more pod is going to use a claim that is here. KeyError if it is not."""
        joined = self._pending[identity(claim)]
        joined.pods.add(pod)
        return joined

    def leave(self, claim: str, pod: str) -> bool:
        """A pod is not going to use it after all; tells whether it was the last, so that the allocation is given up."""
        pending = self._pending.get(claim)
        if pending is None:
            return False
        pending.pods.discard(pod)
        return not pending.pods and self.end(claim)

    def end(self, claim: str) -> bool:
        """The allocation is written, or given up; tells whether there was one."""
        if self._begun is not None:
            self._begun.discard(claim)
        return self._pending.pop(claim, None) is not None

    def open_cycle(self) -> None:
        """From now on, pods of one gang are decided about."""
        self._begun = set()

    def close_cycle(self) -> bool:
        """All pods of the gang are decided about; tells whether claims are left that were shared until now."""
        begun, self._begun = self._begun, None
        return bool(begun)
