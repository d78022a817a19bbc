"""How jobs and cron jobs look in tables."""

from __future__ import annotations

from typing import Any

from bayplan.api.printing.base import NONE, age, container_texts, human_duration, object_age, printers, selector_text
from bayplan.api.types import batch_v1
from bayplan.support.timestamps import parse_rfc3339


def _job(obj: batch_v1.Job, now: float) -> list[Any]:
    return [
        obj.metadata.name,
        _job_state(obj),
        _completions(obj),
        _duration(obj, now),
        object_age(obj, now),
        *container_texts(obj.spec.template.spec),
        selector_text(obj.spec.selector),
    ]


def _job_state(job: batch_v1.Job) -> str:
    """The first of the states, in order of weight, that the job is in."""
    true = {condition.type for condition in job.status.conditions if condition.status == "True"}
    for state in ("Complete", "Failed"):
        if state in true:
            return state
    if job.metadata.deletion_timestamp is not None:
        return "Terminating"
    return next((state for state in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if state in true), "Running")


def _completions(job: batch_v1.Job) -> str:
    succeeded, spec = job.status.succeeded, job.spec
    if spec.completions is not None:
        return f"{succeeded}/{spec.completions}"
    parallelism = spec.parallelism or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(job: batch_v1.Job, now: float) -> str:
    if job.status.start_time is None:
        return ""
    end = now if job.status.completion_time is None else parse_rfc3339(job.status.completion_time)
    return human_duration(end - parse_rfc3339(job.status.start_time))


def _cron_job(obj: batch_v1.CronJob, now: float) -> list[Any]:
    spec, last = obj.spec, obj.status.last_schedule_time
    return [
        obj.metadata.name,
        spec.schedule,
        spec.time_zone or NONE,
        str(bool(spec.suspend)),
        len(obj.status.active),
        NONE if last is None else age(last, now),
        object_age(obj, now),
        *container_texts(spec.job_template.spec.template.spec),
        selector_text(spec.job_template.spec.selector),
    ]


PRINTERS = printers("batch", {"CronJob": _cron_job, "Job": _job})
