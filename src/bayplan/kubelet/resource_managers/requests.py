"""What containers ask of the managers, by their specs. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from bayplan.api.defaults.pods import qos_class
from bayplan.api.pods.resources import pod_level
from bayplan.api.quantity import parse, value
from bayplan.api.types import core_v1

Amounts = Mapping[str, int]
MEMORY = "memory"
_HUGEPAGES = "hugepages-"


def containers_of(pod: core_v1.Pod) -> Iterator[core_v1.Container]:
    """The containers in the order in which they are given their resources."""
    yield from pod.spec.init_containers
    yield from pod.spec.containers


def is_init_container(pod: core_v1.Pod, name: str) -> bool:
    """Whether a container ends before the pod's own start, so that those can have what it had. Sidecars do not."""
    return any(each.name == name and each.restart_policy != "Always" for each in pod.spec.init_containers)


def is_managed(pod: core_v1.Pod) -> bool:
    """Whether a pod may have CPUs and memory of its own. Those with amounts for the pod as a whole may not (PodLevelResourceManagers is off)."""
    has_own = bool(pod_level(pod.spec, "requests") or pod_level(pod.spec, "limits"))
    return not has_own and qos_class(pod.spec) == "Guaranteed"


def exclusive_cpus(pod: core_v1.Pod, container: core_v1.Container) -> int:
    """How many CPUs a container is to have for itself: those of Guaranteed pods that ask for whole ones."""
    text = container.resources.requests.get("cpu")
    if text is None or not is_managed(pod):
        return 0
    milli = parse(text).milli_value()
    return 0 if milli % 1000 else milli // 1000


def memory_requests(pod: core_v1.Pod, container: core_v1.Container) -> dict[str, int]:
    """Bytes of memory and of huge pages that a container asks for; nothing where its pod is not managed."""
    if not is_managed(pod):
        return {}
    requests = container.resources.requests
    return {name: value(text) for name, text in requests.items() if name == MEMORY or name.startswith(_HUGEPAGES)}


def at_most(pod: core_v1.Pod, of_container: Callable[[core_v1.Container], Amounts]) -> dict[str, int]:
    """What a pod needs at its most demanding moment: while an init container runs beside the sidecars before it, or after that."""
    sidecars: Counter[str] = Counter()
    start: Counter[str] = Counter()
    for container in pod.spec.init_containers:
        amounts = of_container(container)
        if container.restart_policy == "Always":
            sidecars.update(amounts)
        else:
            for name, amount in amounts.items():
                start[name] = max(start[name], sidecars[name] + amount)
    total: Counter[str] = Counter(sidecars)
    for container in pod.spec.containers:
        total.update(of_container(container))
    return {name: max(total[name], start[name]) for name in total.keys() | start.keys()}
