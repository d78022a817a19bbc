"""Settings of the API server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServerSettings:
    """How one API server behaves. Names follow kube-apiserver's flags."""

    max_request_bytes: int = 3 * 1024 * 1024
    """Largest body that is read; more is answered with 413."""
    min_request_timeout: float = 1800.0
    """Seconds that a watch without `timeoutSeconds` lasts at least; the end is drawn between once and twice of it."""
    event_ttl: float = 3600.0
    """Seconds after which events are deleted."""
    service_cluster_ip_range: str = "10.96.0.0/16"
    """Where cluster IPs of services come from (CIDR)."""
    service_node_port_range: tuple[int, int] = (30000, 32767)
    """First and last node port of services."""
    enable_admission_plugins: tuple[str, ...] = ()
    """Admission plugins to run besides the default ones."""
    disable_admission_plugins: tuple[str, ...] = ()
    """Default admission plugins not to run."""
    bookmark_interval: float = 60.0
    """Seconds between bookmarks of a watch that asked for them."""
