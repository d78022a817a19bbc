"""What the DNS server counts, under the names and labels of CoreDNS so that its dashboards and alerts fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bayplan.support.metrics.instruments import Counter, Histogram, Registry, exponential_buckets

_TYPES: Final = {
    1: "A", 2: "NS", 5: "CNAME", 6: "SOA", 12: "PTR", 13: "HINFO", 15: "MX", 16: "TXT", 28: "AAAA", 33: "SRV", 35: "NAPTR",
    43: "DS", 46: "RRSIG", 47: "NSEC", 48: "DNSKEY", 50: "NSEC3", 64: "SVCB", 65: "HTTPS", 251: "IXFR", 252: "AXFR", 255: "ANY",
}  # fmt: skip
DROPPED: Final = "dropped"
"""The zone of queries that are refused unread."""


class DnsMetrics:
    """The families, and the series of one listener's answers."""

    def __init__(self, registry: Registry) -> None:
        self._requests = registry.counter(
            "coredns_dns_requests_total",
            "Counter of DNS requests made per zone, protocol and family.",
            ("server", "zone", "view", "proto", "family", "type"),
        )
        self._responses = registry.counter(
            "coredns_dns_responses_total",
            "Counter of response status codes.",
            ("server", "zone", "view", "rcode", "plugin"),
        )
        self._durations = registry.histogram(
            "coredns_dns_request_duration_seconds",
            "Histogram of the time (in seconds) each request took per zone.",
            ("server", "zone", "view"),
            buckets=exponential_buckets(0.00025, 2, 16),
        )
        self._hits = registry.counter(
            "coredns_cache_hits_total", "The count of cache hits.", ("server", "type", "zones", "view")
        )
        self._misses = registry.counter(
            "coredns_cache_misses_total", "The count of cache misses.", ("server", "zones", "view")
        )
        self._entries = registry.gauge(
            "coredns_cache_entries", "The number of elements in the cache.", ("server", "zones", "view", "proto")
        )
        self._upstream = registry.histogram(
            "coredns_proxy_request_duration_seconds",
            "Histogram of the time each request took.",
            ("proxy_name", "to", "rcode"),
            buckets=exponential_buckets(0.00025, 2, 16),
        )
        self._failures = registry.counter(
            "bayplan_dns_upstream_failures_total", "Questions that an upstream server has not answered.", ("to",)
        )
        self.rejects = registry.counter(
            "coredns_forward_max_concurrent_rejects_total",
            "Counter of the number of queries rejected because the concurrent queries were at maximum.",
        ).labels()
        self.panics = registry.counter("coredns_panics_total", "A metrics that counts the number of panics.").labels()
        self.invalid = registry.counter(
            "bayplan_dns_dropped_total", "Packets that are no queries and get no answer."
        ).labels()

    def request(self, server: str, zone: str, proto: str, family: str, kind: int) -> Counter:
        """Requests of a type."""
        return self._requests.labels(server, zone, "", proto, family, _TYPES.get(kind, "other"))

    def response(self, server: str, zone: str, rcode: str, plugin: str) -> Counter:
        """Responses with a code."""
        return self._responses.labels(server, zone, "", rcode, plugin)

    def duration(self, server: str, zone: str) -> Histogram:
        """Seconds from a query to its answer."""
        return self._durations.labels(server, zone, "")

    def hits(self, server: str, zone: str, *, denial: bool) -> Counter:
        """Answers from the cache."""
        return self._hits.labels(server, "denial" if denial else "success", zone, "")

    def misses(self, server: str) -> Counter:
        """Queries whose answers were not in the cache."""
        return self._misses.labels(server, ".", "")

    def watch_entries(self, server: str, proto: str, count: Callable[[], float]) -> None:
        """Show how many answers a listener keeps."""
        self._entries.labels(server, ".", "", proto).set_function(count)

    def upstream(self, server: str, rcode: str) -> Histogram:
        """Seconds that an upstream server took."""
        return self._upstream.labels("forward", server, rcode)

    def upstream_failure(self, server: str) -> Counter:
        """Questions that an upstream server has not answered."""
        return self._failures.labels(server)
