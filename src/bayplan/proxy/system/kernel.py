"""All that the proxy reads from the kernel of its network namespace, and the connections that it removes there."""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.proxy.families import Family
from bayplan.proxy.rules.stale_connections import Connection
from bayplan.proxy.system import connection_tracking
from bayplan.proxy.system.kernel_tables import KernelTables


class NetlinkKernel(KernelTables):
    """The `Kernel` of syncers."""

    def udp_connections(self, family: Family) -> list[Connection]:
        """Tracked UDP connections."""
        return connection_tracking.udp_connections(family)

    def forget(self, family: Family, connections: Iterable[Connection]) -> int:
        """Remove tracked connections; returns how many were still there."""
        return connection_tracking.forget(family, connections)
