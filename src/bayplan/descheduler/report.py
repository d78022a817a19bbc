"""What a pass did, for logs, answers and reports."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Attempt:
    """A pod that a strategy would have elsewhere, and what became of it."""

    pod: str
    """`namespace/name`."""
    node: str
    profile: str
    strategy: str
    reason: str
    """Why the strategy would evict it."""
    evicted: bool
    objection: str = ""
    """Why it was not evicted."""


@dataclass(slots=True)
class PassReport:
    """One pass."""

    attempts: list[Attempt] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """Strategies that could not run, and why."""
    skipped: str = ""
    """Why nothing was looked at."""

    @property
    def evicted(self) -> list[Attempt]:
        """The evictions that succeeded."""
        return [one for one in self.attempts if one.evicted]

    @property
    def refused(self) -> list[Attempt]:
        """The pods that stay."""
        return [one for one in self.attempts if not one.evicted]
