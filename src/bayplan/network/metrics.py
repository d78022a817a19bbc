"""What `bayplan network` counts."""

from __future__ import annotations

from bayplan.support.metrics.instruments import Registry


class NetworkMetrics:
    """Syncs, and what they have brought."""

    def __init__(self, registry: Registry) -> None:
        syncs = registry.counter(
            "bayplan_network_syncs_total", "Attempts to bring changes of nodes into the kernel.", ("result",)
        )
        self.succeeded, self.failed = syncs.labels("success"), syncs.labels("error")
        self.duration = registry.histogram(
            "bayplan_network_sync_duration_seconds", "How long such an attempt takes."
        ).labels()
        self.changes = registry.counter(
            "bayplan_network_changes_total", "Routes, neighbours and forwarding entries that were added and removed."
        ).labels()
        self.repairs = registry.counter(
            "bayplan_network_repairs_total", "Those of them that differed from what was last set."
        ).labels()
        self.peers = registry.gauge("bayplan_network_peers", "Other nodes whose pods can be reached.").labels()
        self.unreachable = registry.gauge(
            "bayplan_network_unreachable_peers", "Other nodes whose pods cannot be reached."
        ).labels()
