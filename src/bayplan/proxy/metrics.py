"""What the proxy counts, under kube-proxy's names so that its dashboards and alerts fit."""

from __future__ import annotations

from bayplan.support.metrics.instruments import Registry, exponential_buckets

_SYNC_BUCKETS = exponential_buckets(0.001, 2, 15)
_PROGRAMMING_BUCKETS = (
    0.25,
    0.5,
    *(float(second) for second in range(1, 60)),
    *(float(second) for second in range(60, 120, 5)),
    *(float(second) for second in range(120, 301, 30)),
)
_FAMILY = ("ip_family",)


class ProxyMetrics:
    """The metrics of all parts of the proxy. Those with a label ip_family are families of series, the others single ones."""

    def __init__(self, registry: Registry) -> None:
        rules = "kubeproxy_sync_proxy_rules"
        self.sync = registry.histogram(
            f"{rules}_duration_seconds", "SyncProxyRules latency in seconds", _FAMILY, buckets=_SYNC_BUCKETS
        )
        self.full_sync = registry.histogram(
            "kubeproxy_sync_full_proxy_rules_duration_seconds",
            "SyncProxyRules latency in seconds for full resyncs",
            _FAMILY,
            buckets=_SYNC_BUCKETS,
        )
        self.partial_sync = registry.histogram(
            "kubeproxy_sync_partial_proxy_rules_duration_seconds",
            "SyncProxyRules latency in seconds for partial resyncs",
            _FAMILY,
            buckets=_SYNC_BUCKETS,
        )
        self.last_sync = registry.gauge(
            f"{rules}_last_timestamp_seconds", "The last time proxy rules were successfully synced", _FAMILY
        )
        self.last_queued = registry.gauge(
            f"{rules}_last_queued_timestamp_seconds", "The last time a sync of proxy rules was queued", _FAMILY
        )
        self.programming = registry.histogram(
            "kubeproxy_network_programming_duration_seconds",
            "In Cluster Network Programming Latency in seconds",
            _FAMILY,
            buckets=_PROGRAMMING_BUCKETS,
        )
        self.sync_failures = registry.counter(
            f"{rules}_nftables_sync_failures_total", "Cumulative proxy nftables sync failures", _FAMILY
        )
        self.cleanup_failures = registry.counter(
            f"{rules}_nftables_cleanup_failures_total", "Cumulative proxy nftables cleanup failures", _FAMILY
        )
        self.without_local_endpoints = registry.gauge(
            f"{rules}_no_local_endpoints_total",
            "Number of services with a Local traffic policy and no endpoints",
            ("traffic_policy", "ip_family"),
        )
        self.conntrack = registry.histogram(
            "kubeproxy_conntrack_reconciler_sync_duration_seconds",
            "ReconcileConntrackFlowsLatency latency in seconds",
            _FAMILY,
            buckets=_SYNC_BUCKETS,
        )
        self.conntrack_deleted = registry.counter(
            "kubeproxy_conntrack_reconciler_deleted_entries_total",
            "Cumulative conntrack flows deleted by conntrack reconciler",
            _FAMILY,
        )
        self.healthz = registry.counter(
            "kubeproxy_proxy_healthz_total", "Cumulative proxy healthz HTTP status", ("code",)
        )
        self.livez = registry.counter("kubeproxy_proxy_livez_total", "Cumulative proxy livez HTTP status", ("code",))
        self.endpoint_changes = registry.counter(
            f"{rules}_endpoint_changes_total", "Cumulative proxy rules Endpoint changes"
        ).labels()
        self.endpoint_changes_pending = registry.gauge(
            f"{rules}_endpoint_changes_pending", "Pending proxy rules Endpoint changes"
        ).labels()
        self.service_changes = registry.counter(
            f"{rules}_service_changes_total", "Cumulative proxy rules Service changes"
        ).labels()
        self.service_changes_pending = registry.gauge(
            f"{rules}_service_changes_pending", "Pending proxy rules Service changes"
        ).labels()
        self.foreign_changes = registry.counter(
            "bayplan_proxy_foreign_changes_total",
            "Tables that were written anew because another program had changed them.",
            _FAMILY,
        )
