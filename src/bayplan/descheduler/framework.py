"""What a strategy is: a generator of candidates for eviction that learns what became of each.

Strategies see the snapshot and the evictor's view of pods, and nothing else: limits, the eviction itself and its
failure are the planner's.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

from bayplan.api.types import core_v1
from bayplan.descheduler.snapshot import SnapshotIndex

DESCHEDULE: Final = "deschedule"
BALANCE: Final = "balance"


class Answer(enum.Enum):
    """What became of a candidate."""

    EVICTED = "evicted"
    REFUSED = "refused"
    """By a protection, a limit of its namespace, or the cluster."""
    NODE_LIMIT = "node limit"
    """No more pods may be evicted from its node in this pass."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that should go, and why: a sentence without a subject, for events and reports."""

    pod: core_v1.Pod
    reason: str


Candidates = Generator[Candidate, Answer, None]


class Evictor(Protocol):
    """Which pods may be evicted at all, as the profile's evictor plugin says."""

    def protections(self, pod: core_v1.Pod) -> tuple[str, ...]:
        """Why a pod must not be considered (extension point filter); empty if nothing protects it."""

    def last_objections(self, pod: core_v1.Pod) -> tuple[str, ...]:
        """Why a pod must not be evicted now (extension point preevictionfilter); empty if nothing speaks against it."""


@dataclass(frozen=True, slots=True)
class Handle:
    """What a strategy may look at."""

    snapshot: SnapshotIndex
    evictor: Evictor

    def is_evictable(self, pod: core_v1.Pod) -> bool:
        """Whether nothing protects a pod."""
        return not self.evictor.protections(pod)

    def may_go(self, pod: core_v1.Pod) -> bool:
        """Whether a pod may be evicted now."""
        return not (self.evictor.protections(pod) or self.evictor.last_objections(pod))


class Strategy(ABC):
    """One strategy with its arguments, for one pass."""

    name: ClassVar[str]
    point: ClassVar[str]
    """`deschedule` or `balance`."""
    arguments_type: ClassVar[type[Any]]
    packs: ClassVar[bool] = False
    """Whether it moves pods to fuller nodes on purpose."""

    def __init__(self, arguments: Any, handle: Handle) -> None:
        self.handle = handle

    @abstractmethod
    def candidates(self, nodes: Sequence[core_v1.Node]) -> Candidates:
        """Yield pods of these nodes that should go, one after the other. Raises StrategyError."""

    @property
    def snapshot(self) -> SnapshotIndex:
        """The cluster."""
        return self.handle.snapshot


def each(candidates: Sequence[Candidate]) -> Candidates:
    """Candidates in order, without those of a node that has reached its limit."""
    full: set[str] = set()
    for candidate in candidates:
        node = candidate.pod.spec.node_name
        if node not in full and (yield candidate) is Answer.NODE_LIMIT:
            full.add(node)
