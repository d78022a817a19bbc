"""Rules that the kinds which make pods from a template share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from bayplan.api.errors import forbidden, invalid, required, unsupported
from bayplan.api.selectors import labels as selectors
from bayplan.api.types import core_v1, meta_v1
from bayplan.api.validation.fields import (
    Errors,
    check_at_most_hundred_percent,
    check_int_or_percent,
    check_label_selector,
    check_not_negative,
    int_or_percent_value,
    null_if_empty,
)
from bayplan.api.validation.pods.pod_spec import check_pod_template

MISMATCH = "`selector` does not match template `labels`"


def compile_or_none(selector: meta_v1.LabelSelector | None) -> selectors.LabelSelector | None:
    """The compiled selector; None if it is malformed."""
    try:
        return selectors.compile_selector(selector)
    except selectors.SelectorError:
        return None


def check_selector_and_template(
    errors: Errors,
    selector: meta_v1.LabelSelector | None,
    template: core_v1.PodTemplateSpec,
    kind: str,
    malformed: str = "invalid label selector",
) -> bool:
    """`spec.selector` is there, says something, and matches `spec.template`, which is valid.

    False if the selector is malformed; the template is not looked at then.
    """
    if selector is None:
        errors.append(required("spec.selector"))
    else:
        check_label_selector(errors, "spec.selector", selector)
        if not selector.match_labels and not selector.match_expressions:
            errors.append(invalid("spec.selector", selector, f"empty selector is invalid for {kind}"))
    compiled = compile_or_none(selector)
    if compiled is None:
        errors.append(invalid("spec.selector", selector, malformed))
        return False
    check_matching_template(errors, compiled, template)
    return True


def check_matching_template(
    errors: Errors, selector: selectors.LabelSelector, template: core_v1.PodTemplateSpec
) -> None:
    """The template's labels match a selector that is not empty, and the template is valid."""
    if not selector.is_everything():
        check_template_labels(errors, selector, template)
    check_pod_template(errors, "spec.template", template)


def check_template_labels(errors: Errors, selector: selectors.LabelSelector, template: core_v1.PodTemplateSpec) -> None:
    """The template's labels match the selector."""
    labels = template.metadata.labels
    if not selector.matches(labels):
        errors.append(invalid("spec.template.metadata.labels", null_if_empty(labels), MISMATCH))


def check_runs_for_ever(errors: Errors, template: core_v1.PodTemplateSpec, kind: str) -> None:
    """Pods are restarted always and have no deadline. `kind`: the name in messages."""
    policy = template.spec.restart_policy
    if policy != "Always":
        errors.append(unsupported("spec.template.spec.restartPolicy", policy, ("Always",)))
    if template.spec.active_deadline_seconds is not None:
        path = "spec.template.spec.activeDeadlineSeconds"
        errors.append(forbidden(path, f"activeDeadlineSeconds in {kind} is not Supported"))


def check_rolling_amount(errors: Errors, path: str, value: int | str | None) -> int:
    """`maxUnavailable` or `maxSurge`; returns its number."""
    if value is not None:
        check_int_or_percent(errors, path, value)
        check_at_most_hundred_percent(errors, path, value)
    return int_or_percent_value(value)


def spelled_out(strategy: Any, *amounts: str) -> Any:
    """An update strategy with 0 for amounts of its rolling update that are left out, as messages show it."""
    rolling = strategy.rolling_update
    if rolling is None:
        return strategy
    missing = {name: 0 for name in amounts if getattr(rolling, name) is None}
    return replace(strategy, rolling_update=replace(rolling, **missing))


def check_counts(errors: Errors, status: Any, names: Sequence[tuple[str, str]]) -> None:
    """Counters of a status are not negative; names are attribute and JSON name."""
    for attribute, name in names:
        check_not_negative(errors, f"status.{name}", getattr(status, attribute))


def check_not_above_replicas(
    errors: Errors, status: Any, names: Sequence[tuple[str, str]], ready: str = "readyReplicas"
) -> None:
    """Counters of a status are not above `replicas`, and what is available is ready (`ready`: what the message calls that)."""
    for attribute, name in names:
        value = getattr(status, attribute)
        if value > status.replicas:
            errors.append(invalid(f"status.{name}", value, "cannot be greater than status.replicas"))
    if status.available_replicas > status.ready_replicas:
        errors.append(invalid("status.availableReplicas", status.available_replicas, f"cannot be greater than {ready}"))


def check_collision_count(errors: Errors, new: int | None, old: int | None) -> None:
    """`collisionCount` does not fall."""
    check_not_negative(errors, "status.collisionCount", new)
    if old is not None and (new is None or new < old):
        errors.append(invalid("status.collisionCount", new or 0, "cannot be decremented"))
