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
    trusts_leases: bool = False
    """Whether a node also counts as well for as long as its lease says it lasts. kube-controller-manager looks at renewals alone."""
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
    feature_gates: frozenset[str] = frozenset()
    """The feature gates that are on: AffinityDuringExecution runs the controller that evicts pods whose affinity rules cease to hold, WorkloadWithJob makes
    pod groups for Jobs whose pods all run at once."""
    affinity_eviction_grace: float = 0.0
    """How long such a rule may be broken before the pod is evicted, if the pod does not say it itself."""
    affinity_eviction_rate: float = 1.0
    """Pods per second of a zone that may be evicted for that, while the zone is healthy."""
    secondary_affinity_eviction_rate: float = 0.1
    """The same for a large zone that is partially disrupted; in small ones none are evicted then."""
    orphaned_pod_period: float = 20.0
    """Between two looks for pods whose node is gone."""
    disable_force_detach_on_timeout: bool = False
    """Whether volumes that a node may have mounted stay attached to it however long it is not ready, if it is not out of service."""
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
    hpa_sync_period: float = 15.0
    """Between two looks at a horizontal pod autoscaler, and before the first."""
    hpa_downscale_stabilization: float = 300.0
    """How far back an autoscaler looks for higher recommendations before it makes something smaller, if its behaviour does not say."""
    hpa_tolerance: float = 0.1
    """How far the ratio of a metric to its target may be from 1 without consequence, if the behaviour does not say."""
    hpa_cpu_initialization_period: float = 300.0
    """After the start of a pod, in which its cpu usage counts only while it is ready."""
    hpa_initial_readiness_delay: float = 30.0
    """After the start of a pod, in which a change to unready counts as never having been ready."""
    hpa_concurrent_syncs: int = 5
    """Autoscalers that are looked at at once."""
    vertical_interval: float = 60.0
    """Between two looks at a workload that is scaled vertically: one sample of its usage each."""
    autoscaler_scan_interval: float = 10.0
    """Cluster autoscaler: between two looks at pods that wait and at nodes that are hardly used."""
    autoscaler_new_pod_delay: float = 0.0
    """Cluster autoscaler: age of a pod below which it is not looked at."""
    autoscaler_expanders: tuple[str, ...] = ("least-waste",)
    """Cluster autoscaler: who chooses among groups that could help, one after the other, until one group is left: `random`, `most-pods`, `least-waste`,
    `least-nodes`, `priority`."""
    autoscaler_priority_cutoff: int = -10
    """Cluster autoscaler: pods of lower priority get no node made for them."""
    autoscaler_provision_time: float = 900.0
    """Cluster autoscaler: how long a node may take to become ready before it does not count any more."""
    autoscaler_scale_down: bool = True
    """Cluster autoscaler: whether nodes are taken away."""
    autoscaler_utilization_threshold: float = 0.5
    """Cluster autoscaler: part of cpu or memory that is requested, below which a node is hardly used."""
    autoscaler_unneeded_time: float = 600.0
    """Cluster autoscaler: how long a node must have been dispensable before it goes."""
    autoscaler_unready_time: float = 1200.0
    """Cluster autoscaler: how long a node must have been unready before it goes."""
    autoscaler_delay_after_add: float = 600.0
    """Cluster autoscaler: after a node was made, before others go."""
    autoscaler_delay_after_delete: float = 0.0
    """Cluster autoscaler: after a node went, before others go."""
    autoscaler_delay_after_failure: float = 180.0
    """Cluster autoscaler: after a drain that failed, before others begin."""
    autoscaler_eviction_time: float = 120.0
    """Cluster autoscaler: how long the pods of a node may refuse to go before the node stays."""
    autoscaler_skip_system_pods: bool = True
    """Cluster autoscaler: whether nodes with pods of kube-system stay, unless these have a disruption budget."""
    autoscaler_skip_local_storage: bool = True
    """Cluster autoscaler: whether nodes with pods that keep data on the node stay."""
