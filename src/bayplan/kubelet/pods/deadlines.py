"""Pods that may run for a limited time (`spec.activeDeadlineSeconds`; pkg/kubelet/active_deadline.go)."""

from __future__ import annotations

from bayplan.api.types import core_v1
from bayplan.kubelet.core.pod_status import Failure
from bayplan.support.timestamps import parse_rfc3339

REASON = "DeadlineExceeded"
_MESSAGE = "Pod was active on the node longer than the specified deadline"


def seconds_left(pod: core_v1.Pod, start_time: str | None, now: float) -> float | None:
    """Seconds until a pod must end, not positive when it must have; None without a deadline or before it has started."""
    seconds = pod.spec.active_deadline_seconds
    if seconds is None or not start_time:
        return None
    return parse_rfc3339(start_time) + seconds - now


def deadline_failure(pod: core_v1.Pod, start_time: str | None, now: float) -> Failure | None:
    """Why a pod fails whose time is over."""
    left = seconds_left(pod, start_time, now)
    return Failure(REASON, _MESSAGE) if left is not None and left <= 0 else None
