"""What a Job's pod failure policy makes of a failed pod, and whether its success policy is met. Pure."""

from __future__ import annotations

from typing import NamedTuple

from bayplan.api.index_sets import IndexSet
from bayplan.api.types import batch_v1, core_v1
from bayplan.controllers.workloads.job_indexes import parse


class Judgement(NamedTuple):
    """What a failed pod means for its Job."""

    action: str = "Count"
    """`Count`, `Ignore`, `FailIndex` or `FailJob`."""
    message: str = ""
    """Why the Job fails."""

    @property
    def counts(self) -> bool:
        """Whether the failure is one of those that the back-off limit bounds."""
        return self.action != "Ignore"


COUNTED = Judgement()


def judge(policy: batch_v1.PodFailurePolicy | None, pod: core_v1.Pod) -> Judgement:
    """The action of the first rule that a failed pod matches; it is counted if there is none."""
    for position, rule in enumerate(policy.rules if policy is not None else ()):
        reason = ""
        if rule.on_exit_codes is not None:
            reason = _exit_code(rule.on_exit_codes, pod)
        elif rule.on_pod_conditions:
            reason = _condition(rule.on_pod_conditions, pod)
        if reason:
            return Judgement(rule.action, f"{reason} matching {rule.action} rule at index {position}")
    return COUNTED


def _exit_code(wanted: batch_v1.PodFailurePolicyOnExitCodesRequirement, pod: core_v1.Pod) -> str:
    """The container whose exit code matches, in words; only of pods that have ended."""
    if pod.status.phase != "Failed":
        return ""
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        if wanted.container_name not in (None, status.name) or status.state.terminated is None:
            continue
        code = status.state.terminated.exit_code
        if code and (code in wanted.values) == (wanted.operator == "In"):
            where = f"{pod.metadata.namespace}/{pod.metadata.name}"
            return f"Container {status.name} for pod {where} failed with exit code {code}"
    return ""


def _condition(patterns: tuple[batch_v1.PodFailurePolicyOnPodConditionsPattern, ...], pod: core_v1.Pod) -> str:
    for condition in pod.status.conditions:
        for pattern in patterns:
            if condition.type == pattern.type and condition.status == pattern.status:
                return f"Pod {pod.metadata.namespace}/{pod.metadata.name} has condition {condition.type}"
    return ""


def met_rule(policy: batch_v1.SuccessPolicy | None, completions: int, succeeded: IndexSet) -> str:
    """Which rule of a success policy is met, in words; "" if none is."""
    for position, rule in enumerate(policy.rules if policy is not None else ()):
        among = succeeded
        needed = rule.succeeded_count
        if rule.succeeded_indexes is not None:
            named = parse(rule.succeeded_indexes, completions)
            among = succeeded & named
            needed = len(named) if needed is None else needed
        if needed is not None and len(among) >= needed:
            return f"Matched rules at index {position}"
    return ""
