"""Counters of audit that are there, at zero, also while nothing is audited, as in kube-apiserver."""

from __future__ import annotations

from typing import NamedTuple

from bayplan.support.metrics.instruments import Counter, Registry


class AuditCounters(NamedTuple):
    """What became of requests and events."""

    events: Counter
    """Events that were generated."""
    rejected: Counter
    """Requests that were refused since their event could not be kept."""


def measure_audit(registry: Registry) -> AuditCounters:
    """The counters of a registry."""
    events = registry.counter(
        "apiserver_audit_event_total", "Counter of audit events generated and sent to the audit backend."
    )
    rejected = registry.counter(
        "apiserver_audit_requests_rejected_total",
        "Counter of apiserver requests rejected due to an error in audit logging backend.",
    )
    return AuditCounters(events.labels(), rejected.labels())
