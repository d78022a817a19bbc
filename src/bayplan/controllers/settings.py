"""Settings of the controllers, under the names of kube-controller-manager's flags where it has them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """How patient the controllers are. All times are in seconds."""

    node_monitor_period: float = 5.0
    """Between two looks at all nodes."""
    node_monitor_grace_period: float = 50.0
    """Without a renewed lease after which a node counts as unreachable. Longer than the nodes' renewal interval."""
    node_startup_grace_period: float = 60.0
    """The same for a node that has never reported its status."""
    node_eviction_rate: float = 0.1
    """Nodes per second of a zone that may be emptied because they fail, while the zone is healthy."""
    secondary_node_eviction_rate: float = 0.01
    """The same for a large zone that is partially disrupted; small ones are not emptied then."""
    unhealthy_zone_threshold: float = 0.55
    """Part of a zone's nodes (and at least three) that fail when the zone counts as partially disrupted."""
    large_cluster_size_threshold: int = 50
    """Zones with more nodes than this are large."""
    orphaned_pod_period: float = 20.0
    """Between two looks for pods whose node is gone."""
    terminated_pod_threshold: int = 12_500
    """Pods that have ended are kept up to this number, the latest; 0 keeps all."""
    allocate_node_cidrs: bool = True
    """Whether nodes without a pod network are given one."""
    cluster_cidr: tuple[str, ...] = ()
    """Networks (one of each family) from which nodes get theirs; none for no allocation."""
    node_cidr_mask_size_ipv4: int = 24
    """Prefix length of a node's network."""
    node_cidr_mask_size_ipv6: int = 64
    """The same for IPv6."""
    max_endpoints_per_slice: int = 100
    """Endpoints in one EndpointSlice."""
    mirroring_max_endpoints_per_subset: int = 1000
    """Addresses of a subset of Endpoints that are mirrored."""
    legacy_token_clean_up_period: float = 365 * 86400.0
    """Without use after which a token that was made for a service account on its own is given up."""
