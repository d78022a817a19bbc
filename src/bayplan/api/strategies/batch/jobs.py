"""Jobs."""

from __future__ import annotations

import msgspec

from bayplan.api.defaults.pod_spec import default_pod_template
from bayplan.api.errors import FieldError, invalid, required
from bayplan.api.selectors.labels import LabelSelector
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import batch_v1, core_v1, meta_v1
from bayplan.api.validation.fields import (
    check_label_selector,
    check_unchanged,
    null_if_empty,
)
from bayplan.api.validation.go_structs import shown_later
from bayplan.api.validation.job_status import check_job_status
from bayplan.api.validation.jobs import check_job_spec
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.pods.pod_warnings import owner_name_warnings, template_warnings
from bayplan.api.validation.values import formats
from bayplan.api.validation.workloads import MISMATCH, compile_or_none

_UID = "batch.kubernetes.io/controller-uid"
_NAME = "batch.kubernetes.io/job-name"
_MANY_INDEXES = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "
    "Kubernetes might not be able to "
    "track completedIndexes when a big number of indexes fail"
)


class JobStrategy(Strategy):
    """Rules of jobs. Selector and labels are generated from the uid unless the user manages them."""

    update_checks = UpdateChecks(whole=1)
    counts_generation = True
    has_status = True
    orphans_dependents = True
    selectable_field_names = frozenset(("status.successful",))

    def default(self, obj: batch_v1.Job) -> None:
        spec = obj.spec
        default_pod_template(spec.template)
        if spec.completions is None and spec.parallelism is None:
            spec.completions = 1
        if spec.parallelism is None:
            spec.parallelism = 1
        if spec.backoff_limit is None:
            spec.backoff_limit = 6 if spec.backoff_limit_per_index is None else 2**31 - 1
        if not obj.metadata.labels and spec.template.metadata.labels:
            obj.metadata.labels = spec.template.metadata.labels  # one map: what the template gets, the job gets
        if spec.completion_mode is None:
            spec.completion_mode = "NonIndexed"
        if spec.suspend is None:
            spec.suspend = False
        if spec.manual_selector is None:
            spec.manual_selector = False
        default_failure_policy(spec)
        if spec.pod_replacement_policy is None:
            spec.pod_replacement_policy = "TerminatingOrFailed" if spec.pod_failure_policy is None else "Failed"

    def prepare_create(self, obj: batch_v1.Job) -> None:
        super().prepare_create(obj)
        if not obj.spec.manual_selector:
            _generate_selector(obj)

    def validate(self, obj: batch_v1.Job) -> list[FieldError]:
        errors: list[FieldError] = []
        spec, compiled = obj.spec, compile_or_none(obj.spec.selector)
        if not spec.manual_selector and spec.selector is not None:
            _check_generated(errors, obj, compiled)
        self._check_spec(errors, spec, compiled)
        if spec.completion_mode == "Indexed" and spec.completions is not None and spec.completions > 0:
            pod_name = f"{obj.metadata.name}-{spec.completions - 1}"
            if formats.dns_label(pod_name):
                text = f"will not able to create pod with invalid DNS label: {pod_name}"
                errors.append(invalid("metadata.name", obj.metadata.name, text))
        return errors

    def _check_spec(self, errors: list[FieldError], spec: batch_v1.JobSpec, compiled: LabelSelector | None) -> None:
        check_job_spec(errors, "spec", spec)
        if spec.selector is None:
            errors.append(required("spec.selector"))
        else:
            check_label_selector(errors, "spec.selector", spec.selector)
        labels = spec.template.metadata.labels
        if compiled is not None and not compiled.matches(labels):
            errors.append(invalid("spec.template.metadata.labels", null_if_empty(labels), MISMATCH))

    def validate_update(self, obj: batch_v1.Job, old: batch_v1.Job) -> list[FieldError]:
        errors: list[FieldError] = []
        self._check_spec(errors, obj.spec, compile_or_none(obj.spec.selector))
        new, before = obj.spec, old.spec
        if new.completion_mode != "Indexed":
            check_unchanged(errors, "spec.completions", new.completions, before.completions)
        elif new.completions not in (None, before.completions, new.parallelism):
            text = "can only be modified in tandem with spec.parallelism"
            errors.append(invalid("spec.completions", new.completions, text))
        check_unchanged(errors, "spec.selector", new.selector, before.selector)
        _check_template_unchanged(errors, obj, old)
        check_unchanged(errors, "spec.completionMode", new.completion_mode, before.completion_mode)
        check_unchanged(errors, "spec.podFailurePolicy", new.pod_failure_policy, before.pod_failure_policy)
        check_unchanged(
            errors, "spec.backoffLimitPerIndex", new.backoff_limit_per_index, before.backoff_limit_per_index
        )
        check_unchanged(errors, "spec.managedBy", new.managed_by, before.managed_by)
        check_unchanged(errors, "spec.successPolicy", new.success_policy, before.success_policy)
        return errors

    def validate_status_update(self, obj: batch_v1.Job, old: batch_v1.Job) -> list[FieldError]:
        errors: list[FieldError] = []
        check_job_status(errors, obj, old)
        return errors

    def warnings(self, obj: batch_v1.Job, old: batch_v1.Job | None) -> list[str]:
        if old is not None and old.metadata.generation == obj.metadata.generation:
            return []
        named = owner_name_warnings(obj.metadata.name) if old is None else []
        return named + job_spec_warnings("spec", obj.spec)

    def selectable_fields(self, obj: batch_v1.Job) -> dict[str, str]:
        return {"status.successful": str(obj.status.succeeded)}


def job_spec_warnings(path: str, spec: batch_v1.JobSpec) -> list[str]:
    """Warnings about a job, or the template of one."""
    found = template_warnings(f"{path}.template", spec.template)
    if spec.completion_mode == "Indexed" and (spec.completions or 0) > 100_000 and (spec.parallelism or 0) > 10_000:
        return [f"{path}: {_MANY_INDEXES}", *found]
    return found


def default_failure_policy(spec: batch_v1.JobSpec) -> None:
    """Conditions of a failure policy mean those that hold."""
    if spec.pod_failure_policy is not None:
        for rule in spec.pod_failure_policy.rules:
            for pattern in rule.on_pod_conditions:
                pattern.status = pattern.status or "True"


def _generate_selector(obj: batch_v1.Job) -> None:
    uid, name = obj.metadata.uid, obj.metadata.name
    labels = obj.spec.template.metadata.labels
    has_none_of_its_own = not obj.metadata.labels or obj.metadata.labels is labels
    for key, value in (("controller-uid", uid), ("job-name", name), (_UID, uid), (_NAME, name)):
        labels.setdefault(key, value)
    if has_none_of_its_own and not formats.label_value(name):
        obj.metadata.labels = dict(sorted(labels.items()))
    selector = obj.spec.selector or meta_v1.LabelSelector()
    selector.match_labels.setdefault(_UID, uid)
    obj.spec.selector = selector


def _check_generated(errors: list[FieldError], obj: batch_v1.Job, compiled: LabelSelector | None) -> None:
    labels, uid, name = obj.spec.template.metadata.labels, obj.metadata.uid, obj.metadata.name
    expected = {"controller-uid": uid, "job-name": name, _UID: uid, _NAME: name}
    for key in expected:
        where = f"spec.template.metadata.labels[{key}]"
        if key not in labels:
            errors.append(required(where, f"must be '{expected[key]}'"))
        elif labels[key] != expected[key]:
            errors.append(invalid(where, labels, f"must be '{expected[key]}'"))
    if compiled is not None and not compiled.matches(expected):
        errors.append(invalid("spec.selector", obj.spec.selector, "`selector` not auto-generated"))


def _check_template_unchanged(errors: list[FieldError], obj: batch_v1.Job, old: batch_v1.Job) -> None:
    """While a job is suspended and has no pods, what steers scheduling and the resources of containers may change."""
    new, before = obj.spec.template, old.spec.template
    if new == before:
        return
    if not _has_mutable_template(old):
        errors.append(invalid("spec.template", shown_later(new), "field is immutable"))
    elif _with_mutable_fields_of(new.spec, before.spec) != before.spec:
        errors.append(invalid("spec.template.spec", shown_later(new.spec), "field is immutable"))


def _has_mutable_template(job: batch_v1.Job) -> bool:
    status = job.status
    is_stopped = status.start_time is None or any(
        condition.type == "Suspended" and condition.status == "True" for condition in status.conditions
    )
    return bool(job.spec.suspend) and is_stopped and not status.active


_SCHEDULING = ("node_selector", "tolerations", "scheduling_gates")


def _with_mutable_fields_of(new: core_v1.PodSpec, old: core_v1.PodSpec) -> core_v1.PodSpec:
    replace = msgspec.structs.replace
    spec = replace(new, **{name: getattr(old, name) for name in _SCHEDULING}, affinity=_affinity(new, old))
    for kind in ("containers", "init_containers"):
        mine, theirs = getattr(new, kind), getattr(old, kind)
        if len(mine) == len(theirs):
            kept = tuple(
                replace(one, resources=other.resources) if one.name == other.name else one
                for one, other in zip(mine, theirs, strict=True)
            )
            spec = replace(spec, **{kind: kept})
    return spec


def _affinity(new: core_v1.PodSpec, old: core_v1.PodSpec) -> core_v1.Affinity | None:
    """The new affinity with the old one's terms about nodes; an affinity that says nothing else may come and go."""
    nodes = old.affinity.node_affinity if old.affinity is not None else None
    others = msgspec.structs.replace(new.affinity or core_v1.Affinity(), node_affinity=nodes)
    return None if old.affinity is None and others == core_v1.Affinity() else others


STRATEGY = JobStrategy()
