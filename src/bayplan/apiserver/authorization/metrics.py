"""What authorization measures, under kube-apiserver's names.

Source: `k8s.io/apiserver/pkg/authorization/{metrics,cel}/metrics.go`, `plugin/pkg/authorizer/webhook/metrics`.
"""

from __future__ import annotations

from typing import Final

from bayplan.apiserver.authorization.interface import Decision
from bayplan.support.metrics.instruments import Counter, Registry, exponential_buckets

_PREFIX: Final = "apiserver_authorization_"
_NAMES: Final = {Decision.ALLOW: "allowed", Decision.DENY: "denied"}
WEBHOOK: Final = "Webhook"


class AuthorizationMetrics:
    """The series of one API server."""

    def __init__(self, registry: Registry) -> None:
        of_type, of_result = ("type", "name"), ("name", "result")
        self._decisions = registry.counter(
            f"{_PREFIX}decisions_total",
            "Total number of terminal decisions made by an authorizer split by authorizer type, name, and decision.",
            (*of_type, "decision"),
        )
        self._attempts = registry.counter(
            "authorization_attempts_total",
            "Counter of authorization attempts broken down by result. It can be either 'allowed', 'denied', 'no-opinion' or 'error'.",
            ("result",),
        )
        self._durations = registry.histogram(
            "authorization_duration_seconds",
            "Authorization duration in seconds broken out by result. Decisions that nobody had to be asked for count as taking no time.",
            ("result",),
            exponential_buckets(0.001, 2, 15),
        )
        self.masters, self.no_opinion = Counter(), Counter()
        """Requests that were allowed without a question, and those about which no authorizer had an opinion."""
        registry.on_render(self._sum_up)
        self._condition_errors = registry.counter(
            f"{_PREFIX}match_condition_evaluation_errors_total",
            "Match conditions that could not be evaluated.",
            of_type,
        )
        self._exclusions = registry.counter(
            f"{_PREFIX}match_condition_exclusions_total", "Requests that match conditions kept from a webhook.", of_type
        )
        self._condition_seconds = registry.histogram(
            f"{_PREFIX}match_condition_evaluation_seconds",
            "Time that match conditions took.",
            of_type,
            (0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25),
        )
        self._evaluations = registry.counter(
            f"{_PREFIX}webhook_evaluations_total", "Round-trips to authorization webhooks.", of_result
        )
        self._seconds = registry.histogram(
            f"{_PREFIX}webhook_duration_seconds", "Request latency in seconds.", of_result
        )
        self._fail_open = registry.counter(
            f"{_PREFIX}webhook_evaluations_fail_open_total",
            "NoOpinion results due to webhook timeout or error.",
            of_result,
        )

    def _sum_up(self) -> None:
        sums = dict.fromkeys(_NAMES.values(), 0.0)
        for (_, _, decision), series in self._decisions.children.items():
            sums[decision] += series.value
        sums["allowed"] += self.masters.value
        for result, value in {**sums, "no-opinion": self.no_opinion.value}.items():
            if value:
                self._attempts.labels(result).value = value
                of_all = self._durations.labels(result)
                of_all.counts[0] = max(0, int(value) - sum(of_all.counts[1:]))

    def decisions(self, kind: str, name: str) -> dict[Decision, Counter]:
        """The series of an authorizer, by what it decides."""
        return {decision: self._decisions.labels(kind, name, text) for decision, text in _NAMES.items()}

    def waited(self, decision: Decision, seconds: float) -> None:
        """A request was decided about by somebody who had to be asked."""
        self._durations.labels(_NAMES.get(decision, "no-opinion")).observe(seconds)

    def evaluated(self, name: str, result: str, seconds: float) -> None:
        """A webhook was asked once."""
        self._evaluations.labels(name, result).inc()
        self._seconds.labels(name, result).observe(seconds)

    def failed_open(self, name: str, result: str) -> None:
        """A webhook did not answer, and others decide."""
        self._fail_open.labels(name, result).inc()

    def conditions(self, name: str, seconds: float, *, has_errors: bool, excludes: bool) -> None:
        """The conditions of a webhook were evaluated."""
        self._condition_seconds.labels(WEBHOOK, name).observe(seconds)
        if has_errors:
            self._condition_errors.labels(WEBHOOK, name).inc()
        if excludes:
            self._exclusions.labels(WEBHOOK, name).inc()
