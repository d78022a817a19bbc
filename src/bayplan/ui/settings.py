"""Settings of the page's server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class UiSettings:
    """How the page is served."""

    port: int = 0
    """Port on 127.0.0.1; 0 picks a free one."""
    allow_changes: bool = False
    """Whether the page may change the cluster."""
    learn: bool = False
    """Whether the page shows scenarios alone, without a cluster."""
    title: str = ""
    """What the cluster is called on the page."""
    scheduler_config: Path | None = None
    """KubeSchedulerConfiguration by which pods are judged."""
    interval: float = 0.2
    """Seconds between two frames of changes."""
    most_streams: int = 128
    """Pages that may follow at the same time."""
