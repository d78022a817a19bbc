"""Settings of the local driver."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

DRIVER_NAME: Final = "local.csi.bayplan.dev"
TOPOLOGY_KEY: Final = "topology.csi.bayplan.dev/node"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalDriverSettings:
    """Where the driver listens, and where it keeps volumes."""

    node_name: str
    """Name of the node, which is its topology, too."""
    data_dir: Path
    """Where volumes and snapshots are kept."""
    endpoint: Path
    """The socket."""
    registry: Path | None = None
    """The kubelet's `plugins_registry`; None: the driver does not register itself."""
    endpoint_seen_by_kubelet: Path | None = None
    """The socket as the kubelet sees it, if that differs."""
    name: str = DRIVER_NAME
    """Name of the driver."""
    max_volumes_per_node: int = 0
    """How many volumes the scheduler may bring to the node; 0: as many as it likes."""
