"""When a node is short of something, and which pod has to go (pkg/kubelet/eviction).

observations(usage) -> per signal how much is left
Thresholds.look(...) -> which thresholds hold, which conditions the node has
ranked(pods, signal, usage) -> the pods, the one to evict first
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bayplan.api import quantity
from bayplan.api.defaults.pods import qos_class
from bayplan.api.pods.resources import pod_total
from bayplan.api.pods.tolerations import tolerates
from bayplan.api.types import core_v1
from bayplan.kubelet.core.admission import Rejection, is_critical
from bayplan.kubelet.core.usage import NodeUsage, PodUsage
from bayplan.kubelet.errors import ConfigurationError
from bayplan.support.durations import go_seconds

REASON: Final = "Evicted"
DEFAULT_HARD: Final = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}
CONDITIONS: Final = {
    "memory.available": "MemoryPressure",
    "allocatableMemory.available": "MemoryPressure",
    "nodefs.available": "DiskPressure",
    "nodefs.inodesFree": "DiskPressure",
    "imagefs.available": "DiskPressure",
    "imagefs.inodesFree": "DiskPressure",
    "containerfs.available": "DiskPressure",
    "containerfs.inodesFree": "DiskPressure",
    "pid.available": "PIDPressure",
}
RESOURCES: Final = {
    "memory.available": "memory",
    "allocatableMemory.available": "memory",
    "nodefs.available": "ephemeral-storage",
    "nodefs.inodesFree": "inodes",
    "imagefs.available": "ephemeral-storage",
    "imagefs.inodesFree": "inodes",
    "containerfs.available": "ephemeral-storage",
    "containerfs.inodesFree": "inodes",
    "pid.available": "pids",
}

_PRESSURE_TAINT: Final = core_v1.Taint(key="node.kubernetes.io/memory-pressure", effect="NoSchedule")


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity (in units), or a share of the capacity from 0 to 1."""

    units: int = 0
    share: float | None = None
    text: str = field(default="", compare=False)
    """The quantity as messages show it; empty for a share."""

    def of(self, capacity: int) -> int:
        """In units."""
        return self.units if self.share is None else int(capacity * self.share)


@dataclass(frozen=True, slots=True)
class Threshold:
    """A signal that must not fall below an amount; soft ones may for `grace_seconds`."""

    signal: str
    amount: Amount
    grace_seconds: float = 0.0
    reclaim: Amount = Amount()
    """How much more than the amount must be free before it is over."""

    @property
    def is_hard(self) -> bool:
        """Whether it holds at once."""
        return not self.grace_seconds


@dataclass(frozen=True, slots=True)
class Observation:
    """How much of something is left."""

    available: int
    capacity: int


def parse_amount(name: str, text: str) -> Amount | None:
    """An amount such as `100Mi` or `10%`; None for 0% and 100%, which switch a threshold off. Raises ConfigurationError."""
    if text.endswith("%"):
        try:
            share = float(text[:-1]) / 100
        except ValueError:
            raise ConfigurationError(f"{name}: {text!r} is no percentage") from None
        if not 0 <= share <= 1:
            raise ConfigurationError(f"{name}: {text} is not between 0% and 100%")
        return Amount(share=share) if 0 < share < 1 else None
    try:
        units = quantity.value(text)
    except ValueError:
        raise ConfigurationError(f"{name}: {text!r} is neither a quantity nor a percentage") from None
    if units <= 0:
        raise ConfigurationError(f"{name}: {text} must be positive")
    return Amount(units, text=quantity.canonical(text))


def parse_thresholds(
    hard: Mapping[str, str] | None,
    soft: Mapping[str, str],
    grace: Mapping[str, str],
    reclaim: Mapping[str, str],
    *,
    merge_defaults: bool = False,
    pods_are_limited: bool = True,
) -> tuple[Threshold, ...]:
    """The thresholds of a configuration. hard: None for Kubernetes' defaults. Raises ConfigurationError."""
    wanted = dict(DEFAULT_HARD) if hard is None else {**(DEFAULT_HARD if merge_defaults else {}), **hard}
    reclaims = {name: parse_amount(f"evictionMinimumReclaim {name}", text) for name, text in reclaim.items()}
    found: list[Threshold] = []
    for field_name, statements in (("evictionHard", wanted), ("evictionSoft", soft)):
        for signal, text in statements.items():
            if signal not in CONDITIONS:
                raise ConfigurationError(f"{field_name}: unsupported eviction signal {signal}")
            amount = parse_amount(f"{field_name} {signal}", text)
            if amount is None:
                continue
            seconds = 0.0
            if field_name == "evictionSoft":
                seconds = _grace(signal, grace)
            found.append(Threshold(signal, amount, seconds, reclaims.get(signal) or Amount()))
    memory = next((each for each in found if each.signal == "memory.available" and each.is_hard), None)
    if memory is not None and pods_are_limited:
        found.append(Threshold("allocatableMemory.available", memory.amount, reclaim=memory.reclaim))
    return tuple(found)


def _grace(signal: str, grace: Mapping[str, str]) -> float:
    if signal not in grace:
        raise ConfigurationError(f"grace period must be specified for the soft eviction threshold {signal}")
    try:
        return go_seconds(grace[signal])
    except ValueError as error:
        raise ConfigurationError(f"evictionSoftGracePeriod {signal}: {error}") from None


def observations(usage: NodeUsage) -> dict[str, Observation]:
    """How much is left, by signal."""
    node = usage.node_filesystem
    images = usage.image_filesystem or node
    found = {
        "memory.available": Observation(usage.memory_available, usage.memory_capacity),
        "nodefs.available": Observation(node.available_bytes, node.capacity_bytes),
        "nodefs.inodesFree": Observation(node.inodes_free, node.inodes),
        "imagefs.available": Observation(images.available_bytes, images.capacity_bytes),
        "imagefs.inodesFree": Observation(images.inodes_free, images.inodes),
    }
    if usage.processes is not None and usage.processes_most is not None:
        found["pid.available"] = Observation(usage.processes_most - usage.processes, usage.processes_most)
    if usage.pods_memory_available is not None:
        found["allocatableMemory.available"] = Observation(usage.pods_memory_available, usage.pods_memory_capacity or 0)
    return found


@dataclass(slots=True)
class Pressure:
    """What is known of thresholds over time. All times are monotonic seconds."""

    thresholds: tuple[Threshold, ...]
    transition_seconds: float
    """How long a condition holds after it was last seen."""
    conditions: tuple[str, ...] = ()
    _first: dict[Threshold, float] = field(default_factory=dict)
    _last: dict[str, float] = field(default_factory=dict)
    _met: tuple[Threshold, ...] = ()

    def look(self, seen: Mapping[str, Observation], now: float) -> tuple[Threshold, ...]:
        """The thresholds that ask for an eviction now, the most urgent first; `conditions` is set to those of the node."""
        holding = [each for each in self.thresholds if _is_met(each, seen, with_reclaim=False)]
        holding += [each for each in self._met if each not in holding and _is_met(each, seen, with_reclaim=True)]
        self._first = {each: self._first.get(each, now) for each in holding}
        for each in holding:
            self._last[CONDITIONS[each.signal]] = now
        self.conditions = tuple(
            sorted(name for name, at in self._last.items() if at == now or now - at < self.transition_seconds)
        )
        self._met = tuple(each for each, at in self._first.items() if now - at >= each.grace_seconds)
        return tuple(sorted(self._met, key=_urgency))


def _urgency(threshold: Threshold) -> tuple[bool, bool, bool]:
    return RESOURCES[threshold.signal] != "memory", RESOURCES[threshold.signal] == "pids", not threshold.is_hard


def _is_met(threshold: Threshold, seen: Mapping[str, Observation], *, with_reclaim: bool) -> bool:
    found = seen.get(threshold.signal)
    if found is None:
        return False
    limit = threshold.amount.of(found.capacity)
    if with_reclaim:
        limit += threshold.reclaim.of(found.capacity)
    return found.available < limit


Usages = Mapping[str, PodUsage]
"""Usage by pod uid."""


def ranked(pods: Iterable[core_v1.Pod], signal: str, usages: Usages, *, separate_images: bool) -> list[core_v1.Pod]:
    """Pods in the order of eviction: those of which nothing is known, those above their requests, lower priority, more above requests.

    separate_images: whether images and writable layers are on a file system of their own.
    """
    resource = RESOURCES[signal]
    if resource == "pids":
        return sorted(pods, key=lambda pod: (_priority(pod), *_process_key(usages.get(pod.metadata.uid))))
    measure = _measure(signal, resource, separate_images=separate_images)

    def key(pod: core_v1.Pod) -> tuple[bool, bool, int, int]:
        usage = usages.get(pod.metadata.uid)
        if usage is None:
            return False, False, _priority(pod), 0
        used, wanted = measure(usage), request_of(pod, resource)
        return True, used <= wanted, _priority(pod), wanted - used

    return sorted(pods, key=key)


def _priority(pod: core_v1.Pod) -> int:
    return pod.spec.priority or 0


def _process_key(usage: PodUsage | None) -> tuple[bool, int]:
    return usage is not None, -((usage.processes if usage is not None else 0) or 0)


def _measure(signal: str, resource: str, *, separate_images: bool) -> Callable[[PodUsage], int]:
    if resource == "memory":
        return lambda usage: usage.memory or 0
    on_images = separate_images and signal.startswith(("imagefs", "containerfs"))
    on_node = separate_images and signal.startswith("nodefs")

    def disk(usage: PodUsage) -> int:
        taken = usage.disk(roots=not on_node, logs=not on_images, volumes=not on_images)
        return taken.inodes if resource == "inodes" else taken.used_bytes

    return disk


def request_of(pod: core_v1.Pod, resource: str) -> int:
    """What a pod requests of a resource, in units."""
    found = pod_total(pod.spec, "requests", overhead=True).get(resource)
    return found.value() if found is not None else 0


def threshold_message(
    pod: core_v1.Pod, threshold: Threshold, seen: Mapping[str, Observation], usage: PodUsage | None
) -> str:
    """Why a pod is evicted, for its status and an event."""
    resource = RESOURCES[threshold.signal]
    found = seen[threshold.signal]
    limit = threshold.amount.text or quantity.binary(threshold.amount.of(found.capacity))
    text = f"The node was low on resource: {resource}. "
    text += f"Threshold quantity: {limit}, available: {_available(resource, found.available)}. "
    if usage is None:
        return text
    if resource == "memory" and pod.spec.resources is not None and usage.memory is not None:
        wanted = pod.spec.resources.requests.get("memory")
        if wanted is not None:
            text += (
                f"Pod {pod.metadata.name} was using {quantity.binary(usage.memory)}, request is {wanted}, "
                f"has larger consumption of {resource}. "
            )
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        taken = _container_usage(usage, container.name, resource)
        wanted = container.resources.requests.get(resource, "0")
        if taken is not None and taken > quantity.value(wanted):
            text += (
                f"Container {container.name} was using {quantity.binary(taken)}, request is {wanted}, "
                f"has larger consumption of {resource}. "
            )
    return text


def _container_usage(usage: PodUsage, name: str, resource: str) -> int | None:
    found = usage.containers.get(name)
    if found is None:
        return None
    if resource == "memory":
        return found.memory
    if resource == "ephemeral-storage" and found.root is not None and found.logs is not None:
        return found.root.used_bytes + found.logs.used_bytes
    return None


def _available(resource: str, units: int) -> str:
    return quantity.canonical(units) if resource in ("inodes", "pids") else quantity.binary(units)


def local_storage_violation(pod: core_v1.Pod, usage: PodUsage, *, separate_images: bool) -> str:
    """Why a pod must go because of limits that it gave itself: an emptyDir, the pod's or a container's ephemeral storage; empty if it may stay."""
    for volume in pod.spec.volumes:
        empty, taken = volume.empty_dir, usage.volumes.get(volume.name)
        if empty is None or taken is None or not empty.size_limit:
            continue
        if 0 < quantity.value(empty.size_limit) < taken.used_bytes:
            return f'Usage of EmptyDir volume "{volume.name}" exceeds the limit "{empty.size_limit}". '
    limit = pod_total(pod.spec, "limits", overhead=True).get("ephemeral-storage")
    total = usage.disk(roots=True, logs=True, volumes=True).used_bytes
    if limit is not None and total > limit.value():
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "
    for container in pod.spec.containers:
        own, found = container.resources.limits.get("ephemeral-storage"), usage.containers.get(container.name)
        if own is None or found is None or not quantity.value(own):
            continue
        logs = found.logs.used_bytes if found.logs is not None else 0
        root = found.root.used_bytes if found.root is not None and not separate_images else 0
        if logs + root > quantity.value(own):
            return f'Container {container.name} exceeded its local ephemeral storage limit "{own}". '
    return ""


def soft_grace(pod: core_v1.Pod, most: int) -> int:
    """Seconds that a pod gets that is evicted by a soft threshold."""
    own = pod.spec.termination_grace_period_seconds
    return most if own is None else min(most, own)


def pressure_rejection(pod: core_v1.Pod, conditions: Sequence[str]) -> Rejection | None:
    """Why a node with these conditions, such as MemoryPressure, does not take a pod."""
    best_effort = qos_class(pod.spec) == "BestEffort"
    tolerated = any(tolerates(each, _PRESSURE_TAINT) for each in pod.spec.tolerations)
    if _admits(conditions, best_effort=best_effort, critical=is_critical(pod), tolerated=tolerated):
        return None
    return Rejection(REASON, f"The node had condition: [{' '.join(conditions)}]. ")


def _admits(conditions: Sequence[str], *, best_effort: bool, critical: bool, tolerated: bool) -> bool:
    """tolerated: the taint of memory pressure."""
    if not conditions or critical:
        return True
    return tuple(conditions) == ("MemoryPressure",) and (not best_effort or tolerated)
