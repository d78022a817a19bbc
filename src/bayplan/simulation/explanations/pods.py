"""Why a pod that has a node does not run there, and what a pending pod waits for besides a node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bayplan.api.nodes import is_simulated
from bayplan.api.pods.execution_rules import KINDS
from bayplan.api.types import core_v1
from bayplan.controllers.base import controller_of
from bayplan.simulation.explanations.base import Explanation, Facts, condition, key_of, said
from bayplan.simulation.explanations.claims import claims_of, explain_claim
from bayplan.simulation.explanations.nodes import is_ready, why_not_ready
from bayplan.simulation.snapshots.snapshot import ClusterSnapshot

_IMAGE: Final = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"}
)
_VOLUMES: Final = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
_SANDBOX: Final = ("FailedCreatePodSandBox", "NetworkNotReady", "FailedPreStartHook")
_UNKNOWN_NODE_ADVICE: Final = (
    "a pod keeps its node for life: delete it, and let it be made again or create it without nodeName"
)


def explain_pod(facts: Facts, pod: core_v1.Pod) -> Explanation:
    """Why a pod runs or not, as far as its node has a part in that. A pod without a node is pending; the scheduler says why."""
    found = Explanation("Pod", key_of(pod), f"runs on {pod.spec.node_name}")
    if pod.metadata.deletion_timestamp:
        _explain_deletion(facts, pod, found)
    elif pod.status.phase in ("Succeeded", "Failed"):
        _explain_end(pod, found)
    elif not pod.spec.node_name:
        _explain_pending(facts, pod, found)
    else:
        _explain_bound(facts, pod, found)
    return found


def told_by_scheduler(pod: core_v1.Pod) -> str:
    """What the condition of a pod without a node says of it."""
    found = condition(pod, "PodScheduled")
    return found.message or found.reason if found is not None else "no scheduler has looked at it yet"


def told_of_waiting(copy: ClusterSnapshot, pod: core_v1.Pod) -> list[str]:
    """What the cluster's scheduler said last of a pod that would be placed if it were alone and now: of its group, or of a gate that looks at a clock or a queue."""
    group, found = pod.spec.scheduling_group, []
    if group is not None:
        for one in copy.of("PodGroup"):
            state = condition(one, "PodGroupScheduled")
            same = (one.metadata.namespace, one.metadata.name) == (pod.metadata.namespace, group.pod_group_name)
            if same and state is not None and state.status != "True":
                found.append(f"its group {one.metadata.name} is not placed: {said(state.reason, state.message)}")
    message = Facts(copy).last_message("Pod", pod, ("FailedScheduling",))
    if message and not found:
        found.append(f"its scheduler said last: {message}")
    return found


def _explain_deletion(facts: Facts, pod: core_v1.Pod, found: Explanation) -> None:
    found.answer, found.good = f"is being deleted since {pod.metadata.deletion_timestamp}", False
    node = facts.nodes.get(pod.spec.node_name)
    if pod.metadata.finalizers:
        found.because.append(f"it waits for the finalizers {', '.join(pod.metadata.finalizers)}")
    if pod.spec.node_name and node is None and facts.nodes:
        found.because.append(f"its node {pod.spec.node_name} does not exist, so no kubelet ends it")
        found.advice.append(f"kubectl delete pod {pod.metadata.name} -n {pod.metadata.namespace} --force")
    elif node is not None and not is_ready(node):
        found.because.append(f"its node {pod.spec.node_name} is not ready: {why_not_ready(node)}")
        found.advice.append(f"bayplan explain node/{pod.spec.node_name}")


def _explain_end(pod: core_v1.Pod, found: Explanation) -> None:
    if pod.status.phase == "Succeeded":
        found.answer = f"has ended well on {pod.spec.node_name}" if pod.spec.node_name else "has ended well"
        return
    found.good = False
    where = f" on {pod.spec.node_name}" if pod.spec.node_name else ""
    found.answer = f"has failed{where}"
    if pod.status.reason or pod.status.message:
        found.because.append(said(pod.status.reason, pod.status.message))
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        ended = status.state.terminated
        if ended is not None and ended.exit_code:
            found.because.append(f"container {status.name} {_ended(ended)}")
    maker = controller_of(pod)
    if maker is None:
        found.advice.append("nothing makes it again: delete it and create it anew")
    if pod.status.reason in ("NodeAffinity", "TaintToleration", "NodePorts") or pod.status.reason.startswith("OutOf"):
        found.advice.append(f"node {pod.spec.node_name} refused it; leave nodeName to the scheduler")


def _explain_pending(facts: Facts, pod: core_v1.Pod, found: Explanation) -> None:
    found.answer, found.good = "is pending", False
    for name, claim in claims_of(facts, pod):
        if claim is None:
            found.because.append(f"its claim {name} does not exist")
            found.advice.append(f"create the PersistentVolumeClaim {name}")
        elif claim.status.phase != "Bound":
            about = explain_claim(facts, claim)
            if not _waits_for_this(about):
                found.because += [f"its claim {name} {about.answer}: {one}" for one in about.because]
                found.advice += about.advice


def _waits_for_this(about: Explanation) -> bool:
    """Whether a claim waits for nothing but a pod's node."""
    return any("WaitForFirstConsumer" in one for one in about.because)


def _explain_bound(facts: Facts, pod: core_v1.Pod, found: Explanation) -> None:
    node_name = pod.spec.node_name
    node = facts.nodes.get(node_name)
    if node is None and "Node" in facts.copy.objects:  # a file may show pods alone
        found.answer, found.good = f"does not run: it is bound to node {node_name}, which does not exist", False
        found.advice.append(_UNKNOWN_NODE_ADVICE)
        return
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    if node is not None and not is_ready(node):
        found.answer, found.good = f"is bound to {node_name}, which is not ready", False
        found.because.append(why_not_ready(node))
        found.advice.append(f"bayplan explain node/{node_name}")
        return
    for status in statuses:
        _explain_container(facts, pod, status, found)
    if found.because:
        found.answer, found.good = f"is bound to {node_name} and does not run", False
        if pod.status.phase == "Running":
            found.answer = f"is bound to {node_name}, where not all of its containers run"
        return
    if pod.status.phase == "Pending":
        _explain_not_started(facts, pod, found)
        return
    ready = condition(pod, "Ready")
    if pod.status.phase == "Running" and ready is not None and ready.status != "True":
        _explain_not_ready(facts, pod, found)
    _explain_broken_rules(facts, pod, found)
    for status in pod.status.container_statuses:
        last = status.last_state.terminated
        if status.restart_count and last is not None and last.exit_code:
            found.because.append(
                f"container {status.name} was restarted ({status.restart_count} restarts): the last time it {_ended(last)}"
            )
            found.advice.append(_logs(pod, status, previous=True))


def _explain_broken_rules(facts: Facts, pod: core_v1.Pod, found: Explanation) -> None:
    """Rules that hold during execution and do not hold: the pod will be evicted, or waits for a budget that lets it go."""
    broken = facts.execution.broken(key_of(pod))
    if not broken:
        return
    found.answer, found.good = f"runs on {pod.spec.node_name}, and has to leave", False
    found.because += [f"its rule {one.rule.name} has ceased to hold: {one.why}" for one in broken]
    reasons = [f"Failed{kind[0].upper()}{kind[1:]}Eviction" for kind in KINDS]
    if refused := facts.last_message("Pod", pod, reasons):
        found.because.append(refused)


def _explain_container(facts: Facts, pod: core_v1.Pod, status: core_v1.ContainerStatus, found: Explanation) -> None:
    """Why one container does not run; nothing if it does, or did what it had to."""
    waiting, ended = status.state.waiting, status.state.terminated
    if waiting is not None and waiting.reason not in ("", "ContainerCreating", "PodInitializing"):
        for known, explain in _WAITING:
            if known(waiting.reason):
                explain(facts, pod, status, found)
                return
        found.because.append(f"container {status.name} waits: {said(waiting.reason, waiting.message)}")
    elif ended is not None and ended.exit_code:
        found.because.append(f"container {status.name} {_ended(ended)}")
        found.advice.append(_logs(pod, status, previous=False))


def _explain_image(facts: Facts, pod: core_v1.Pod, status: core_v1.ContainerStatus, found: Explanation) -> None:
    waiting = status.state.waiting
    assert waiting is not None
    pulls = (event.message for event in facts.events("Pod", pod, ("Failed",)))
    message = next((one for one in pulls if one.startswith("Failed to pull image")), "")
    found.because.append(
        f"image {_image(pod, status)} of container {status.name} cannot be had:"
        f" {said(waiting.reason, message or waiting.message)}"
    )
    found.advice.append(
        "correct the image's name"
        if waiting.reason == "InvalidImageName"
        else "correct name and tag of the image, or give the pod imagePullSecrets that may pull it"
    )


def _image(pod: core_v1.Pod, status: core_v1.ContainerStatus) -> str:
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return next((one.image for one in containers if one.name == status.name), "") or status.image


def _explain_crash(facts: Facts, pod: core_v1.Pod, status: core_v1.ContainerStatus, found: Explanation) -> None:
    last = status.last_state.terminated
    text = f"container {status.name} ends again and again ({status.restart_count} restarts)"
    found.because.append(f"{text}: the last time it {_ended(last)}" if last is not None else text)
    if last is not None and last.reason == "OOMKilled":
        found.advice.append(f"raise the memory limit of container {status.name}, or let it use less")
    found.advice.append(_logs(pod, status, previous=True))


def _explain_config(facts: Facts, pod: core_v1.Pod, status: core_v1.ContainerStatus, found: Explanation) -> None:
    waiting = status.state.waiting
    assert waiting is not None
    message = waiting.message or facts.last_message("Pod", pod, ("Failed",))
    found.because.append(f"container {status.name} cannot be set up: {message or waiting.reason}")
    found.advice.append("create what is missing, or mark the reference optional")
    _advise_about_simulation(facts, pod, found)


def _advise_about_simulation(facts: Facts, pod: core_v1.Pod, found: Explanation) -> None:
    """What a pod waits for may be what a program would make, had it run."""
    node = facts.nodes.get(pod.spec.node_name)
    if node is not None and is_simulated(node):
        found.advice.append(
            "or, if a program would make it, which on simulated nodes does not run: give the pod the annotation "
            "bayplan.dev/missing-config: ignore, or start the cluster with --missing-config=ignore"
        )


_Explain = Callable[[Facts, core_v1.Pod, core_v1.ContainerStatus, Explanation], None]
_WAITING: Final[tuple[tuple[Callable[[str], bool], _Explain], ...]] = (
    (_IMAGE.__contains__, _explain_image),
    ("CrashLoopBackOff".__eq__, _explain_crash),
    ("CreateContainerConfigError".__eq__, _explain_config),
)
"""Which reasons of waiting containers are explained by what; all others by their message."""


def _ended(ended: core_v1.ContainerStateTerminated) -> str:
    text = f"ended with exit code {ended.exit_code}"
    why = said(ended.reason if ended.reason != "Error" else "", ended.message)
    return f"{text} ({why})" if why else text


def _logs(pod: core_v1.Pod, status: core_v1.ContainerStatus, *, previous: bool) -> str:
    text = f"kubectl logs {pod.metadata.name} -n {pod.metadata.namespace or 'default'} -c {status.name}"
    return f"{text} --previous" if previous else text


def _explain_not_started(facts: Facts, pod: core_v1.Pod, found: Explanation) -> None:
    node_name = pod.spec.node_name
    found.answer, found.good = f"is bound to {node_name} and has not started yet", False
    for name, claim in claims_of(facts, pod):
        if claim is None:
            found.because.append(f"its claim {name} does not exist")
            found.advice.append(f"create the PersistentVolumeClaim {name}")
        elif claim.status.phase != "Bound":
            about = explain_claim(facts, claim)
            found.because += [f"its claim {name} {about.answer}: {one}" for one in about.because]
            found.advice += about.advice
    for reasons, advice in (
        (_VOLUMES, "create what is missing, or correct the volume"),
        (_SANDBOX, "see to the node's network and runtime"),
    ):
        message = facts.last_message("Pod", pod, reasons)
        if message:
            found.because.append(message)
            found.advice.append(advice)
            if reasons is _VOLUMES:
                _advise_about_simulation(facts, pod, found)
    running = [
        one.name for one in pod.status.init_container_statuses if one.state.running is not None and not one.ready
    ]
    if running:
        found.because.append(f"its init container {running[0]} has not ended yet")
    if not found.because:
        initialized = bool(pod.status.start_time)
        found.because.append(
            "its containers are being created" if initialized else f"the kubelet of {node_name} has not taken it up yet"
        )
        if not facts.copy.of("Event"):
            name, namespace = pod.metadata.name, pod.metadata.namespace or "default"
            found.advice.append(
                f"look at its events, of which there are none here: kubectl describe pod {name} -n {namespace}"
            )


def _explain_not_ready(facts: Facts, pod: core_v1.Pod, found: Explanation) -> None:
    found.answer, found.good = f"runs on {pod.spec.node_name} and is not ready", False
    message = facts.last_message("Pod", pod, ("Unhealthy",))
    for status in pod.status.container_statuses:
        if not status.ready:
            what = "has not passed its startup probe" if status.started is False else "is not ready"
            found.because.append(f"container {status.name} {what}" + (f": {message}" if message else ""))
            found.advice.append(f"kubectl describe pod {pod.metadata.name} -n {pod.metadata.namespace or 'default'}")
    for gate in pod.spec.readiness_gates:
        state = condition(pod, gate.condition_type)
        if state is None or state.status != "True":
            found.because.append(f"its readiness gate {gate.condition_type} is not True")
            found.advice.append(f"see to the controller that sets the condition {gate.condition_type}")
