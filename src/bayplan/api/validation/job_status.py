"""Which states a job's status may take, and which steps lead from one to the next.

A rule is asked only if what it speaks about has changed, so that a status that broke it before can still be written. Source: Kubernetes'
`batch/validation` and the job strategy's `getStatusValidationOptions`, with the feature JobManagedBy.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bayplan.api.errors import OMITTED, duplicate, invalid, required
from bayplan.api.index_sets import IndexSet
from bayplan.api.types import batch_v1
from bayplan.api.validation.fields import Errors, check_not_negative
from bayplan.api.validation.jobs import index_intervals
from bayplan.support.timestamps import parse_rfc3339

_CONDITIONS = "status.conditions"
_INDEXES_ATTRIBUTES = ("completed_indexes", "failed_indexes")


class _Uncounted(msgspec.Struct, rename="pascal"):
    """As errors show it: with the names of fields in the server's program."""

    succeeded: list[str] | None
    failed: list[str] | None


def check_job_status(errors: Errors, new: batch_v1.Job, old: batch_v1.Job) -> None:
    """An update of a job's status."""
    _check_numbers(errors, new.status)
    _check_uncounted(errors, new.status)
    changes = _Changes(new, old)
    _check_end(errors, new, changes)
    _check_indexes(errors, new, changes)
    _check_ready(errors, new.status, changes)
    _check_success(errors, new)
    _check_step(errors, new, old, changes)


def _true(job: batch_v1.Job, condition: str) -> bool:
    return any(one.type == condition and one.status == "True" for one in job.status.conditions)


class _Changes:
    """What is different between two states of a job."""

    def __init__(self, new: batch_v1.Job, old: batch_v1.Job) -> None:
        self._new, self._old = new, old
        self.complete, self.failed = self.condition("Complete"), self.condition("Failed")
        finished = (_true(new, "Complete") or _true(new, "Failed")) != (_true(old, "Complete") or _true(old, "Failed"))
        self.finished = finished

    def condition(self, name: str) -> bool:
        """Whether a condition became true or ceased to be."""
        return _true(self._new, name) != _true(self._old, name)

    def any(self, *attributes: str) -> bool:
        """Whether one of these parts of the status changed."""
        new, old = self._new.status, self._old.status
        return any(getattr(new, name) != getattr(old, name) for name in attributes)


def _check_numbers(errors: Errors, status: batch_v1.JobStatus) -> None:
    for name in ("active", "succeeded", "failed", "ready", "terminating"):
        check_not_negative(errors, f"status.{name}", getattr(status, name))


def _check_uncounted(errors: Errors, status: batch_v1.JobStatus) -> None:
    uncounted = status.uncounted_terminated_pods
    if uncounted is None:
        return
    seen: set[str] = set()
    for field, uids in (("succeeded", uncounted.succeeded), ("failed", uncounted.failed)):
        for index, uid in enumerate(uids):
            where = f"status.uncountedTerminatedPods.{field}[{index}]"
            if not uid:
                errors.append(invalid(where, uid, "must not be empty"))
            elif uid in seen:
                errors.append(duplicate(where, uid))
            seen.add(uid)


def _refuse(errors: Errors, detail: str) -> None:
    errors.append(invalid(_CONDITIONS, OMITTED, detail))


def _check_end(errors: Errors, job: batch_v1.Job, changes: _Changes) -> None:
    """What goes together when a job ends."""
    status, complete, failed = job.status, _true(job, "Complete"), _true(job, "Failed")
    if (changes.complete or changes.failed) and complete and failed:
        _refuse(errors, "cannot set Complete=True and Failed=true conditions")
    if (changes.complete or changes.condition("FailureTarget")) and complete and _true(job, "FailureTarget"):
        _refuse(errors, "cannot set Complete=True and FailureTarget=true conditions")
    if changes.complete or changes.any("completion_time"):
        if status.completion_time is not None and not complete:
            text = "cannot set completionTime when there is no Complete=True condition"
            errors.append(invalid("status.completionTime", status.completion_time, text))
        if status.completion_time is None and complete:
            errors.append(required("status.completionTime", "completionTime is required for Complete jobs"))
    if changes.any("start_time", "completion_time") and _ends_before_it_starts(status):
        text = "completionTime cannot be set before startTime"
        errors.append(invalid("status.completionTime", status.completion_time, text))
    if changes.failed and failed and not _true(job, "FailureTarget"):
        _refuse(errors, "cannot set Failed=True condition without the FailureTarget=true condition")
    if changes.complete and complete and not _true(job, "SuccessCriteriaMet"):
        _refuse(errors, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
    if complete or failed:
        _check_finished(errors, status, changes)


def _ends_before_it_starts(status: batch_v1.JobStatus) -> bool:
    start, end = status.start_time, status.completion_time
    return bool(start and end) and parse_rfc3339(str(end)) < parse_rfc3339(str(start))


def _check_finished(errors: Errors, status: batch_v1.JobStatus, changes: _Changes) -> None:
    if (changes.finished or changes.any("active")) and status.active > 0:
        errors.append(invalid("status.active", status.active, "active>0 is invalid for finished job"))
    if (changes.finished or changes.any("start_time")) and status.start_time is None:
        errors.append(required("status.startTime", "startTime is required for finished job"))
    uncounted = status.uncounted_terminated_pods
    left = uncounted is not None and (uncounted.failed or uncounted.succeeded)
    if (changes.finished or changes.any("uncounted_terminated_pods")) and left:
        assert uncounted is not None
        shown = _Uncounted(list(uncounted.succeeded) or None, list(uncounted.failed) or None)
        errors.append(invalid("status.uncountedTerminatedPods", shown, "must be empty for finished job"))
    if (changes.finished or changes.any("terminating")) and status.terminating:
        text = "terminating>0 is invalid for finished job"
        errors.append(invalid("status.terminating", status.terminating, text))


def _check_indexes(errors: Errors, job: batch_v1.Job, changes: _Changes) -> None:
    """The lists of indexes are well-formed, and an index either completed or failed."""
    spec, status = job.spec, job.status
    completed, failed = (changes.any(name) for name in _INDEXES_ATTRIBUTES)
    where = "status.completedIndexes", "status.failedIndexes"
    if completed and spec.completions is not None:
        _check_parsable(errors, where[0], status.completed_indexes, spec.completions)
    if failed and spec.completions is not None and spec.backoff_limit_per_index is not None:
        _check_parsable(errors, where[1], status.failed_indexes or "", spec.completions)
    if completed and status.completed_indexes and spec.completion_mode != "Indexed":
        text = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.append(invalid(where[0], status.completed_indexes, text))
    if status.failed_indexes is None:
        return
    if failed and spec.backoff_limit_per_index is None:
        text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        errors.append(invalid(where[1], status.failed_indexes, text))
    if (failed or completed) and spec.completions is not None:
        both = _first_common(status.completed_indexes, status.failed_indexes, spec.completions)
        if both is not None:
            text = f"failedIndexes and completedIndexes overlap at index: {both}"
            errors.append(invalid(where[1], status.failed_indexes, text))


def _check_parsable(errors: Errors, path: str, text: str, completions: int) -> None:
    try:
        index_intervals(text, completions)
    except ValueError as error:
        errors.append(invalid(path, text, f"error parsing {path.rpartition('.')[2]}: {error}"))


def _first_common(one: str, other: str, completions: int) -> int | None:
    """The first index that both lists name; malformed parts name none."""
    return (IndexSet(_well_formed(one, completions)) & IndexSet(_well_formed(other, completions))).first


def _well_formed(text: str, completions: int) -> list[tuple[int, int]]:
    return [interval for part in text.split(",") for interval in _interval(part, completions)]


def _interval(part: str, completions: int) -> Iterable[tuple[int, int]]:
    try:
        return index_intervals(part, completions)
    except ValueError:
        return ()


def _check_ready(errors: Errors, status: batch_v1.JobStatus, changes: _Changes) -> None:
    if changes.any("ready", "active") and status.ready is not None and status.ready > status.active:
        errors.append(invalid("status.ready", status.ready, "cannot set more ready pods than active"))


def _check_success(errors: Errors, job: batch_v1.Job) -> None:
    """Success that has been decided excludes failure."""
    met = _true(job, "SuccessCriteriaMet")
    if met and _true(job, "Failed"):
        _refuse(errors, "cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if met and _true(job, "FailureTarget"):
        _refuse(errors, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    if job.spec.success_policy is not None and not met and _true(job, "Complete"):
        _refuse(errors, "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")


def _check_step(errors: Errors, new: batch_v1.Job, old: batch_v1.Job, changes: _Changes) -> None:
    """What has been decided or counted stays so."""
    for name in ("Failed", "Complete", "FailureTarget"):
        if _true(old, name) and not _true(new, name):
            _refuse(errors, f"cannot disable the terminal {name}=True condition")
    status, before, spec = new.status, old.status, new.spec
    if status.failed < before.failed:
        errors.append(invalid("status.failed", status.failed, "cannot decrease the failed counter"))
    elastic = spec.completion_mode == "Indexed" and spec.completions == spec.parallelism
    if not elastic and status.succeeded < before.succeeded:
        errors.append(invalid("status.succeeded", status.succeeded, "cannot decrease the succeeded counter"))
    if status.completion_time and before.completion_time and changes.any("completion_time"):
        text = "completionTime cannot be mutated"
        errors.append(invalid("status.completionTime", status.completion_time, text))
    if before.start_time is not None and changes.any("start_time") and not spec.suspend:
        errors.append(required("status.startTime", "startTime cannot be removed for unsuspended job"))
    if _true(old, "SuccessCriteriaMet") and not _true(new, "SuccessCriteriaMet"):
        _refuse(errors, "cannot disable the SuccessCriteriaMet=True condition")
    if _true(old, "Complete") and not _true(old, "SuccessCriteriaMet") and _true(new, "SuccessCriteriaMet"):
        _refuse(errors, "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
