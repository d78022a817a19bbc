"""Cron jobs. The job template gets no defaults of jobs: they come when the job is made."""

from __future__ import annotations

from bayplan.api.defaults.pod_spec import default_pod_template
from bayplan.api.errors import FieldError, invalid, required, unsupported
from bayplan.api.strategies.base import Strategy
from bayplan.api.strategies.batch.jobs import default_failure_policy, job_spec_warnings
from bayplan.api.types import batch_v1
from bayplan.api.validation.fields import check_not_negative
from bayplan.api.validation.jobs import check_job_spec
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.pods.pod_warnings import owner_name_warnings
from bayplan.api.validation.values import formats
from bayplan.api.validation.values.cron import check_schedule, check_time_zone

_NAME_LIMIT = 52
"""Jobs get an eleven-character suffix, and their names must be labels of 63."""
_CRON_DOCS = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/"
_POLICIES = ("Allow", "Forbid", "Replace")


class CronJobStrategy(Strategy):
    """Rules of cron jobs."""

    status_checks = UpdateChecks(change=0)
    counts_generation = True
    has_status = True

    def default(self, obj: batch_v1.CronJob) -> None:
        spec = obj.spec
        default_pod_template(spec.job_template.spec.template)
        default_failure_policy(spec.job_template.spec)
        spec.concurrency_policy = spec.concurrency_policy or "Allow"
        if spec.suspend is None:
            spec.suspend = False
        if spec.successful_jobs_history_limit is None:
            spec.successful_jobs_history_limit = 3
        if spec.failed_jobs_history_limit is None:
            spec.failed_jobs_history_limit = 1

    def validate(self, obj: batch_v1.CronJob) -> list[FieldError]:
        errors: list[FieldError] = []
        spec, path = obj.spec, "spec.jobTemplate.spec"
        if not spec.schedule:
            errors.append(required("spec.schedule"))
        else:
            check_schedule(errors, "spec.schedule", spec.schedule)
        check_not_negative(errors, "spec.startingDeadlineSeconds", spec.starting_deadline_seconds)
        check_time_zone(errors, "spec.timeZone", spec.time_zone)
        if spec.concurrency_policy not in _POLICIES:
            errors.append(unsupported("spec.concurrencyPolicy", spec.concurrency_policy, _POLICIES))
        template = spec.job_template.spec
        check_job_spec(errors, path, template)
        if template.selector is not None:
            errors.append(invalid(f"{path}.selector", template.selector, "`selector` will be auto-generated"))
        if template.manual_selector:
            errors.append(unsupported(f"{path}.manualSelector", template.manual_selector, ("nil", "false")))
        check_not_negative(errors, "spec.successfulJobsHistoryLimit", spec.successful_jobs_history_limit)
        check_not_negative(errors, "spec.failedJobsHistoryLimit", spec.failed_jobs_history_limit)
        return errors

    def validate_create(self, obj: batch_v1.CronJob) -> list[FieldError]:
        if formats.size(obj.metadata.name) > _NAME_LIMIT:
            return [invalid("metadata.name", obj.metadata.name, formats.too_long_message(_NAME_LIMIT))]
        return []

    def warnings(self, obj: batch_v1.CronJob, old: batch_v1.CronJob | None) -> list[str]:
        found = owner_name_warnings(obj.metadata.name) if old is None else []
        if old is None or old.metadata.generation != obj.metadata.generation:
            found += job_spec_warnings("spec.jobTemplate.spec", obj.spec.job_template.spec)
        if old is not None and "TZ" in obj.spec.schedule:
            advice = f"use timeZone instead, see {_CRON_DOCS} for more details"
            found.append(f"cannot use TZ or CRON_TZ in spec.spec.schedule, {advice}")
        return found


STRATEGY = CronJobStrategy()
