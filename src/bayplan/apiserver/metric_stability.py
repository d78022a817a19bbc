"""How stable Kubernetes says each metric is: help texts begin with it, and tools that collect metrics choose by it.

Source: `test/instrumentation/documentation/documentation-list.yaml` and `component-base/metrics`. Metrics of the process have no level, and Bayplan's own have none.
"""

from __future__ import annotations

from typing import Final

_STABLE: Final = frozenset(
    (
        "apiserver_admission_controller_admission_duration_seconds",
        "apiserver_admission_step_admission_duration_seconds",
        "apiserver_admission_webhook_admission_duration_seconds",
        "apiserver_current_inflight_requests",
        "apiserver_longrunning_requests",
        "apiserver_request_duration_seconds",
        "apiserver_request_total",
        "apiserver_requested_deprecated_apis",
        "apiserver_response_sizes",
        "apiserver_storage_objects",
        "apiserver_storage_size_bytes",
        "kubernetes_healthcheck",
        "kubernetes_healthchecks_total",
    )
)
_BETA: Final = frozenset(
    (
        "apiserver_flowcontrol_current_executing_requests",
        "apiserver_flowcontrol_current_executing_seats",
        "apiserver_flowcontrol_current_inqueue_requests",
        "apiserver_flowcontrol_dispatched_requests_total",
        "apiserver_flowcontrol_nominal_limit_seats",
        "apiserver_flowcontrol_request_wait_duration_seconds",
        "apiserver_storage_events_received_total",
        "apiserver_validating_admission_policy_check_duration_seconds",
        "apiserver_validating_admission_policy_check_total",
        "kubernetes_build_info",
        "kubernetes_feature_enabled",
    )
)
_OVER_TIME: Final = frozenset(
    (
        "apiserver_flowcontrol_demand_seats",
        "apiserver_flowcontrol_priority_level_request_utilization",
        "apiserver_flowcontrol_priority_level_seat_utilization",
        "apiserver_flowcontrol_read_vs_write_current_requests",
    )
)
"""Histograms of a number over time, whose counts are nanoseconds."""


def described(name: str, text: str) -> str:
    """The help text of a metric, with its level."""
    if name.startswith(("process_", "bayplan_")):
        return text
    if name in _OVER_TIME:
        return f"EXPERIMENTAL: [ALPHA] {text.removeprefix('EXPERIMENTAL: ')}"
    level = "STABLE" if name in _STABLE else "BETA" if name in _BETA else "ALPHA"
    return f"[{level}] {text}"
