"""Whether the proxy keeps up with changes, and whether its node may get traffic of load balancers. No I/O."""

from __future__ import annotations

from typing import Any, Final

from bayplan.api.types import core_v1
from bayplan.proxy.families import Family
from bayplan.support.clock import Clock
from bayplan.support.timestamps import rfc3339_micro

_TO_BE_DELETED: Final = "ToBeDeletedByClusterAutoscaler"
"""Taint of nodes that the cluster autoscaler is about to remove."""


class ProxyHealth:
    """Unhealthy while a change has waited for longer than `timeout` seconds."""

    def __init__(self, clock: Clock, timeout: float) -> None:
        self._clock = clock
        self._timeout = timeout
        self._updated: dict[Family, float] = {}
        self._queued: dict[Family, float] = {}
        """Since when the oldest change waits, by the monotonic clock."""
        self.node: core_v1.Node | None = None
        """The proxy's node; None: it is not there."""

    def queued(self, family: Family) -> None:
        """A change waits to be synced."""
        self._queued.setdefault(family, self._clock.monotonic())
        self._updated.setdefault(family, self._clock.now())

    def updated(self, family: Family) -> None:
        """All changes are synced."""
        self._queued.pop(family, None)
        self._updated[family] = self._clock.now()

    @property
    def healthy(self) -> bool:
        """Whether no change has waited for too long."""
        return all(self._is_healthy(family) for family in self._updated)

    @property
    def node_eligible(self) -> bool:
        """Whether the node is there to stay."""
        node = self.node
        if node is None or node.metadata.deletion_timestamp:
            return False
        return all(one.key != _TO_BE_DELETED for one in node.spec.taints)

    def healthz(self) -> tuple[bool, dict[str, Any]]:
        """Answer of /healthz: load balancers of the policy Cluster ask it whether the node may get traffic."""
        eligible = self.node_eligible
        return self._answer(self.healthy and eligible, {"nodeEligible": eligible})

    def livez(self) -> tuple[bool, dict[str, Any]]:
        """Answer of /livez: whether the proxy should be restarted."""
        return self._answer(self.healthy, {})

    def _is_healthy(self, family: Family) -> bool:
        since = self._queued.get(family)
        return since is None or self._clock.monotonic() - since < self._timeout

    def _answer(self, good: bool, more: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
        now = self._clock.now()
        # A good answer is current by itself; kube-proxy has said so since its loop ran only on changes.
        last = now if good else max(self._updated.values(), default=None)
        status = {
            family.name: {"lastUpdated": rfc3339_micro(seconds), "healthy": self._is_healthy(family)}
            for family, seconds in self._updated.items()
        }
        return good, {
            "lastUpdated": rfc3339_micro(last) if last is not None else "0001-01-01T00:00:00Z",
            "currentTime": rfc3339_micro(now),
            **more,
            "healthy": self.healthy,
            **({"status": status} if status else {}),
        }
