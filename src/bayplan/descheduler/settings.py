"""Settings of the descheduler, besides its policy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeschedulerSettings:
    """How the descheduler runs."""

    descheduling_interval: float = 0.0
    """Seconds between two passes; 0: one pass only."""
    dry_run: bool = False
    """Whether evictions are only decided, counted and logged."""
    node_selector: str = ""
    """Label selector of the nodes that are looked at, in place of the policy's; empty for the policy's."""
