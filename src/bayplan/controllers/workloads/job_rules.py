"""Jobs: what the pods of a job amount to, whether it has ended, and which pods it lacks. Pure functions of objects and time.

    assess(job, pods)       -> Tally     what ran, what ended, what is newly ended and still has to be counted
    verdict(job, tally)     -> Verdict   the condition with which the job ends, if it does
    wanted(job, tally, ...) -> Pods      which pods to create and delete now

A pod counts exactly once: it carries a finalizer until its end stands in the status (first by uid in `uncountedTerminatedPods`, then in the counters).

Source of the behaviour: kube-controller-manager's job controller (KEPs 2307, 2879, 3329, 3850, 3939, 3998).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from bayplan.api.index_sets import IndexSet
from bayplan.api.types import batch_v1, core_v1
from bayplan.controllers.pods import deletion_rank, has_ended, is_active, is_ready
from bayplan.controllers.workloads import job_indexes
from bayplan.controllers.workloads.job_indexes import NO_INDEXES
from bayplan.controllers.workloads.job_policies import COUNTED, Judgement, judge, met_rule
from bayplan.support.timestamps import parse_rfc3339

FINALIZER = "batch.kubernetes.io/job-tracking"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
"""Annotation of a pod: how often its index had failed before, if the back-off limit is per index."""
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"
"""The same for failures that the policy ignores."""
COMPLETE, FAILED, FAILURE_TARGET, SUCCESS_MET, SUSPENDED = (
    "Complete",
    "Failed",
    "FailureTarget",
    "SuccessCriteriaMet",
    "Suspended",
)
FIRST_BACK_OFF, LONGEST_BACK_OFF = 10.0, 600.0
"""Seconds before the first replacement of a failed pod, and the most that it gets by doubling."""
BURST = 500
"""Pods created or deleted in one go."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What the pods of a job amount to."""

    active: tuple[core_v1.Pod, ...] = ()
    terminating: int = 0
    """Pods on their way out that have not ended."""
    succeeded: int = 0
    """Everything that has succeeded, counted or not."""
    failed: int = 0
    """The same for failures, without those that the policy ignores."""
    succeeded_indexes: IndexSet = NO_INDEXES
    failed_indexes: IndexSet = NO_INDEXES
    new_succeeded: tuple[core_v1.Pod, ...] = ()
    """Pods whose success is not in the status yet."""
    new_failed: tuple[core_v1.Pod, ...] = ()
    """The same for failures, without those that the policy ignores."""
    ended: tuple[core_v1.Pod, ...] = ()
    """Pods with the finalizer that need it no more once the status has them."""
    judgements: dict[str, Judgement] = field(default_factory=dict)
    """Of failed pods by uid, if there is a policy."""
    last_failed: dict[int, core_v1.Pod] = field(default_factory=dict)
    """The latest failed pod of each index, if the back-off limit is per index. It keeps its finalizer until it is replaced."""


def is_indexed(job: batch_v1.Job) -> bool:
    """Whether each pod has an index."""
    return job.spec.completion_mode == "Indexed"


def is_suspended(job: batch_v1.Job) -> bool:
    """Whether no pods are to run."""
    return bool(job.spec.suspend)


def finished(job: batch_v1.Job) -> batch_v1.JobCondition | None:
    """The condition with which the job has ended, or None."""
    return next((one for one in job.status.conditions if one.type in (COMPLETE, FAILED) and one.status == "True"), None)


def replaces_only_failed(job: batch_v1.Job) -> bool:
    """Whether a pod on its way out still holds its place."""
    return job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None


def _counts_as_failed(job: batch_v1.Job, pod: core_v1.Pod) -> bool:
    """Pods on their way out count as failed at once, unless they are waited for; one that never started may stay so for ever."""
    if pod.status.phase == "Failed":
        return True
    if not pod.metadata.deletion_timestamp:
        return False
    return pod.status.phase == "Pending" if replaces_only_failed(job) else pod.status.phase != "Succeeded"


def assess(job: batch_v1.Job, pods: Iterable[core_v1.Pod], released: Container[str] = ()) -> Tally:
    """Count the pods that belong to a job. `released`: uids of pods that have lost their finalizer, even if they do not show it yet."""
    pods = tuple(pods)
    status, indexed = job.status, is_indexed(job)
    completions = job.spec.completions or 0
    uncounted = status.uncounted_terminated_pods or batch_v1.UncountedTerminatedPods()
    new_succeeded, new_failed, ended = [], [], []
    judgements: dict[str, Judgement] = {}
    for pod in pods:
        uid, phase = pod.metadata.uid, pod.status.phase
        failed = _counts_as_failed(job, pod)
        if failed and job.spec.pod_failure_policy is not None:
            judgements[uid] = judge(job.spec.pod_failure_policy, pod)
        if FINALIZER not in pod.metadata.finalizers or uid in released:
            continue
        if phase == "Succeeded" or failed:
            ended.append(pod)
        if indexed and not 0 <= job_indexes.index_of(pod) < completions:
            continue
        if phase == "Succeeded" and uid not in uncounted.succeeded and uid not in uncounted.failed:
            new_succeeded.append(pod)
        elif failed and uid not in uncounted.failed and judgements.get(uid, COUNTED).counts:
            new_failed.append(pod)
    done = NO_INDEXES
    if indexed:
        done = job_indexes.parse(status.completed_indexes, completions)
        new_succeeded = [pod for pod in new_succeeded if job_indexes.index_of(pod) not in done]
        done |= IndexSet.of(map(job_indexes.index_of, new_succeeded))
    last_failed = _last_failed(job, pods) if job.spec.backoff_limit_per_index is not None else {}
    counted = status.succeeded + len(uncounted.succeeded) + len(new_succeeded)
    return Tally(
        active=tuple(pod for pod in pods if is_active(pod)),
        terminating=sum(_is_terminating(pod) for pod in pods),
        succeeded=len(done) if indexed else counted,
        failed=status.failed + len(uncounted.failed) + len(new_failed),
        succeeded_indexes=done,
        failed_indexes=_failed_indexes(job, last_failed, judgements, done),
        new_succeeded=tuple(new_succeeded),
        new_failed=tuple(new_failed),
        ended=tuple(ended),
        judgements=judgements,
        last_failed=last_failed,
    )


def _is_terminating(pod: core_v1.Pod) -> bool:
    return bool(pod.metadata.deletion_timestamp) and not has_ended(pod)


def failures_before(pod: core_v1.Pod, annotation: str = FAILURES) -> int:
    """How often the pod's index had failed before it."""
    value = pod.metadata.annotations.get(annotation, "")
    return int(value) if value.isdigit() else 0


def _last_failed(job: batch_v1.Job, pods: Sequence[core_v1.Pod]) -> dict[int, core_v1.Pod]:
    found: dict[int, core_v1.Pod] = {}
    for pod in pods:
        index = job_indexes.index_of(pod)
        if index < 0 or not _counts_as_failed(job, pod):
            continue
        other = found.get(index)
        if other is None or _attempts(other) < _attempts(pod):
            found[index] = pod
    return found


def _attempts(pod: core_v1.Pod) -> int:
    return failures_before(pod) + failures_before(pod, IGNORED)


def _failed_indexes(
    job: batch_v1.Job,
    last_failed: dict[int, core_v1.Pod],
    judgements: dict[str, Judgement],
    succeeded: IndexSet,
) -> IndexSet:
    limit = job.spec.backoff_limit_per_index
    if limit is None:
        return NO_INDEXES
    known = job_indexes.parse(job.status.failed_indexes or "", job.spec.completions or 0)
    new = set()
    for index, pod in last_failed.items():
        judgement = judgements.get(pod.metadata.uid, COUNTED)
        spent = judgement.counts and failures_before(pod) >= limit
        if judgement.action == "FailIndex" or spent:
            new.add(index)
    return (known | IndexSet.of(new)) - succeeded


class Verdict(NamedTuple):
    """How a job ends."""

    target: str
    """`FailureTarget` or `SuccessCriteriaMet`: what is said before the last pod is gone."""
    reason: str
    message: str

    @property
    def final(self) -> str:
        """The condition that is added when the last pod is gone."""
        return FAILED if self.target == FAILURE_TARGET else COMPLETE


def verdict(job: batch_v1.Job, tally: Tally, now: float) -> Verdict | None:
    """Whether and how a job ends, for all reasons but its work being done."""
    for condition in job.status.conditions:
        if condition.type in (FAILURE_TARGET, SUCCESS_MET) and condition.status == "True":
            return Verdict(condition.type, condition.reason, condition.message)
    for judgement in tally.judgements.values():
        if judgement.action == "FailJob":
            return Verdict(FAILURE_TARGET, "PodFailurePolicy", judgement.message)
    limit = job.spec.backoff_limit
    if limit is not None and (tally.failed > limit or _restarted_too_often(job, tally, limit)):
        return Verdict(FAILURE_TARGET, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    left = deadline_left(job, now)
    if left is not None and left <= 0:
        return Verdict(FAILURE_TARGET, "DeadlineExceeded", "Job was active longer than specified deadline")
    if not is_indexed(job):
        return None
    return _index_verdict(job, tally)


def _index_verdict(job: batch_v1.Job, tally: Tally) -> Verdict | None:
    spec, completions, failed = job.spec, job.spec.completions or 0, len(tally.failed_indexes)
    if spec.backoff_limit_per_index is not None and failed:
        if spec.max_failed_indexes is not None and failed > spec.max_failed_indexes:
            text = "Job has exceeded the specified maximal number of failed indexes"
            return Verdict(FAILURE_TARGET, "MaxFailedIndexesExceeded", text)
        if failed + len(tally.succeeded_indexes) >= completions:
            return Verdict(FAILURE_TARGET, "FailedIndexes", "Job has failed indexes")
    rule = met_rule(spec.success_policy, completions, tally.succeeded_indexes)
    return Verdict(SUCCESS_MET, "SuccessPolicy", rule) if rule else None


def _restarted_too_often(job: batch_v1.Job, tally: Tally, limit: int) -> bool:
    """Restarts in place count, too."""
    if job.spec.template.spec.restart_policy != "OnFailure":
        return False
    restarts = sum(
        status.restart_count
        for pod in tally.active
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
    return restarts > 0 if limit == 0 else restarts >= limit


def deadline_left(job: batch_v1.Job, now: float) -> float | None:
    """Seconds until the job has been active for too long; None without such a limit."""
    seconds, started = job.spec.active_deadline_seconds, job.status.start_time
    if seconds is None or not started or is_suspended(job):
        return None
    return parse_rfc3339(started) + seconds - now


def is_complete(job: batch_v1.Job, tally: Tally, active: int) -> bool:
    """Whether the work is done, with `active` pods left."""
    if job.spec.completions is None:
        return tally.succeeded > 0 and active == 0
    return tally.succeeded >= job.spec.completions and active == 0


DONE = Verdict(SUCCESS_MET, "CompletionsReached", "Reached expected number of succeeded pods")


@dataclass(frozen=True, slots=True)
class Pods:
    """What is to be done about the pods of a job."""

    delete: tuple[core_v1.Pod, ...] = ()
    create: tuple[int, ...] = ()
    """Completion indexes of pods to create; -1 for a pod without one."""
    again: float | None = None
    """Seconds after which to look again because of back-off."""


def back_off(failures: int) -> float:
    """Seconds to wait after so many failures in a row."""
    return min(FIRST_BACK_OFF * 2.0 ** min(failures - 1, 10), LONGEST_BACK_OFF) if failures > 0 else 0.0


def ended_at(pod: core_v1.Pod, now: float) -> float:
    """When a pod ended (Unix seconds), as far as its status or metadata tell."""
    times = [status.state.terminated.finished_at for status in pod.status.container_statuses if status.state.terminated]
    if times and len(times) == len(pod.status.container_statuses) and all(times):
        return max(parse_rfc3339(one) for one in times if one)
    ready = next((one for one in pod.status.conditions if one.type == "Ready"), None)
    for known in (ready.last_transition_time if ready else None, pod.metadata.deletion_timestamp):
        if known:
            return parse_rfc3339(known)
    return now


def wanted(job: batch_v1.Job, tally: Tally, now: float, wait: float = 0.0) -> Pods:
    """Which pods to create and delete. `wait`: seconds for which nothing may be created because of failures. Deletions come first, alone."""
    spec, active = job.spec, len(tally.active)
    if is_suspended(job):
        return Pods(delete=tally.active)
    if spec.completions is None:
        target = active if tally.succeeded > 0 else spec.parallelism or 0
    else:
        target = max(min(spec.completions - tally.succeeded, spec.parallelism or 0), 0)
        if spec.backoff_limit_per_index is not None:
            left = spec.completions - tally.succeeded - len(tally.failed_indexes)
            target = max(min(left, target), 0)
    surplus = _surplus(job, tally, max(active - target, 0), now)
    if surplus:
        return Pods(delete=surplus[:BURST])
    holding = tally.terminating if replaces_only_failed(job) else 0
    missing = min(target - active - holding, BURST)
    if missing <= 0:
        return Pods()
    if wait > 0:
        return Pods(again=wait)
    if not is_indexed(job):
        return Pods(create=(-1,) * missing)
    return _missing_indexes(job, tally, missing, now)


def _surplus(job: batch_v1.Job, tally: Tally, at_least: int, now: float) -> tuple[core_v1.Pod, ...]:
    """Pods that are too many: those whose index another one has or nobody wants, then those that lose least."""
    remove: list[core_v1.Pod] = []
    left: list[core_v1.Pod] = list(tally.active)
    if is_indexed(job):
        seen: set[int] = set()
        left = []
        for pod in sorted(tally.active, key=lambda pod: pod.metadata.creation_timestamp or ""):
            index = job_indexes.index_of(pod)
            unwanted = index in seen or not 0 <= index < (job.spec.completions or 0) or index in tally.failed_indexes
            (remove if unwanted else left).append(pod)
            seen.add(index)
    if len(remove) < at_least:
        left.sort(key=lambda pod: deletion_rank(pod, 0, now))
        remove += left[: at_least - len(remove)]
    return tuple(remove)


def _missing_indexes(job: batch_v1.Job, tally: Tally, count: int, now: float) -> Pods:
    active = IndexSet.of(map(job_indexes.index_of, tally.active))
    taken = tally.succeeded_indexes | tally.failed_indexes | active
    chosen: list[int] = []
    waits: list[float] = []
    runs = taken.missing(end=job.spec.completions or 0)
    for index in chain.from_iterable(range(first, last + 1) for first, last in runs):
        if len(chosen) == count:
            break
        last = tally.last_failed.get(index)
        if last is not None:
            left = ended_at(last, now) + back_off(_attempts(last) + 1) - now
            if left > 0:
                waits.append(left)
                continue
        chosen.append(index)
    return Pods(create=tuple(chosen), again=min(waits, default=None))


def marks_of(job: batch_v1.Job, tally: Tally, index: int) -> dict[str, str]:
    """Annotations of a new pod of an index, if the back-off limit is per index: how often the index failed."""
    if job.spec.backoff_limit_per_index is None:
        return {}
    last = tally.last_failed.get(index)
    if last is None:
        return {FAILURES: "0"}
    counts = tally.judgements.get(last.metadata.uid, COUNTED).counts
    marks = {FAILURES: str(failures_before(last) + counts)}
    ignored = failures_before(last, IGNORED) + (not counts)
    return marks | ({IGNORED: str(ignored)} if ignored else {})


def ready_count(tally: Tally) -> int:
    """Active pods that are ready."""
    return sum(map(is_ready, tally.active))
