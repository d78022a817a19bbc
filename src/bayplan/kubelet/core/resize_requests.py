"""Whether a node can give a pod the resources that it asks for now, and how that is told (KEP-1287).

A resize that no node of this size can carry out is Infeasible; one that has to wait for other pods to go is Deferred and tried again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from bayplan.api.codec import encode
from bayplan.api.defaults.pods import qos_class
from bayplan.api.pods.resources import pod_total
from bayplan.api.quantity import Quantity, milli_value, value
from bayplan.api.types import core_v1
from bayplan.kubelet.core.admission import NodeAccount, NodeOffer, rejections
from bayplan.kubelet.core.resize import RESIZABLE
from bayplan.support.timestamps import rfc3339

PENDING, IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
INFEASIBLE, DEFERRED, ERROR = "Infeasible", "Deferred", "Error"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a resize is pending: the condition's reason, Infeasible or Deferred, and message."""

    reason: str
    message: str


def resize_condition(kind: str, reason: str, message: str, generation: int, now: float) -> core_v1.PodCondition:
    """A condition that tells of a resize of this generation of a pod's spec. now: seconds since the epoch."""
    return core_v1.PodCondition(
        type=kind,
        status="True",
        reason=reason,
        message=message,
        observed_generation=generation,
        last_transition_time=rfc3339(now),
    )


def fixed_refusal(pod: core_v1.Pod, allocated: core_v1.Pod, fixed: Mapping[str, str]) -> Refusal | None:
    """Why a Guaranteed pod cannot have more or less of a resource; None if it can. fixed: resource -> the policy that keeps what pods have."""
    if qos_class(pod.spec) != "Guaranteed":
        return None
    for name, policy in fixed.items():
        wanted, has = (
            [each.resources.requests.get(name) for each in (*some.spec.containers, *some.spec.init_containers)]
            for some in (pod, allocated)
        )
        if wanted != has:
            return Refusal(INFEASIBLE, f"Resize is infeasible for Guaranteed Pods alongside {policy}")
    return None


def refusal(pod: core_v1.Pod, account: NodeAccount, offer: NodeOffer) -> Refusal | None:
    """Why a pod cannot have what its spec asks for; None if it can. account: of the node's other pods, with what is allocated to them."""
    wanted = pod_total(pod.spec, "requests", overhead=True)
    allocatable = offer.node.status.allocatable
    for name in RESIZABLE:
        if name not in wanted or name not in allocatable:
            continue
        amount = milli_value if name == "cpu" else value
        asked, capacity = amount(str(wanted[name])), amount(allocatable[name])
        if asked > capacity:
            text = f"Node didn't have enough capacity: {name}, requested: {asked}, capacity: {capacity}"
            return Refusal(INFEASIBLE, text)
    found = rejections(pod, account, offer)
    return Refusal(DEFERRED, found[0].message) if found else None


def raises_requests(pod: core_v1.Pod, allocated: core_v1.Pod) -> bool:
    """Whether a pod asks for more cpu or memory than is allocated to it."""
    wanted, has = (pod_total(each.spec, "requests", overhead=False) for each in (pod, allocated))
    nothing = Quantity(0)
    return any(wanted.get(name, nothing) > has.get(name, nothing) for name in RESIZABLE)


def resize_text(begin: str, pod: core_v1.Pod, generation: int | None, error: str = "") -> str:
    """The message of an event about a resize: how it stands, and what is asked for."""
    summary: dict[str, object] = {}
    for name, containers in (("initContainers", pod.spec.init_containers), ("containers", pod.spec.containers)):
        if containers:
            summary[name] = [
                {"name": each.name, "resources": msgspec.json.decode(encode(each.resources))} for each in containers
            ]
    summary["generation"] = generation or 0
    if error:
        summary["error"] = error
    return f"{begin}: {json.dumps(summary, separators=(',', ':'))}"
