"""Why a node takes no pods."""

from __future__ import annotations

from typing import Final

from bayplan.api.nodes import is_ready_node
from bayplan.api.types import core_v1
from bayplan.simulation.explanations.base import Explanation, Facts, condition, said
from bayplan.simulation.fixes.changes import amount_of
from bayplan.simulation.replay.figures import asked_for

_PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
_FROM_CONDITIONS: Final = "node.kubernetes.io/"
_FULL: Final = 0.95
_ENDED: Final = ("Succeeded", "Failed")


def is_ready(node: core_v1.Node) -> bool:
    """Whether the node's kubelet says that it is ready; a node that says nothing (of a manifest) counts as ready."""
    return condition(node, "Ready") is None or is_ready_node(node)


def why_not_ready(node: core_v1.Node) -> str:
    """What the node's condition says."""
    ready = condition(node, "Ready")
    if ready is None:
        return ""
    if ready.status == "Unknown":
        return said(ready.reason, ready.message) or "its kubelet has not been heard of"
    return said(ready.reason, ready.message) or "its condition Ready is False"


def explain_node(facts: Facts, node: core_v1.Node) -> Explanation:
    """Whether a node takes pods, and what keeps them away."""
    name = node.metadata.name
    found = Explanation("Node", name, "takes pods")
    refusals: list[str] = []
    if node.metadata.deletion_timestamp:
        refusals.append("is being deleted")
        waiting = ", ".join(node.metadata.finalizers)
        found.because.append("it is being deleted" + (f" and waits for the finalizers {waiting}" if waiting else ""))
    if not is_ready(node):
        refusals.append("is not ready")
        found.because.append(f"it is not ready: {why_not_ready(node)}")
        found.advice.append(f"see whether its kubelet runs and reaches the API server; kubectl describe node {name}")
    for kind in _PRESSURES:
        pressure = condition(node, kind)
        if pressure is not None and pressure.status == "True":
            refusals.append(f"has {kind}")
            found.because.append(f"it has {kind}: {said(pressure.reason, pressure.message) or 'its kubelet says so'}")
            found.advice.append(_relief(kind))
    if node.spec.unschedulable:
        refusals.append("is cordoned")
        found.because.append("it is cordoned (spec.unschedulable)")
        found.advice.append(f"kubectl uncordon {name}")
    _explain_taints(node, found)
    if refusals:
        found.answer, found.good = f"takes no pods: it {' and '.join(refusals)}", False
    elif not found.good:
        found.answer = "takes only pods that tolerate its taints"
    _explain_usage(facts, node, found)
    return found


def _relief(kind: str) -> str:
    return {
        "MemoryPressure": "move pods away or give them memory limits; the kubelet evicts until there is memory again",
        "DiskPressure": "free disk space (images, logs, emptyDir volumes)",
        "PIDPressure": "find the pod that starts so many processes",
    }.get(kind, "see to the pod network of the node")


def _explain_taints(node: core_v1.Node, found: Explanation) -> None:
    for taint in node.spec.taints:
        if taint.effect == "PreferNoSchedule" or taint.key.startswith(_FROM_CONDITIONS):
            continue
        found.good = False
        text = f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
        found.because.append(f"its taint {text} keeps away all pods that do not tolerate it")
        found.advice.append(f"let the pods tolerate it, or: kubectl taint node {node.metadata.name} {text}-")


def _explain_usage(facts: Facts, node: core_v1.Node, found: Explanation) -> None:
    """How full the node is by requests; a node on which nothing more fits is not good."""
    pods = [pod for pod in facts.pods_of_nodes.get(node.metadata.name, ()) if pod.status.phase not in _ENDED]
    parts: list[str] = []
    full: list[str] = []
    for resource in ("cpu", "memory"):
        offered = node.status.allocatable.get(resource)
        if offered is None:
            continue
        whole = amount_of(resource, offered)
        asked = sum(asked_for(pod).get(resource, 0) for pod in pods)
        parts.append(f"{asked / whole if whole else 1:.0%} of {resource}")
        if whole and asked >= _FULL * whole:
            full.append(resource)
    limit = node.status.allocatable.get("pods")
    if limit is not None and len(pods) >= amount_of("pods", limit):
        full.append("pods")
    many = f"{len(pods)} pod{'s' * (len(pods) != 1)}"
    found.because.append(f"it has {many}" + (f", which ask for {' and '.join(parts)}" if parts else ""))
    if full and found.good:
        found.answer, found.good = f"is full: its {' and '.join(full)} are asked for", False
        found.advice.append("add a node, or lower requests; bayplan capacity says how many more pods fit")
