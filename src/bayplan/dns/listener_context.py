"""What is kept and counted for one listener."""

from __future__ import annotations

from bayplan.dns.answer_cache import AnswerCache
from bayplan.dns.metrics import DnsMetrics
from bayplan.support.metrics.instruments import Counter, Histogram


class ListenerContext:
    """What answers depend on besides the query: where it came in.

    server: the listener's address as in CoreDNS' metrics; proto: udp or tcp; family: "1" for IPv4, "2" for IPv6; capacity: answers in the cache.
    """

    def __init__(self, metrics: DnsMetrics, server: str, proto: str, family: str, capacity: int) -> None:
        self.cache = AnswerCache(capacity)
        self.stream = proto == "tcp"
        self.misses = metrics.misses(server)
        self._metrics = metrics
        self._labels = (server, proto, family)
        metrics.watch_entries(server, proto, self.cache.__len__)

    def counters(self, zone: str, kind: int, rcode: str, plugin: str) -> tuple[Counter, Counter]:
        """What one answer counts."""
        server, proto, family = self._labels
        return (
            self._metrics.request(server, zone, proto, family, kind),
            self._metrics.response(server, zone, rcode, plugin),
        )

    def hits(self, zone: str, *, denial: bool) -> Counter:
        """What one answer from the cache counts besides."""
        return self._metrics.hits(self._labels[0], zone, denial=denial)

    def duration(self, zone: str) -> Histogram:
        """Seconds from a query to its answer."""
        return self._metrics.duration(self._labels[0], zone)
