"""The statistics of memos as metrics. They are the process's, not those of one cluster in it."""

from __future__ import annotations

from bayplan.support.memory.memo import statistics
from bayplan.support.metrics.instruments import Registry


def memo_metrics() -> bytes:
    """The statistics in Prometheus' text format."""
    registry = Registry()
    hits = registry.counter("bayplan_memo_hits_total", "Look-ups that a memo could answer.", ("memo",))
    misses = registry.counter("bayplan_memo_misses_total", "Look-ups that a memo could not answer.", ("memo",))
    entries = registry.gauge("bayplan_memo_entries", "Entries of a memo.", ("memo",))
    size = registry.gauge("bayplan_memo_bytes", "Bytes that the entries of a memo take, about.", ("memo",))
    for one in statistics():
        hits.labels(one.name).inc(one.hits)
        misses.labels(one.name).inc(one.misses)
        entries.labels(one.name).set(one.entries)
        if one.size is not None:
            size.labels(one.name).set(one.size)
    return registry.render()
