"""What policies measure, under kube-apiserver's names: those in the Common Expression Language, and the pod security standards.

Source: `k8s.io/apiserver/pkg/admission/plugin/policy/{validating,mutating}/metrics`, `k8s.io/pod-security-admission/metrics`.
"""

from __future__ import annotations

from typing import Final

from bayplan.api.pod_security.policy import LATEST, Policy
from bayplan.support.metrics.instruments import Registry

_CHECK: Final = (0.0000005, 0.001, 0.01, 0.1, 1.0)
_OVER_BUDGET: Final = "out of cost budget"


class PolicyMetrics:
    """The series of one API server."""

    def __init__(self, registry: Registry) -> None:
        prefix, policy = "apiserver_validating_admission_policy_check", ("policy", "policy_binding", "error_type")
        self._checks = registry.counter(
            f"{prefix}_total",
            "Validation admission policy check total, labeled by policy and further identified by binding and enforcement action taken.",
            (*policy, "enforcement_action"),
        )
        self._seconds = registry.histogram(
            f"{prefix}_duration_seconds",
            "Validation admission latency for individual validation expressions in seconds, labeled by policy and further including binding and enforcement action "
            "taken.",
            (*policy, "enforcement_action"),
            _CHECK,
        )
        prefix = "apiserver_mutating_admission_policy_check"
        self._mutations = registry.counter(
            f"{prefix}_total",
            "Mutation admission policy check total, labeled by policy and further identified by binding.",
            policy,
        )
        self._mutation_seconds = registry.histogram(
            f"{prefix}_duration_seconds",
            "Mutation admission latency for individual mutation expressions in seconds, labeled by policy and binding.",
            policy,
            _CHECK,
        )
        place = ("request_operation", "resource", "subresource")
        self._evaluations = registry.counter(
            "pod_security_evaluations_total",
            "Number of policy evaluations that occurred, not counting ignored or exempt requests.",
            ("decision", "policy_level", "policy_version", "mode", *place),
        )
        self._errors = registry.counter(
            "pod_security_errors_total",
            "Number of errors preventing normal evaluation. Non-fatal errors may result in the latest restricted profile being used for evaluation.",
            ("fatal", *place),
        )

        self._exemptions = registry.counter(
            "pod_security_exemptions_total",
            "Number of exempt requests, not counting ignored or out of scope requests.",
            place,
        )

    def validated(self, policy: str, binding: str, problem: str, action: str, seconds: float) -> None:
        """An expression of a policy refused a request, or could not be evaluated. problem: why not; "" if it could. action: `allow`, `deny`, `audit`, `warn`."""
        labels = (policy, binding, _error_type(problem), action)
        self._checks.labels(*labels).inc()
        self._seconds.labels(*labels).observe(seconds)

    def mutated(self, policy: str, binding: str, problem: str, seconds: float) -> None:
        """A policy was followed for one binding. problem: why it could not be; "" if it could."""
        labels = (policy, binding, _error_type(problem))
        self._mutations.labels(*labels).inc()
        self._mutation_seconds.labels(*labels).observe(seconds)

    def evaluated(self, policy: Policy, mode: str, place: tuple[str, str, str], *, allowed: bool) -> None:
        """Pods were compared with a level of the standards. mode: `enforce`, `audit`, `warn`. place: operation, `pod` or `controller`, and subresource."""
        version = "latest" if policy.minor == LATEST else f"v1.{policy.minor}"
        self._evaluations.labels("allow" if allowed else "deny", policy.level, version, mode, *place).inc()

    def exempt(self, place: tuple[str, str, str]) -> None:
        """Pods were not looked at, since something about them is exempt."""
        self._exemptions.labels(*place).inc()

    def malformed(self, place: tuple[str, str, str]) -> None:
        """Labels of a namespace could not be read."""
        self._errors.labels("false", *place).inc()


def _error_type(problem: str) -> str:
    if not problem:
        return "no_error"
    if _OVER_BUDGET in problem:
        return "out_of_budget"
    return "compile_error" if "compilation" in problem else "invalid_error"
