"""What the enforcement of network policies counts."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.support.metrics.instruments import Registry, exponential_buckets

_BUCKETS = exponential_buckets(0.001, 2, 15)


class PolicyMetrics:
    """The families."""

    def __init__(self, registry: Registry) -> None:
        durations = registry.histogram(
            "bayplan_network_policy_transaction_duration_seconds",
            "Time of transactions of nftables that succeeded.",
            ("kind",),
            buckets=_BUCKETS,
        )
        self.whole = durations.labels("whole")
        self.partial = durations.labels("partial")
        self.delay = registry.histogram(
            "bayplan_network_policy_programming_duration_seconds",
            "Time from a change that the API told to its rules in the kernel.",
            buckets=_BUCKETS,
        ).labels()
        self.failures = registry.counter(
            "bayplan_network_policy_transaction_failures_total", "Transactions of nftables, and checks, that failed."
        ).labels()
        self.repairs = registry.counter(
            "bayplan_network_policy_repairs_total", "Tables found different from what they should be, and made anew."
        ).labels()
        self.problems = registry.gauge(
            "bayplan_network_policy_problems", "Parts of policies that cannot be enforced; the log names them."
        ).labels()
        self._policies = registry.gauge("bayplan_network_policy_policies", "Network policies of the cluster.").labels()
        self._isolated = registry.gauge(
            "bayplan_network_policy_isolated_addresses", "Addresses of this node's pods that policies isolate."
        ).labels()

    def watch(self, policies: Callable[[], float], isolated: Callable[[], float]) -> None:
        """Show how many policies and isolated addresses there are."""
        self._policies.set_function(policies)
        self._isolated.set_function(isolated)
