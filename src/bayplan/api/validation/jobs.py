"""Rules for job specs, in jobs and in cron jobs."""

from __future__ import annotations

import re
from itertools import pairwise

from bayplan.api.errors import OMITTED, duplicate, invalid, quoted, required, too_long, too_many, unsupported
from bayplan.api.types import batch_v1
from bayplan.api.validation.fields import (
    CONDITION_STATUSES,
    Errors,
    check_domain_prefixed_path,
    check_format,
    check_not_negative,
    repeats,
)
from bayplan.api.validation.go_structs import shown_later
from bayplan.api.validation.pods.pod_spec import check_pod_template
from bayplan.api.validation.values import formats

_MAX_PARALLEL = 100_000
_MAX_INDEXES = 100_000
_MAX_FAILED_WHEN_LARGE = 10_000
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")


def check_job_spec(errors: Errors, path: str, spec: batch_v1.JobSpec) -> None:
    """What holds for the spec of a job and of a job template."""
    for name, value in (
        ("parallelism", spec.parallelism),
        ("completions", spec.completions),
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
        ("backoffLimit", spec.backoff_limit),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished),
        ("backoffLimitPerIndex", spec.backoff_limit_per_index),
    ):
        check_not_negative(errors, f"{path}.{name}", value)
    if spec.max_failed_indexes is not None:
        check_not_negative(errors, f"{path}.maxFailedIndexes", spec.max_failed_indexes)
        if spec.backoff_limit_per_index is None:
            errors.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if spec.managed_by is not None:
        check_domain_prefixed_path(errors, f"{path}.managedBy", spec.managed_by)
        if formats.size(spec.managed_by) > 63:
            errors.append(too_long(f"{path}.managedBy", 63))
    _check_completion_mode(errors, path, spec)
    if spec.pod_failure_policy is not None:
        _check_failure_policy(errors, f"{path}.podFailurePolicy", spec)
    if spec.success_policy is not None:
        _check_success_policy(errors, f"{path}.successPolicy", spec, spec.success_policy)
    _check_replacement_policy(errors, f"{path}.podReplacementPolicy", spec)
    check_pod_template(errors, f"{path}.template", spec.template)
    policy = spec.template.spec.restart_policy
    if policy in ("", "Always"):
        errors.append(required(f"{path}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        errors.append(unsupported(f"{path}.template.spec.restartPolicy", policy, ("OnFailure", "Never")))
    elif spec.pod_failure_policy is not None and policy != "Never":
        text = 'only "Never" is supported when podFailurePolicy is specified'
        errors.append(invalid(f"{path}.template.spec.restartPolicy", policy, text))


def _check_completion_mode(errors: Errors, path: str, spec: batch_v1.JobSpec) -> None:
    mode = spec.completion_mode
    if mode not in (None, "NonIndexed", "Indexed"):
        errors.append(unsupported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed")))
    if mode in (None, "NonIndexed"):
        if spec.backoff_limit_per_index is not None:
            text = "requires indexed completion mode"
            errors.append(invalid(f"{path}.backoffLimitPerIndex", spec.backoff_limit_per_index, text))
        if spec.max_failed_indexes is not None:
            errors.append(
                invalid(f"{path}.maxFailedIndexes", spec.max_failed_indexes, "requires indexed completion mode")
            )
    if mode != "Indexed":
        return
    if spec.completions is None:
        errors.append(required(f"{path}.completions", "when completion mode is Indexed"))
    if spec.parallelism is not None and spec.parallelism > _MAX_PARALLEL:
        text = f"must be less than or equal to {_MAX_PARALLEL} when completion mode is Indexed"
        errors.append(invalid(f"{path}.parallelism", spec.parallelism, text))
    completions, failed = spec.completions, spec.max_failed_indexes
    if completions is not None and failed is not None and failed > completions:
        errors.append(invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions"))
    if failed is not None and failed > _MAX_INDEXES:
        errors.append(invalid(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MAX_INDEXES}"))
    if completions is not None and completions > _MAX_INDEXES and spec.backoff_limit_per_index is not None:
        if failed is None:
            text = f"must be specified when completions is above {_MAX_INDEXES}"
            errors.append(required(f"{path}.maxFailedIndexes", text))
        text = (
            f"must be less than or equal to {_MAX_FAILED_WHEN_LARGE} when completions are above {_MAX_INDEXES} "
            "and used with backoff limit per index"
        )
        for name, value in (("parallelism", spec.parallelism), ("maxFailedIndexes", failed)):
            if value is not None and value > _MAX_FAILED_WHEN_LARGE:
                errors.append(invalid(f"{path}.{name}", value, text))


def _check_failure_policy(errors: Errors, path: str, spec: batch_v1.JobSpec) -> None:
    assert spec.pod_failure_policy is not None
    rules = spec.pod_failure_policy.rules
    if len(rules) > 20:
        errors.append(too_many(f"{path}.rules", len(rules), 20))
    names = {one.name for one in (*spec.template.spec.containers, *spec.template.spec.init_containers)}
    for index, rule in enumerate(rules):
        where = f"{path}.rules[{index}]"
        if rule.action == "FailIndex":
            if spec.backoff_limit_per_index is None:
                text = "requires the backoffLimitPerIndex to be set"
                errors.append(invalid(f"{where}.action", rule.action, text))
        elif rule.action not in _ACTIONS:
            errors.append(
                unsupported(f"{where}.action", rule.action, _ACTIONS)
                if rule.action
                else required(f"{where}.action", _valid_values(_ACTIONS))
            )
        if rule.on_exit_codes is not None:
            _check_exit_codes(errors, f"{where}.onExitCodes", rule.on_exit_codes, names)
        if rule.on_pod_conditions:
            if len(rule.on_pod_conditions) > 20:
                errors.append(too_many(f"{where}.onPodConditions", len(rule.on_pod_conditions), 20))
            for position, pattern in enumerate(rule.on_pod_conditions):
                here = f"{where}.onPodConditions[{position}]"
                check_format(errors, f"{here}.type", pattern.type, formats.label_key)
                if not pattern.status:
                    errors.append(required(f"{here}.status", _valid_values(CONDITION_STATUSES)))
                elif pattern.status not in CONDITION_STATUSES:
                    errors.append(unsupported(f"{here}.status", pattern.status, CONDITION_STATUSES))
        if rule.on_exit_codes is not None and rule.on_pod_conditions:
            errors.append(invalid(where, OMITTED, "specifying both OnExitCodes and OnPodConditions is not supported"))
        if rule.on_exit_codes is None and not rule.on_pod_conditions:
            errors.append(invalid(where, OMITTED, "specifying one of OnExitCodes and OnPodConditions is required"))


def _valid_values(values: tuple[str, ...]) -> str:
    return f"valid values: [{' '.join(map(quoted, values))}]"


def _check_exit_codes(
    errors: Errors, path: str, codes: batch_v1.PodFailurePolicyOnExitCodesRequirement, names: set[str]
) -> None:
    if codes.operator not in ("In", "NotIn"):
        if codes.operator:
            errors.append(unsupported(f"{path}.operator", codes.operator, ("In", "NotIn")))
        else:
            errors.append(required(f"{path}.operator", _valid_values(("In", "NotIn"))))
    if codes.container_name is not None and codes.container_name not in names:
        text = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{path}.containerName", codes.container_name, text))
    if not codes.values:
        errors.append(invalid(f"{path}.values", None, "at least one value is required"))
    elif len(codes.values) > 255:
        errors.append(too_many(f"{path}.values", len(codes.values), 255))
    ordered = all(codes.values[index - 1] <= codes.values[index] for index in range(1, len(codes.values)))
    again = repeats(codes.values)
    for index, value in enumerate(codes.values):
        if codes.operator == "In" and value == 0:
            errors.append(invalid(f"{path}.values[{index}]", value, "must not be 0 for the In operator"))
        if index in again:
            errors.append(duplicate(f"{path}.values[{index}]", value))
    if not ordered:
        errors.append(invalid(f"{path}.values", codes.values, "must be ordered"))


def _check_success_policy(errors: Errors, path: str, spec: batch_v1.JobSpec, policy: batch_v1.SuccessPolicy) -> None:
    if spec.completion_mode != "Indexed":
        errors.append(invalid(path, shown_later(policy), "requires indexed completion mode"))
        return
    if not policy.rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        errors.append(required(f"{path}.rules", text))
    if len(policy.rules) > 20:
        errors.append(too_many(f"{path}.rules", len(policy.rules), 20))
    for index, rule in enumerate(policy.rules):
        _check_success_rule(errors, f"{path}.rules[{index}]", rule, spec.completions or 0)


def _check_success_rule(errors: Errors, path: str, rule: batch_v1.SuccessPolicyRule, completions: int) -> None:
    if rule.succeeded_indexes is None and rule.succeeded_count is None:
        errors.append(required(path, "at least one of succeededCount or succeededIndexes must be specified"))
    total = None
    if rule.succeeded_indexes is not None:
        if formats.size(rule.succeeded_indexes) > 64 * 1024:
            errors.append(too_long(f"{path}.succeededIndexes", 64 * 1024))
        try:
            total = count_indexes(rule.succeeded_indexes, completions)
        except ValueError as error:
            text = f"error parsing succeededIndexes: {error}"
            errors.append(invalid(f"{path}.succeededIndexes", rule.succeeded_indexes, text))
    count = rule.succeeded_count
    if count is None:
        return
    check_not_negative(errors, f"{path}.succeededCount", count)
    if count > completions:
        text = f"must be less than or equal to {completions} (the number of specified completions)"
        errors.append(invalid(f"{path}.succeededCount", count, text))
    if total is not None and count > total:
        text = f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        errors.append(invalid(f"{path}.succeededCount", count, text))


def count_indexes(text: str, completions: int) -> int:
    """How many indexes a text such as `0,2-4` names. Raises ValueError with Kubernetes' message if it is malformed."""
    return sum(last - first + 1 for first, last in index_intervals(text, completions))


def index_intervals(text: str, completions: int) -> list[tuple[int, int]]:
    """The first and last index of each part of a text such as `0,2-4`. Raises ValueError with Kubernetes' message if it is malformed."""
    if not text:
        return []
    found, last = [], -1
    for part in text.split(","):
        ends = part.split("-")
        if len(ends) > 2:
            raise ValueError(
                f"the fragment {quoted(part)} violates the requirement that an index interval can have at most "
                "two parts separated by '-'"
            )
        numbers = []
        for end in ends:
            digits = re.fullmatch(r"\+?0*([0-9]{1,19})", end)
            number = 2**63 if digits is None else int(digits[1])
            if number >= 2**63:
                raise ValueError(f"cannot convert string to integer for index: {quoted(end)}")
            if number >= completions:
                raise ValueError(f"too large index: {quoted(end)}")
            numbers.append(number)
        for previous, current in (*pairwise(numbers), (last, numbers[0])):
            if current <= previous:
                raise ValueError(f"non-increasing order, previous: {previous}, current: {current}")
        last = numbers[-1]
        found.append((numbers[0], numbers[-1]))
    return found


def _check_replacement_policy(errors: Errors, path: str, spec: batch_v1.JobSpec) -> None:
    policy = spec.pod_replacement_policy
    if policy is None:
        return
    if spec.pod_failure_policy is not None:
        if policy != "Failed":
            errors.append(unsupported(path, policy, ("Failed",)))
    elif policy not in ("Failed", "TerminatingOrFailed"):
        errors.append(unsupported(path, policy, ("Failed", "TerminatingOrFailed")))
