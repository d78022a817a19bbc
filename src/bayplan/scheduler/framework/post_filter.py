"""What PostFilter plugins see and answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from bayplan.scheduler.framework.verdicts import Codes, Status
from bayplan.scheduler.snapshot.pods import PodInfo


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node on which evicting `victims` (most important first) makes room."""

    row: int
    victims: tuple[PodInfo, ...]
    violations: int
    """Victims whose disruption budget does not allow another disruption."""


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
    withdraws: bool = False
    """The pod's own nomination, from an earlier attempt, is void."""


class PostFilterContext(ABC):
    """The failed scheduling cycle, as a PostFilter plugin sees it."""

    pod: PodInfo
    codes: Codes
    """The verdict per row; rows that are not alive hold -1."""
    rejected_early: bool
    """PreFilter rejected the pod, so that no node was looked at."""

    @abstractmethod
    def fits(self, row: int, added: Sequence[PodInfo], removed: Sequence[PodInfo]) -> int:
        """The verdict on a row if some pods came and others went, nominated pods included."""

    @abstractmethod
    def nominated_to(self, row: int) -> list[PodInfo]:
        """Pods that are nominated to a node, the pod itself left out."""

    @abstractmethod
    def pod_readers(self) -> list[str]:
        """The active filter plugins whose verdict on a node can change with the pods there."""

    @abstractmethod
    def pick(self, count: int) -> int:
        """A number below `count`: the choice among equals."""
