"""CronJob: Jobs at the times of a schedule.

Source of the behaviour: kube-controller-manager's cronjob controller (version 2): names from the scheduled minute, so that no time runs twice.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfoNotFoundError

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.strategies.base import clone
from bayplan.api.types import batch_v1, core_v1, meta_v1
from bayplan.client.events import reference
from bayplan.controllers.base import Controller, controller_of, index_by_controller, owner_reference
from bayplan.controllers.workloads.cron_schedule import Schedule, missed, parse, zone_of
from bayplan.controllers.workloads.job_rules import COMPLETE, finished
from bayplan.informers.cache import key_of
from bayplan.support.timestamps import parse_rfc3339, rfc3339

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
"""Annotation of a Job: the time for which it was made, in the zone of its CronJob."""
_LATE = 0.1
"""Seconds after its time at which a CronJob is looked at."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is due for a CronJob."""

    scheduled: float | None = None
    """The time (Unix seconds) that is to run now; None if none is due."""
    too_many: bool = False
    """Far more than this time were missed."""
    too_late: bool = False
    """The time is over the starting deadline."""
    start: bool = False
    """A job is to be made for the time."""
    blocked: bool = False
    """It is not, because another one runs and the policy is Forbid."""
    replace: tuple[core_v1.ObjectReference, ...] = ()
    """Running jobs that go first, because the policy is Replace."""
    next: float | None = None
    """The next time after now."""


def decide(cron_job: batch_v1.CronJob, jobs: Container[str], schedule: Schedule, zone: tzinfo, now: float) -> Plan:
    """What is to be done now; `jobs`: names of the jobs that there are."""
    plan = due(cron_job, schedule, zone, now)
    if plan.scheduled is None or plan.too_late:
        return plan
    name, running = job_name(cron_job, plan.scheduled), cron_job.status.active
    if name in jobs or any(one.name == name for one in running):
        return plan
    if cron_job.spec.concurrency_policy == "Forbid" and running:
        return replace(plan, blocked=True)
    return replace(plan, start=True, replace=running if cron_job.spec.concurrency_policy == "Replace" else ())


def job_name(cron_job: batch_v1.CronJob, scheduled: float) -> str:
    """The name of the job of a time: one per minute."""
    return f"{cron_job.metadata.name}-{int(scheduled) // 60}"


def due(cron_job: batch_v1.CronJob, schedule: Schedule, zone: tzinfo, now: float) -> Plan:
    """Which time of the schedule, if any, is due and has not run."""
    spec, status = cron_job.spec, cron_job.status
    since = parse_rfc3339(status.last_schedule_time or cron_job.metadata.creation_timestamp or rfc3339(now))
    upcoming = schedule.after(now, zone)
    deadline = spec.starting_deadline_seconds
    bounded = max(since, now - deadline) if deadline is not None else since
    if bounded > now:
        return Plan(next=upcoming)
    scheduled, too_many = missed(schedule, bounded, now, zone)
    if scheduled is None:
        late, _ = missed(schedule, since, now, zone) if bounded > since else (None, False)
        return Plan(late, too_late=late is not None, next=upcoming)
    return Plan(scheduled, too_many, deadline is not None and scheduled + deadline < now, next=upcoming)


def surplus(jobs: Iterable[batch_v1.Job], limit: int | None) -> list[batch_v1.Job]:
    """The oldest of jobs that have ended, beyond the number to keep; None keeps all."""
    if limit is None:
        return []
    ordered = sorted(jobs, key=lambda job: (job.status.start_time or "~", job.metadata.name))
    return ordered[: max(len(ordered) - limit, 0)]


def new_job(cron_job: batch_v1.CronJob, scheduled: float, zone: tzinfo) -> batch_v1.Job:
    """The Job of a time."""
    template: batch_v1.JobTemplateSpec = clone(cron_job.spec.job_template)
    moment = datetime.fromtimestamp(scheduled, zone).isoformat(timespec="seconds").replace("+00:00", "Z")
    return batch_v1.Job(
        metadata=meta_v1.ObjectMeta(
            name=job_name(cron_job, scheduled),
            namespace=cron_job.metadata.namespace,
            labels=template.metadata.labels,
            annotations={**template.metadata.annotations, SCHEDULED: moment},
            creation_timestamp=None,
            owner_references=(owner_reference("batch/v1", "CronJob", cron_job),),
        ),
        spec=template.spec,
    )


class CronJobController(Controller):
    """See the module."""

    name = "cronjob-controller"

    def setup(self) -> None:
        self.cron_jobs = self.informer(batch_v1.CronJob)
        self.jobs = self.informer(batch_v1.Job)
        index_by_controller(self.jobs)
        self.watch_keys(self.cron_jobs)
        self.watch_owned(self.jobs, "CronJob")

    async def reconcile(self, key: str) -> None:
        cached = self.cron_jobs.cache.by_key(key)
        if cached is None or cached.metadata.deletion_timestamp:
            return
        cron_job = msgspec.structs.replace(cached, status=msgspec.structs.replace(cached.status))
        jobs = list(self.jobs.cache.by_index("controller", cached.metadata.uid))
        await self._follow(cron_job, jobs)
        await self._clean(cron_job, jobs)
        plan = await self._run(cron_job, jobs)
        await self._update_status(cached, cron_job)
        if plan is not None and plan.next is not None:
            self.queue.add_after(key, plan.next - self.clock.now() + _LATE)

    async def _follow(self, cron_job: batch_v1.CronJob, jobs: Sequence[batch_v1.Job]) -> None:
        """Bring the list of running jobs and the time of the last success up to date."""
        status = cron_job.status
        known = {one.uid for one in status.active}
        gone = set(known)
        for job in jobs:
            uid, end = job.metadata.uid, finished(job)
            gone.discard(uid)
            if end is None:
                if uid not in known and uid not in await self._active_now(cron_job):
                    name = job.metadata.name
                    text = f"Saw a job that the controller did not create or forgot: {name}"
                    self.recorder.event(cron_job, "Warning", "UnexpectedJob", text)
                continue
            if uid in known:
                status.active = tuple(one for one in status.active if one.uid != uid)
                text = f"Saw completed job: {job.metadata.name}, condition: {end.type}"
                self.recorder.event(cron_job, "Normal", "SawCompletedJob", text)
            ended = job.status.completion_time
            if end.type == COMPLETE and ended and ended > (status.last_successful_time or ""):
                status.last_successful_time = ended
        for one in [one for one in status.active if one.uid in gone]:
            if one.uid not in await self._active_now(cron_job):
                status.active = tuple(each for each in status.active if each.uid != one.uid)
                continue
            try:
                found = await self.client.get(batch_v1.Job, one.name, one.namespace)
            except ApiError as error:
                if error.code != 404:
                    raise
            else:
                if found.metadata.uid == one.uid:
                    continue  # the cache is behind
            status.active = tuple(each for each in status.active if each.uid != one.uid)
            text = f"Active job went missing: {one.name}"
            self.recorder.event(cron_job, "Normal", "MissingJob", text)

    async def _active_now(self, cron_job: batch_v1.CronJob) -> set[str]:
        """The uids of the jobs that run as the API server has them: the cache may not have seen yet what this controller has written."""
        metadata = cron_job.metadata
        try:
            stored = await self.client.get(batch_v1.CronJob, metadata.name, metadata.namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            return set()
        return {one.uid for one in stored.status.active}

    async def _clean(self, cron_job: batch_v1.CronJob, jobs: Sequence[batch_v1.Job]) -> None:
        """Delete jobs beyond the history limits."""
        ends = [(job, end.type) for job in jobs if (end := finished(job)) is not None]
        spec = cron_job.spec
        for wanted, limit in ((True, spec.successful_jobs_history_limit), (False, spec.failed_jobs_history_limit)):
            for job in surplus([job for job, kind in ends if (kind == COMPLETE) is wanted], limit):
                await self._delete(cron_job, job.metadata.name, job.metadata.uid)

    async def _run(self, cron_job: batch_v1.CronJob, jobs: Sequence[batch_v1.Job]) -> Plan | None:
        """Start the job that is due. Returns None if none ever will be: suspended, or a schedule that cannot be understood."""
        spec, now = cron_job.spec, self.clock.now()
        try:
            zone = zone_of(spec.time_zone)
        except ZoneInfoNotFoundError:
            text = f'invalid timeZone: "{spec.time_zone}": unknown time zone {spec.time_zone}'
            self.recorder.event(cron_job, "Warning", "UnknownTimeZone", text)
            return None
        if spec.suspend:
            return None
        try:
            schedule = parse(spec.schedule)
        except ValueError as error:
            text = f'unparseable schedule: "{spec.schedule}" : {error}'
            self.recorder.event(cron_job, "Warning", "UnparseableSchedule", text)
            return None
        plan = decide(cron_job, {job.metadata.name for job in jobs}, schedule, zone, now)
        if plan.scheduled is None and plan.next is None:
            text = f"invalid schedule: {spec.schedule} : time difference between two schedules is less than 1 second"
            self.recorder.event(cron_job, "Warning", "InvalidSchedule", text)
            return None
        if plan.too_many:
            text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self.recorder.event(cron_job, "Warning", "TooManyMissedTimes", text)
        if plan.scheduled is None:
            return plan
        if plan.too_late:
            text = f"Missed scheduled time to start a job: {rfc3339(plan.scheduled)}"
            self.recorder.event(cron_job, "Warning", "MissSchedule", text)
        if plan.blocked:
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self.recorder.event(cron_job, "Normal", "JobAlreadyActive", text)
        for one in plan.replace:
            await self._delete(cron_job, one.name, one.uid)
        if plan.start:
            await self._start(cron_job, new_job(cron_job, plan.scheduled, zone), plan.scheduled)
        return plan

    async def _start(self, cron_job: batch_v1.CronJob, job: batch_v1.Job, scheduled: float) -> None:
        try:
            created = await self.client.create(job)
        except ApiError as error:
            if error.code != 409 or error.status.reason != "AlreadyExists":
                self.recorder.event(cron_job, "Warning", "FailedCreate", f"Error creating job: {error.message}")
                raise
            created = await self.client.get(batch_v1.Job, job.metadata.name, job.metadata.namespace)
            owner = controller_of(created)
            if owner is None or owner.uid != cron_job.metadata.uid:
                text = f"Job {job.metadata.name} exists and is not of this CronJob"
                self.recorder.event(cron_job, "Warning", "FailedCreate", text)
                raise
        else:
            self.recorder.event(cron_job, "Normal", "SuccessfulCreate", f"Created job {created.metadata.name}")
        cron_job.status.active = (*cron_job.status.active, reference(self.client, created))
        cron_job.status.last_schedule_time = rfc3339(scheduled)

    async def _delete(self, cron_job: batch_v1.CronJob, name: str, uid: str) -> None:
        try:
            await self.client.delete(
                batch_v1.Job, name, cron_job.metadata.namespace, uid=uid, propagation_policy="Background"
            )
        except ApiError as error:
            if error.code not in (404, 409):
                self.recorder.event(cron_job, "Warning", "FailedDelete", f"Deleted job: {error.message}")
                raise
        else:
            self.recorder.event(cron_job, "Normal", "SuccessfulDelete", f"Deleted job {name}")
        cron_job.status.active = tuple(one for one in cron_job.status.active if one.uid != uid)

    async def _update_status(self, cached: batch_v1.CronJob, cron_job: Any) -> None:
        if cron_job.status == cached.status:
            return
        try:
            await self.client.update_status(cron_job)
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            self.queue.add_rate_limited(key_of(cached))
