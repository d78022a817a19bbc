"""What PostFilter plugins see and answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bayplan.scheduler.framework.extension_points import Moved
from bayplan.scheduler.framework.state import CycleState
from bayplan.scheduler.framework.verdicts import Codes, Status
from bayplan.scheduler.framework.what_if import WhatIf
from bayplan.scheduler.snapshot.labels import Ints
from bayplan.scheduler.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from bayplan.api.types.resource_v1 import ResourceClaim

_PRIORITY_OFFSET: Final = 2**31
"""Added to each victim's priority in sums, so that more victims never cost less."""


NOW: Final = "9999"
"""Sorts after every start time: a pod without one counts as started now."""


def start_of(pod: PodInfo) -> str:
    """When a pod was started, as a text that sorts by time."""
    return pod.start_time or NOW


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node on which evicting `victims` (most important first) makes room."""

    row: int
    victims: tuple[PodInfo, ...]
    violations: int
    """Victims whose disruption budget does not allow another disruption."""
    cost: tuple[int, int, int, int] = field(init=False)
    """Violations, top priority, sum of priorities (all made positive), number of victims."""
    top_start: str = field(init=False)
    """When the first of the most important victims was started, as a text that sorts by time."""

    def __post_init__(self) -> None:
        victims = self.victims
        total = sum(pod.priority + _PRIORITY_OFFSET for pod in victims)
        top = victims[0].priority
        object.__setattr__(self, "cost", (self.violations, top, total, len(victims)))
        object.__setattr__(self, "top_start", min(start_of(pod) for pod in victims if pod.priority == top))


@dataclass(frozen=True, slots=True)
class PostFilterOutcome:
    """What a PostFilter plugin found. `nominated` is the chosen candidate; `tied` are all that are as good."""

    status: Status | None
    """None: it helped. Otherwise why not; UNRESOLVABLE and ERROR also stop the plugins after it."""
    reasons: tuple[str, ...] = ()
    nominated: Candidate | None = None
    tied: tuple[Candidate, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    clears: tuple[PodInfo, ...] = ()
    """Nominated pods of lower priority that lose their nomination to the chosen node."""
    deallocates: tuple[ResourceClaim, ...] = ()
    """Resource claims, as they are to be written, that give their devices up so that they can be had elsewhere."""
    choose: Callable[[PostFilterContext, list[Candidate]], PostFilterOutcome] | None = field(
        default=None, repr=False, compare=False
    )
    """Chooses again among those of `candidates` that extenders leave; None if extenders have no say."""
    withdraws: bool = False
    """The pod's own nomination, from an earlier attempt, is void."""


class PostFilterContext(ABC):
    """The failed scheduling cycle, as a PostFilter plugin sees it."""

    pod: PodInfo
    codes: Codes
    """The verdict per row; rows that are not alive hold -1."""
    rejected_early: bool
    """PreFilter rejected the pod, so that no node was looked at."""
    state: CycleState
    """What the plugins worked out about the pod."""

    @abstractmethod
    def what_if(self, row: int, removed: Sequence[PodInfo]) -> AbstractContextManager[WhatIf]:
        """Suppose that some pods were gone from a node, put some back, and ask; all is as before when it ends."""

    @abstractmethod
    def nominated_to(self, row: int) -> list[PodInfo]:
        """Pods that are nominated to a node, the pod itself left out."""

    @abstractmethod
    def is_cross_node(self) -> bool:
        """Whether the verdict on a node can depend on pods on other nodes."""

    @abstractmethod
    def nominated_since(self, position: int) -> tuple[Moved, int]:
        """Rows whose nominated pods changed since a position in the log of nominations, and the position now."""

    @abstractmethod
    def own_row(self) -> int | None:
        """The row that the pod itself is nominated to: there it is judged differently from others of its shape."""

    @abstractmethod
    def ranks(self) -> Ints:
        """Per row, the place of its node's name in the order of all names."""

    @abstractmethod
    def pick(self, count: int) -> int:
        """A number below `count`: the choice among equals."""
