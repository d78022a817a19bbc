"""Which pods of a node make room for a critical one that does not fit beside them (pkg/kubelet/preemption/preemption.go)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bayplan.api.defaults.pods import qos_class
from bayplan.api.types import core_v1
from bayplan.kubelet.core.admission import Rejection, Requests, is_critical

REASON = "Preempting"
MESSAGE = "Preempted in order to admit critical pod"
DISRUPTION_MESSAGE = "Pod was preempted by Kubelet to accommodate a critical pod."
_UNEXPECTED = "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt"

Shortages = Mapping[str, int]
"""Resource -> how much of it is missing: milli-units of cpu, whole units of all else."""


class NoRoomError(Exception):
    """No pods that may be preempted have what is missing."""


def make_room(
    pod: core_v1.Pod, others: Sequence[core_v1.Pod], found: Sequence[Rejection], requests: Requests
) -> tuple[list[Rejection], list[core_v1.Pod]]:
    """What is left of the reasons not to take a pod, and the pods that are to end for it. Only critical pods are made room for, and only where nothing but
    resources is missing. others: the pods that the node has."""
    if not found or not is_critical(pod):
        return list(found), []
    lasting = [each for each in found if not each.resource]
    if lasting:
        return lasting, []
    shortages = {each.resource: each.missing for each in found}
    try:
        return [], victims(pod, others, shortages, requests)
    except NoRoomError as error:
        return [Rejection("UnexpectedAdmissionError", f"{_UNEXPECTED}: {error}")], []


def victims(
    pod: core_v1.Pod, others: Iterable[core_v1.Pod], shortages: Shortages, requests: Requests
) -> list[core_v1.Pod]:
    """The pods to end, those of lower QoS first: as few as possible, and no Guaranteed one where Burstable and BestEffort ones suffice. Raises NoRoomError."""
    classes: dict[str, list[core_v1.Pod]] = {"BestEffort": [], "Burstable": [], "Guaranteed": []}
    for other in others:
        if _may_preempt(pod, other):
            classes[qos_class(other.spec)].append(other)
    best_effort, burstable, guaranteed = classes.values()
    missing = _without(shortages, (*best_effort, *burstable, *guaranteed), requests)
    if missing:
        raise NoRoomError(_no_room(missing))
    ending = _closest(guaranteed, _without(shortages, (*best_effort, *burstable), requests), requests)
    ending = [*_closest(burstable, _without(shortages, (*best_effort, *ending), requests), requests), *ending]
    return [*_closest(best_effort, _without(shortages, ending, requests), requests), *ending]


def _may_preempt(pod: core_v1.Pod, other: core_v1.Pod) -> bool:
    if is_critical(pod) and not is_critical(other):
        return True
    mine, its = pod.spec.priority, other.spec.priority
    return mine is not None and its is not None and mine > its


def _amount(pod: core_v1.Pod, resource: str, requests: Requests) -> int:
    return 1 if resource == "pods" else requests.of(pod.spec).get(resource, 0)


def _without(shortages: Shortages, pods: Iterable[core_v1.Pod], requests: Requests) -> Shortages:
    """What is still missing when some pods have ended."""
    ended = tuple(pods)
    left = {
        resource: amount - sum(_amount(each, resource, requests) for each in ended)
        for resource, amount in shortages.items()
    }
    return {resource: amount for resource, amount in left.items() if amount > 0}


def _closest(pods: Iterable[core_v1.Pod], shortages: Shortages, requests: Requests) -> list[core_v1.Pod]:
    """Pods that together have what is missing: always the one next that leaves the least, of equal ones the smallest. Raises NoRoomError."""
    left, found = list(pods), []
    while shortages:
        if not left:
            raise NoRoomError(_no_room(shortages))

        def rank(index: int, missing: Shortages = shortages) -> tuple[float, int, int]:
            pod = left[index]
            distance = sum(
                (max(amount - _amount(pod, resource, requests), 0) / amount) ** 2
                for resource, amount in missing.items()
            )
            return distance, _amount(pod, "memory", requests), _amount(pod, "cpu", requests)

        index = min(reversed(range(len(left))), key=rank)
        best, left[index] = left[index], left[-1]  # the order in which Kubernetes looks on
        left.pop()
        found.append(best)
        shortages = _without(shortages, (best,), requests)
    return found


def _no_room(shortages: Shortages) -> str:
    words = "".join(f"(res: {resource}, q: {amount}), " for resource, amount in shortages.items())
    return f"no set of running pods found to reclaim resources: [{words}]"
