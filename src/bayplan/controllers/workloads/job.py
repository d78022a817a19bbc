"""Job: pods that run to their end, counted exactly once. What is decided is in `job_rules`; this is the shell that watches and writes.

One pass: tally the pods, see whether the job ends, create or delete pods, put new ends into the status by uid, take the finalizers off, move the uids into the
counters, and add the final condition when the last pod is gone.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.index_sets import IndexSet
from bayplan.api.types import batch_v1, core_v1
from bayplan.client.client import STRATEGIC_PATCH
from bayplan.controllers.base import controller_of
from bayplan.controllers.workloads import job_indexes, job_rules
from bayplan.controllers.workloads.job_gangs import JobGangs
from bayplan.controllers.workloads.job_rules import FINALIZER, Tally, Verdict
from bayplan.controllers.workloads.pod_owner import PodOwner, claim
from bayplan.informers.cache import key_of
from bayplan.support.timestamps import rfc3339

MANAGER = "kubernetes.io/job-controller"
"""`managedBy` of jobs that are this controller's."""
_UNCOUNTED = 500
"""Most uids that a status holds at once."""
_ORPHAN = "#"
"""Prefix of queue keys that name a pod whose finalizer may be in the way of its deletion."""


class _Streak:
    """Failures of a job since its last success: how many, and when the last one was. Forgotten by a restart, as in Kubernetes."""

    __slots__ = ("failures", "last", "seen")

    def __init__(self) -> None:
        self.failures, self.last = 0, 0.0
        self.seen: set[str] = set()

    def add(self, tally: Tally, now: float) -> None:
        """Take in ends that are new."""
        ends = [(job_rules.ended_at(pod, now), pod, True) for pod in tally.new_failed]
        ends += [(job_rules.ended_at(pod, now), pod, False) for pod in tally.new_succeeded]
        for when, pod, failed in sorted(ends, key=lambda one: one[0]):
            if pod.metadata.uid in self.seen:
                continue
            self.seen.add(pod.metadata.uid)
            self.failures, self.last = (self.failures + 1, max(when, self.last)) if failed else (0, 0.0)

    def wait(self, now: float) -> float:
        """Seconds before the next pod may be created."""
        return self.last + job_rules.back_off(self.failures) - now if self.failures else 0.0


class JobController(PodOwner):
    """See the module."""

    name = "job-controller"
    owner_type = batch_v1.Job
    api_version, kind = "batch/v1", "Job"

    def setup(self) -> None:
        super().setup()
        self._gangs = JobGangs(self.context)
        self._streaks: dict[str, _Streak] = {}
        self._written: dict[str, int] = {}
        """Revision of the last write of each job's status: a cache that is older would lose counts."""
        self._released: set[str] = set()
        """Uids of pods whose finalizer was taken but still stands in the cache: they would be counted twice."""
        self.owners.on_change(delete=self._job_deleted)
        self.pods.on_change(add=self._touch_orphan, update=lambda old, new: self._follow(new), delete=self._forget_pod)

    def _follow(self, pod: core_v1.Pod) -> None:
        if FINALIZER in pod.metadata.finalizers:
            self._touch_orphan(pod)
        else:
            self._forget_pod(pod)

    def _forget_pod(self, pod: core_v1.Pod) -> None:
        self._released.discard(pod.metadata.uid)

    def _job_deleted(self, job: batch_v1.Job) -> None:
        """Nobody else takes the finalizers off its pods."""
        self._gangs.forget(job)
        for pod in self.pods.cache.by_index("controller", job.metadata.uid):
            self._touch_orphan(pod)

    def _touch_orphan(self, pod: core_v1.Pod) -> None:
        if FINALIZER in pod.metadata.finalizers:
            owner = controller_of(pod)
            job = self._job_of(pod) if owner is not None else None
            if job is None or job_rules.finished(job):
                self.queue.add(_ORPHAN + key_of(pod))

    def _job_of(self, pod: core_v1.Pod) -> batch_v1.Job | None:
        owner = controller_of(pod)
        if owner is None or owner.kind != self.kind:
            return None
        job: batch_v1.Job | None = self.owners.cache.get(pod.metadata.namespace, owner.name)
        return job if job is not None and job.metadata.uid == owner.uid else None

    async def reconcile(self, key: str) -> None:
        if key.startswith(_ORPHAN):
            await self._release_orphan(key[len(_ORPHAN) :])
            return
        cached = self.owners.cache.by_key(key)
        if cached is not None and job_rules.finished(cached):
            self._gangs.forget(cached)
        if cached is None or job_rules.finished(cached):
            self._streaks.pop(key, None)
            self._written.pop(key, None)
            if cached is None:
                self.forget(key)
            return
        if cached.spec.managed_by not in (None, MANAGER):
            return
        if int(cached.metadata.resource_version) < self._written.get(key, 0):
            return  # the cache is behind; the event about the write comes
        metadata, status = msgspec.structs.replace(cached.metadata), msgspec.structs.replace(cached.status)
        await self._sync(key, msgspec.structs.replace(cached, metadata=metadata, status=status), cached)

    async def _release_orphan(self, key: str) -> None:
        pod = self.pods.cache.by_key(key)
        if pod is None or FINALIZER not in pod.metadata.finalizers:
            return
        owner, known = controller_of(pod), self._job_of(pod)
        if known is not None and not job_rules.finished(known):
            return  # the pod was seen before its job
        if owner is not None and owner.kind == self.kind and known is None:
            try:
                job = await self.client.get(batch_v1.Job, owner.name, pod.metadata.namespace)
            except ApiError as error:
                if error.code != 404:
                    raise
            else:
                if job.metadata.uid == owner.uid and not job_rules.finished(job):
                    return  # the cache of jobs is behind
        await self._take_finalizers([pod])

    async def _sync(self, key: str, job: batch_v1.Job, cached: batch_v1.Job) -> None:
        """`job` is a copy whose status is brought up to date; `cached` is what the server had."""
        now = self.clock.now()
        ready_to_act = await self.may_act(key, job)
        claimed = claim(job, self.selector_of(job), self.candidates(job))
        if not job.metadata.deletion_timestamp:
            await self.take(job, claimed)
        group = await self._gangs.group_of(cached, claimed.owned)
        if not job.status.start_time and not job_rules.is_suspended(job):
            job.status.start_time = rfc3339(now)
        tally = job_rules.assess(job, claimed.owned, self._released)
        streak = self._streaks.setdefault(key, _Streak())
        streak.add(tally, now)
        verdict = job_rules.verdict(job, tally, now)
        active, ready, terminating = len(tally.active), job_rules.ready_count(tally), tally.terminating
        problem = ""
        if verdict is not None:
            await self.delete_pods(key, job, tally.active)
            terminating += active
            active = ready = 0
        elif ready_to_act and not job.metadata.deletion_timestamp:
            plan = job_rules.wanted(job, tally, now, streak.wait(now))
            # What the job itself takes away has not failed: without the finalizer it is not counted.
            kept = await self._take_finalizers(list(plan.delete))
            await self.delete_pods(key, job, [pod for pod in plan.delete if pod.metadata.uid not in kept])
            active -= len(plan.delete)
            ready = min(ready, active)
            terminating += len(plan.delete)
            made, problem = await self.create_pods(
                key, job, [self._new_pod(job, tally, index, group) for index in plan.create]
            )
            active += made
            if plan.again is not None:
                self.queue.add_after(key, plan.again)
            if not plan.create and job_rules.is_complete(job, tally, active):
                verdict = job_rules.DONE
            else:
                self._show_suspension(job, now)
        if (left := job_rules.deadline_left(job, now)) is not None and verdict is None:
            self.queue.add_after(key, max(left, 0.0) + 0.01)
        status = job.status
        status.active, status.ready, status.terminating = active, ready, terminating
        if tally.failed_indexes or job.spec.backoff_limit_per_index is not None:
            status.failed_indexes = tally.failed_indexes.text()
        await self._count(job, cached, tally, verdict)
        if problem:
            raise RuntimeError(problem)

    def _show_suspension(self, job: batch_v1.Job, now: float) -> None:
        suspended = job_rules.is_suspended(job)
        known = next((one for one in job.status.conditions if one.type == job_rules.SUSPENDED), None)
        if suspended == (known is not None and known.status == "True"):
            return
        reason, text = ("JobSuspended", "Job suspended") if suspended else ("JobResumed", "Job resumed")
        others = tuple(one for one in job.status.conditions if one.type != job_rules.SUSPENDED)
        new = _condition(job_rules.SUSPENDED, "True" if suspended else "False", reason, text, now)
        job.status.conditions = (*others, new)
        if suspended:
            job.status.start_time = None
            self.recorder.event(job, "Normal", "Suspended", text)
        else:
            job.status.start_time = rfc3339(now)
            self.recorder.event(job, "Normal", "Resumed", text)

    def _new_pod(self, job: batch_v1.Job, tally: Tally, index: int, group: str) -> core_v1.Pod:
        pod = self.pod_of(job, job.spec.template)
        if group:
            pod.spec.scheduling_group = core_v1.PodSchedulingGroup(pod_group_name=group)
        metadata = pod.metadata
        if FINALIZER not in metadata.finalizers:
            metadata.finalizers = (*metadata.finalizers, FINALIZER)
        if index >= 0:
            metadata.generate_name = job_indexes.pod_name_prefix(job.metadata.name, index)
            metadata.annotations = {
                **metadata.annotations,
                job_indexes.ANNOTATION: str(index),
                **job_rules.marks_of(job, tally, index),
            }
            metadata.labels = {**metadata.labels, job_indexes.ANNOTATION: str(index)}
            pod.spec.hostname = f"{job.metadata.name}-{index}"
            for container in (*pod.spec.init_containers, *pod.spec.containers):
                if not any(one.name == _INDEX_VARIABLE for one in container.env):
                    container.env = (*container.env, _index_variable())
        return pod

    async def _count(self, job: batch_v1.Job, cached: batch_v1.Job, tally: Tally, verdict: Verdict | None) -> None:
        """Move ends of pods into the status: first by uid, then, when the finalizers are gone, as numbers."""
        status, now = job.status, self.clock.now()
        if verdict is not None and not any(
            one.type == verdict.target and one.status == "True" for one in status.conditions
        ):
            target = _condition(verdict.target, "True", verdict.reason, verdict.message, now)
            status.conditions = (*status.conditions, target)
        releasable = self._releasable(job, tally, verdict)[:_UNCOUNTED]
        uids = {pod.metadata.uid for pod in releasable}
        before = status.uncounted_terminated_pods or batch_v1.UncountedTerminatedPods()
        succeeded, failed = list(before.succeeded), list(before.failed)
        if job_rules.is_indexed(job):
            done = tally.succeeded_indexes
            status.completed_indexes, status.succeeded = done.text(), len(done)
        else:
            succeeded += [pod.metadata.uid for pod in tally.new_succeeded if pod.metadata.uid in uids]
        failed += [pod.metadata.uid for pod in tally.new_failed if pod.metadata.uid in uids]
        if verdict is not None and verdict.target == job_rules.FAILURE_TARGET:
            failed += [pod.metadata.uid for pod in tally.active if pod.metadata.uid in uids - set(failed)]
        status.uncounted_terminated_pods = batch_v1.UncountedTerminatedPods(
            succeeded=tuple(succeeded), failed=tuple(failed)
        )
        written = await self._write(job, cached)
        if written is None:
            return
        left = await self._take_finalizers(releasable)
        status.uncounted_terminated_pods = batch_v1.UncountedTerminatedPods(
            succeeded=tuple(uid for uid in succeeded if uid in left),
            failed=tuple(uid for uid in failed if uid in left),
        )
        status.succeeded += sum(uid not in left for uid in succeeded)
        status.failed += sum(uid not in left for uid in failed)
        if verdict is not None and not left and not status.terminating and not status.active:
            self._finish(job, verdict, now)
        if await self._write(job, written) is None or left:
            self.queue.add_rate_limited(key_of(job))

    def _releasable(self, job: batch_v1.Job, tally: Tally, verdict: Verdict | None) -> list[core_v1.Pod]:
        """Pods whose finalizer may go now. The last failed pod of an index keeps it until it is replaced: it knows how often the index failed."""
        if verdict is not None or job.metadata.deletion_timestamp:
            return [pod for pod in (*tally.ended, *tally.active) if FINALIZER in pod.metadata.finalizers]
        active = IndexSet.of(map(job_indexes.index_of, tally.active))
        replaced = tally.failed_indexes | tally.succeeded_indexes | active
        waiting = {pod.metadata.uid for index, pod in tally.last_failed.items() if index not in replaced}
        return [pod for pod in tally.ended if pod.metadata.uid not in waiting]

    def _finish(self, job: batch_v1.Job, verdict: Verdict, now: float) -> None:
        status = job.status
        final = _condition(verdict.final, "True", verdict.reason, verdict.message, now)
        status.conditions = (*status.conditions, final)
        if verdict.final == job_rules.COMPLETE:
            if job.spec.completions is not None and status.succeeded > job.spec.completions:
                text = "Too many succeeded pods running after completion count reached"
                self.recorder.event(job, "Warning", "TooManySucceededPods", text)
            status.completion_time = final.last_transition_time
            self.recorder.event(job, "Normal", "Completed", "Job completed")
        else:
            self.recorder.event(job, "Warning", verdict.reason, verdict.message)

    async def _write(self, job: batch_v1.Job, before: batch_v1.Job) -> batch_v1.Job | None:
        """Write the status if it differs; returns the job as the server has it, None if somebody was faster (the key comes again)."""
        if job.status == before.status:
            return before
        try:
            written: batch_v1.Job = await self.client.update_status(job)
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            self.queue.add_rate_limited(key_of(job))
            return None
        job.metadata.resource_version = written.metadata.resource_version
        self._written[key_of(job)] = int(written.metadata.resource_version)
        return written

    async def _take_finalizers(self, pods: list[core_v1.Pod]) -> set[str]:
        """Take the finalizer off pods; returns the uids of those that still have it."""
        results = await asyncio.gather(*(self._take_finalizer(pod) for pod in pods))
        return {pod.metadata.uid for pod, done in zip(pods, results, strict=True) if not done}

    async def _take_finalizer(self, pod: core_v1.Pod) -> bool:
        metadata = pod.metadata
        if FINALIZER not in metadata.finalizers or metadata.uid in self._released:
            return True
        patch: dict[str, Any] = {"metadata": {"uid": metadata.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
        try:
            await self.client.patch(core_v1.Pod, metadata.name, metadata.namespace, patch, patch_type=STRATEGIC_PATCH)
        except ApiError as error:
            if error.code == 409:
                return await self._is_gone(pod)
            return error.code == 404
        self._released.add(metadata.uid)
        return True

    async def _is_gone(self, pod: core_v1.Pod) -> bool:
        """Whether a pod is not there any more, or another one of its name. Raises ApiError."""
        try:
            found = await self.client.get(core_v1.Pod, pod.metadata.name, pod.metadata.namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            return True
        return found.metadata.uid != pod.metadata.uid


_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"


def _index_variable() -> core_v1.EnvVar:
    """The environment variable that tells containers their index."""
    field = core_v1.ObjectFieldSelector(field_path=f"metadata.labels['{job_indexes.ANNOTATION}']")
    return core_v1.EnvVar(name=_INDEX_VARIABLE, value_from=core_v1.EnvVarSource(field_ref=field))


def _condition(kind: str, status: str, reason: str, message: str, now: float) -> batch_v1.JobCondition:
    stamp = rfc3339(now)
    return batch_v1.JobCondition(
        type=kind, status=status, reason=reason, message=message, last_probe_time=stamp, last_transition_time=stamp
    )
