"""What admission measures, under kube-apiserver's names: steps, plugins that had to wait, and webhooks.

Plugins that answer at once are part of their step and not measured alone: reading the clock twice would take as long as most of them. Source:
`k8s.io/apiserver/pkg/admission/metrics`.
"""

from __future__ import annotations

from typing import Final

from bayplan.apiserver.admission.extensions.policy_metrics import PolicyMetrics
from bayplan.support.metrics.instruments import Histogram, Registry

ADMIT: Final = "admit"
VALIDATE: Final = "validate"
_PREFIX: Final = "apiserver_admission_"
_STEP: Final = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
_WEBHOOK: Final = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0)
_LARGEST_CODE: Final = 600
_RESULTS: Final = ("false", "true")


class AdmissionMetrics:
    """The series of one API server."""

    def __init__(self, registry: Registry) -> None:
        self.policies = PolicyMetrics(registry)
        labels = ("type", "operation", "rejected")
        self._steps = registry.histogram(
            f"{_PREFIX}step_admission_duration_seconds",
            "Admission sub-step latency histogram in seconds, broken out for each operation and API resource and step type (validate or admit).",
            labels,
            _STEP,
        )
        self._controllers = registry.histogram(
            f"{_PREFIX}controller_admission_duration_seconds",
            "Admission controller latency histogram in seconds, identified by name and broken out for each operation and API resource and type (validate or admit).",
            ("name", *labels),
            _STEP,
        )
        self._webhooks = registry.histogram(
            f"{_PREFIX}webhook_admission_duration_seconds",
            "Admission webhook latency histogram in seconds, identified by name and broken out for each operation and API resource and type (validate or admit).",
            ("name", *labels),
            _WEBHOOK,
        )
        self._requests = registry.counter(
            f"{_PREFIX}webhook_request_total",
            "Admission webhook request total, identified by name and broken out for each admission type (validating or mutating) and operation.",
            ("name", "type", "operation", "code", "rejected"),
        )
        self._rejections = registry.counter(
            f"{_PREFIX}webhook_rejection_count",
            "Admission webhook rejection count, identified by name and broken out for each admission type (validating or admit) and operation.",
            ("name", "type", "operation", "error_type", "rejection_code"),
        )
        self._fail_open = registry.counter(
            f"{_PREFIX}webhook_fail_open_count",
            "Admission webhook fail open count, identified by name and broken out for each admission type (validating or mutating).",
            ("name", "type"),
        )

    def step(self, kind: str, operation: str, *, rejected: bool) -> Histogram:
        """The series of all plugins of a step. kind: ADMIT or VALIDATE."""
        return self._steps.labels(kind, operation, _RESULTS[rejected])

    def controller(self, name: str, kind: str, operation: str, *, rejected: bool) -> Histogram:
        """The series of a plugin that had to wait."""
        return self._controllers.labels(name, kind, operation, _RESULTS[rejected])

    def called(self, name: str, operation: str, seconds: float, code: int, *, mutating: bool, rejected: bool) -> None:
        """A webhook was asked. code: of its answer, as HTTP has it."""
        kind = ADMIT if mutating else "validating"
        self._webhooks.labels(name, kind, operation, _RESULTS[rejected]).observe(seconds)
        self._requests.labels(name, kind, operation, str(min(code, _LARGEST_CODE)), _RESULTS[rejected]).inc()

    def rejected(self, name: str, operation: str, error: str, code: int, *, mutating: bool) -> None:
        """A webhook refused a request (`no_error`), or could not be asked (`calling_webhook_error`)."""
        kind = ADMIT if mutating else "validating"
        self._rejections.labels(name, kind, operation, error, str(min(code, _LARGEST_CODE))).inc()

    def failed_open(self, name: str, *, mutating: bool) -> None:
        """A webhook could not be asked, and the request went on."""
        self._fail_open.labels(name, ADMIT if mutating else "validating").inc()
