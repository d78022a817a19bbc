"""Why a workload has no pods, fewer than it should have, or pods that do not run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from bayplan.api.pods.tolerations import untolerated
from bayplan.api.selectors.labels import compile_selector
from bayplan.api.selectors.nodes import pod_may_run_on
from bayplan.api.types import apps_v1, batch_v1, core_v1
from bayplan.controllers.workloads.daemonset_rules import daemon_tolerations, fits
from bayplan.simulation.explanations.base import Explanation, Facts, condition, key_of, said
from bayplan.simulation.explanations.pods import explain_pod
from bayplan.simulation.explanations.refusals import advice_on
from bayplan.simulation.questions.quota_limits import quota_limits, with_defaults
from bayplan.simulation.snapshots.planner import pod_of_template

WhyPending = Callable[[core_v1.Pod], str]
"""What the scheduler says of a pod without a node."""

_ENDED: Final = ("Succeeded", "Failed")
_SHOWN_PODS: Final = 3
_SHOWN_NODES: Final = 5


def explain_workload(facts: Facts, kind: str, one: Any, why_pending: WhyPending) -> Explanation:
    """Whether a workload has the pods that it should have and whether they are ready, and what keeps it from that."""
    explain: dict[str, Callable[[_Workload], None]] = {
        "Deployment": _deployment,
        "StatefulSet": _stateful_set,
        "DaemonSet": _daemon_set,
        "Job": _job,
        "CronJob": _cron_job,
    }
    workload = _Workload(facts, kind, one, why_pending)
    home = facts.named("Namespace", "", workload.namespace)
    if one.metadata.deletion_timestamp:
        workload.found.answer, workload.found.good = "is being deleted", False
        if one.metadata.finalizers:
            workload.found.because.append(f"it waits for the finalizers {', '.join(one.metadata.finalizers)}")
    elif home is not None and home.metadata.deletion_timestamp:
        workload.found.answer, workload.found.good = "gets no pods", False
        workload.found.because.append(f"its namespace {home.metadata.name} is being deleted")
    else:
        explain.get(kind, _replicated)(workload)
    return workload.found


class _Workload:
    """One workload, what is known of its pods, and what is said of it so far."""

    def __init__(self, facts: Facts, kind: str, one: Any, why_pending: WhyPending) -> None:
        self.facts, self.kind, self.one, self.why_pending = facts, kind, one, why_pending
        self.found = Explanation(kind, key_of(one), "is as it should be")
        self.namespace = one.metadata.namespace or "default"

    def pods(self) -> list[core_v1.Pod]:
        """Its pods that have not ended; those of a deployment are its replica sets'."""
        owners = self.facts.owned("ReplicaSet", self.one) if self.kind == "Deployment" else [self.one]
        pods = (pod for owner in owners for pod in self.facts.owned("Pod", owner))
        return [pod for pod in pods if pod.status.phase not in _ENDED]

    def judge(self, wanted: int, pods: list[core_v1.Pod]) -> None:
        """Say how many pods there are and how many of them run, and why not all."""
        explained = [explain_pod(self.facts, pod) for pod in pods]
        good = sum(one.good for one in explained)
        if len(pods) >= wanted and good == len(pods):
            self.found.answer = f"has its {_count(len(pods), 'pod')}, and all are ready" if pods else "wants no pods"
            return
        self.found.good = False
        self.found.answer = f"has {_some(len(pods))} of {_count(wanted, 'pod')}"
        if pods:
            self.found.answer += f", of which {_some(good)} {'is' if good == 1 else 'are'} ready"
        if len(pods) < wanted:
            self.say_why_missing()
        self.say_why_not_running([one for one in zip(pods, explained, strict=True) if not one[1].good])

    def say_why_missing(self) -> None:
        """Why pods are not created: the refusal that was recorded, else what quotas and limit ranges say now."""
        message = self.refusal()
        if message:
            self.found.because.append(f"the API server refuses its pods: {message}")
            advice = advice_on(message, self.namespace)
            if advice:
                self.found.advice.append(advice)
            return
        pod = with_defaults(self.facts.copy, pod_of_template(self.one.spec.template, self.namespace, "pod"))
        allowed = quota_limits(self.facts.copy, [(pod, 1)])
        if allowed is not None and allowed.pods < 1:
            self.found.because.append(f"{allowed.by} allows no further pod: {allowed.why}")
            self.found.advice.append(f"change {allowed.by}, or what the pods ask for")
        elif not self.say_selector_misses() and self.is_unseen():
            self.found.because.append("its controller has not seen it yet; does the controller manager run?")

    def refusal(self) -> str:
        """What the API server said last when a pod was created."""
        owners = [(self.kind, self.one)]
        if self.kind == "Deployment":
            owners = [("ReplicaSet", one) for one in self.facts.owned("ReplicaSet", self.one)] + owners
        for _, owner in reversed(owners):
            failure = condition(owner, "ReplicaFailure")
            if failure is not None and failure.status == "True" and failure.message:
                return str(failure.message)
        for kind, owner in reversed(owners):
            message = self.facts.last_message(kind, owner, ("FailedCreate", "FailedDaemonPod"))
            if message:
                return message.removeprefix("Error creating: ")
        return ""

    def say_selector_misses(self) -> bool:
        """Say that the selector does not select the pods of the template, if so."""
        selector = self.one.spec.selector
        labels = self.one.spec.template.metadata.labels
        if selector is None or isinstance(selector, dict) or compile_selector(selector).matches(labels):
            return False
        self.found.because.append("its selector does not match the labels of its own template")
        self.found.advice.append("make the labels of the template match the selector")
        return True

    def is_unseen(self) -> bool:
        """Whether no controller has seen this generation of the object."""
        return bool(getattr(self.one.status, "observed_generation", 0) < self.one.metadata.generation)

    def say_why_not_running(self, pods: list[tuple[core_v1.Pod, Explanation]]) -> None:
        """The distinct reasons for which pods do not run, each with one pod that has it."""
        seen: Counter[str] = Counter()
        for pod, about in pods:
            text = "; ".join(about.because)
            if not pod.spec.node_name and not pod.metadata.deletion_timestamp:
                text = "; ".join(filter(None, (self.why_pending(pod), text)))
            reason = f"{about.answer}: {text}" if text else about.answer
            known = text or about.answer
            for own in filter(None, (pod.metadata.name, pod.spec.node_name)):
                known = known.replace(own, "")
            seen[known] += 1
            if seen[known] == 1 and len(seen) <= _SHOWN_PODS:
                self.found.because.append(f"pod {pod.metadata.name} {reason}")
                self.found.advice += [one for one in about.advice if one not in self.found.advice]
        more = len(pods) - min(len(seen), _SHOWN_PODS)
        if more > 0:
            self.found.because.append(
                f"{_count(more, 'more pod')} of it {'does' if more == 1 else 'do'} not run either"
            )
        pending = next((pod for pod, _ in pods if not pod.spec.node_name), None)
        if pending is not None and not self.found.advice:
            self.found.advice.append(f"bayplan explain {pending.metadata.name} -n {self.namespace} --fix")


def _some(number: int) -> str:
    return str(number) if number else "none"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _replicated(workload: _Workload) -> None:
    one = workload.one
    workload.judge(1 if one.spec.replicas is None else one.spec.replicas, workload.pods())


def _deployment(workload: _Workload) -> None:
    one: apps_v1.Deployment = workload.one
    found = workload.found
    sets = workload.facts.owned("ReplicaSet", one)
    wanted = 1 if one.spec.replicas is None else one.spec.replicas
    _replicated(workload)
    if wanted == 0:
        found.answer = "wants no pods: spec.replicas is 0"
        found.advice.append(f"kubectl scale deployment {one.metadata.name} -n {workload.namespace} --replicas=1")
    if one.spec.paused:
        found.because.append("it is paused (spec.paused): changes of its template are not rolled out")
        found.advice.append(f"kubectl rollout resume deployment {one.metadata.name} -n {workload.namespace}")
        if not sets and wanted:
            found.answer, found.good = "has no pods: it was paused before its first replica set was made", False
    progress = condition(one, "Progressing")
    if progress is not None and progress.reason == "ProgressDeadlineExceeded":
        found.good = False
        found.because.append(f"its roll-out has not got on: {said(progress.reason, progress.message)}")


def _stateful_set(workload: _Workload) -> None:
    one: apps_v1.StatefulSet = workload.one
    pods = workload.pods()
    wanted = 1 if one.spec.replicas is None else one.spec.replicas
    if len(pods) < wanted and one.spec.pod_management_policy != "Parallel":
        waited_for = next((pod for pod in pods if not explain_pod(workload.facts, pod).good), None)
        if waited_for is not None:
            about = explain_pod(workload.facts, waited_for)
            workload.found.good = False
            workload.found.answer = (
                f"has {len(pods)} of {_count(wanted, 'pod')}: it waits for {waited_for.metadata.name}"
            )
            workload.found.because.append("its pods are made one after the other (podManagementPolicy OrderedReady)")
            workload.say_why_not_running([(waited_for, about)])
            return
    workload.judge(wanted, pods)


def _daemon_set(workload: _Workload) -> None:
    one: apps_v1.DaemonSet = workload.one
    nodes = workload.facts.nodes
    wanted = [name for name, node in nodes.items() if fits(one.spec.template, node)[0]]
    if wanted:
        workload.judge(len(wanted), workload.pods())
    else:
        workload.found.answer, workload.found.good = f"has no pods: none of {_count(len(nodes), 'node')} matches", False
        if not nodes:
            workload.found.answer = "has no pods: the cluster has no nodes"
    refused: dict[str, list[str]] = {}
    for name in sorted(nodes.keys() - set(wanted)):
        refused.setdefault(_why_not_there(one, nodes[name]), []).append(name)
    for why, names in refused.items():
        more = f", ... {len(names) - _SHOWN_NODES} more" if len(names) > _SHOWN_NODES else ""
        workload.found.because.append(f"{_count(len(names), 'node')} {why}: {', '.join(names[:_SHOWN_NODES])}{more}")
    if not wanted and nodes:
        workload.found.advice.append("label nodes, or change nodeSelector, affinity or tolerations of the template")


def _why_not_there(one: apps_v1.DaemonSet, node: core_v1.Node) -> str:
    spec = one.spec.template.spec
    missing = [f"{key}={value}" for key, value in spec.node_selector.items() if node.metadata.labels.get(key) != value]
    if missing:
        return f"without the label {', '.join(missing)}"
    if not pod_may_run_on(spec, node):
        return "outside the required node affinity"
    taint = untolerated(daemon_tolerations(spec), node.spec.taints, ("NoSchedule", "NoExecute"))
    return (
        f"with the taint {taint.key}:{taint.effect}, which it does not tolerate"
        if taint is not None
        else "of another name"
    )


def _job(workload: _Workload) -> None:
    one: batch_v1.Job = workload.one
    found = workload.found
    complete, failed = condition(one, "Complete"), condition(one, "Failed")
    if complete is not None and complete.status == "True":
        found.answer = f"is complete: {_count(one.status.succeeded, 'pod')} ended well"
        return
    if failed is not None and failed.status == "True":
        found.answer, found.good = "has failed", False
        found.because.append(said(failed.reason, failed.message))
        _say_last_failure(workload)
        return
    if one.spec.suspend:
        found.answer, found.good = "has no pods: it is suspended (spec.suspend)", False
        queue = one.metadata.labels.get("kueue.x-k8s.io/queue-name")
        if queue:
            found.because.append(f"the queue {queue} of Kueue has not admitted it")
        found.advice.append(
            f'kubectl patch job {one.metadata.name} -n {workload.namespace} -p \'{{"spec":{{"suspend":false}}}}\''
        )
        return
    if one.spec.managed_by and one.spec.managed_by != "kubernetes.io/job-controller":
        found.answer, found.good = f"is left to the controller {one.spec.managed_by} (spec.managedBy)", False
        found.advice.append("see whether that controller runs")
        return
    parallel = 1 if one.spec.parallelism is None else one.spec.parallelism
    left = one.spec.completions - one.status.succeeded if one.spec.completions is not None else parallel
    if parallel == 0:
        found.answer, found.good = "has no pods: spec.parallelism is 0", False
        return
    workload.judge(min(parallel, max(left, 0)), workload.pods())
    if one.status.failed:
        limit = 6 if one.spec.backoff_limit is None else one.spec.backoff_limit
        found.because.append(
            f"{_count(one.status.failed, 'pod')} failed; after more than {limit} it gives up (backoffLimit)"
        )
        _say_last_failure(workload)


def _say_last_failure(workload: _Workload) -> None:
    failed = [pod for pod in workload.facts.owned("Pod", workload.one) if pod.status.phase == "Failed"]
    if failed:
        last = max(failed, key=lambda pod: (str(pod.metadata.creation_timestamp or ""), pod.metadata.name))
        about = explain_pod(workload.facts, last)
        workload.found.because.append(f"pod {last.metadata.name} {about.answer}: {'; '.join(about.because)}")
        workload.found.advice.append(f"kubectl logs {last.metadata.name} -n {workload.namespace}")


def _cron_job(workload: _Workload) -> None:
    one: batch_v1.CronJob = workload.one
    found = workload.found
    jobs = workload.facts.owned("Job", one)
    last = f"; it made the last job at {one.status.last_schedule_time}" if one.status.last_schedule_time else ""
    found.answer = f"makes a job by the schedule {one.spec.schedule}{last or '; it has made none yet'}"
    if one.spec.suspend:
        found.answer, found.good = "makes no jobs: it is suspended (spec.suspend)", False
        found.advice.append(
            f'kubectl patch cronjob {one.metadata.name} -n {workload.namespace} -p \'{{"spec":{{"suspend":false}}}}\''
        )
        return
    if one.spec.concurrency_policy == "Forbid" and one.status.active:
        names = ", ".join(reference.name for reference in one.status.active)
        found.because.append(f"it makes no job beside {names}, which has not ended (concurrencyPolicy Forbid)")
    refused = workload.facts.last_message("CronJob", one, ("FailedCreate", "TooManyMissedTimes", "UnparseableSchedule"))
    if refused:
        found.good = False
        found.because.append(refused)
    if jobs:
        newest = max(jobs, key=lambda job: str(job.metadata.creation_timestamp or ""))
        about = explain_workload(workload.facts, "Job", newest, workload.why_pending)
        found.good = found.good and about.good
        found.because.append(about.headline)
        found.because += about.because
        found.advice += about.advice
