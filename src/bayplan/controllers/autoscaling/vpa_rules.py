"""What containers should request: recommendations from samples of their usage, as pure functions.

    samples ─▶ Usage (decaying histograms of cpu and of daily memory peaks) ─▶ percentiles 50/90/95 ─▶ + 15 % ─▶ confidence ─▶ minimum ─▶ policy

The longer a container was seen, the closer lower and upper bound are to the target. A container that was killed for want of memory counts as having needed more.

Source of the behaviour: recommender and updater of the Kubernetes vertical pod autoscaler with their default settings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bayplan.api.quantity import Format, Quantity, milli_value, value
from bayplan.api.types import core_v1
from bayplan.controllers.autoscaling.vpa_histogram import Buckets, DecayingHistogram

DAY = 86400.0
CPU, MEMORY = "cpu", "memory"
RESOURCES = (CPU, MEMORY)
_CPU_BUCKETS = Buckets(1000.0, 0.01)
_MEMORY_BUCKETS = Buckets(1e12, 1e7)
_LEAST_WEIGHT = 0.1
_LOWER, _TARGET, _UPPER = 0.5, 0.9, 0.95
"""Percentiles of lower bound, target and upper bound."""
_MARGIN = 0.15
_LEAST_CPU, _LEAST_MEMORY = 25, 250 * 2**20
"""Milli-cpu and bytes that a pod is recommended at least, shared by its containers."""
_OOM_RATIO, _OOM_BUMP = 1.2, 100 * 2**20
"""How much more memory a container needs than it had when it was killed: a factor, and at least so many bytes."""
_LARGEST = 10**14
"""What counts as without bound."""
_LONG_LIVED = DAY / 2
"""Seconds after which also pods within their bounds are updated."""
_LEAST_CHANGE = 0.1
"""Relative change for which pods within their bounds are worth it."""
_QUICK_OOM = 600.0
"""A container that is killed for want of memory within so many seconds is updated at once."""


@dataclass(slots=True)
class Usage:
    """What the containers of one name in a workload used."""

    cpu: DecayingHistogram = field(default_factory=lambda: DecayingHistogram(_CPU_BUCKETS, DAY))
    memory: DecayingHistogram = field(default_factory=lambda: DecayingHistogram(_MEMORY_BUCKETS, DAY))
    first: float | None = None
    """Unix time of the first sample."""
    last: float = 0.0
    count: int = 0
    """Samples of cpu."""
    peaks: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Pod -> (unix time at which its day of memory peaks ends, bytes of the peak)."""

    def add_cpu(self, cores: float, requested: float, time: float) -> None:
        """Count a sample of cpu usage (cores). Containers that request more weigh more."""
        self.cpu.add(cores, max(requested, _LEAST_WEIGHT), time)
        self.first = time if self.first is None else min(self.first, time)
        self.last = max(self.last, time)
        self.count += 1

    def add_memory(self, pod: str, amount: float, time: float) -> None:
        """Count memory usage (bytes): of each pod the peak of each day."""
        end, peak = self.peaks.get(pod, (0.0, 0.0))
        if time >= end:
            end = time + DAY if not end else end + DAY * (math.floor((time - end) / DAY) + 1)
            peak = 0.0
        if amount > peak:
            if peak:
                self.memory.add(peak, -1.0, end)
            self.memory.add(amount, 1.0, end)
            peak = amount
        self.peaks[pod] = (end, peak)

    def add_oom(self, pod: str, had: float, time: float) -> None:
        """A container was killed at this much memory (bytes)."""
        used = max(had, self.peaks.get(pod, (0.0, 0.0))[1])
        self.add_memory(pod, max(used + _OOM_BUMP, used * _OOM_RATIO), time)

    @property
    def confidence(self) -> float:
        """Days for which there are samples, at one a minute."""
        if self.first is None:
            return 0.0
        return min((self.last - self.first) / DAY, self.count / (60 * 24))


@dataclass(frozen=True, slots=True)
class Policy:
    """What a user allows for one container. Amounts are milli-cpu and bytes."""

    minimum: Mapping[str, int] = field(default_factory=dict)
    maximum: Mapping[str, int] = field(default_factory=dict)
    resources: tuple[str, ...] = RESOURCES
    requests_only: bool = False
    """Whether limits stay as they are instead of growing in proportion."""
    off: bool = False
    """Whether the container is left alone."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """For one container; amounts are milli-cpu and bytes."""

    container: str
    target: Mapping[str, int]
    lower: Mapping[str, int]
    uncapped: Mapping[str, int]
    upper: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """As upstream's RecommendedContainerResources."""
        return {
            "containerName": self.container,
            "lowerBound": wire(self.lower),
            "target": wire(self.target),
            "uncappedTarget": wire(self.uncapped),
            "upperBound": wire(self.upper),
        }


def amount(resource: str, quantity: str | int | float) -> int:
    """A quantity in milli-cpu or bytes. Raises ValueError."""
    return milli_value(quantity) if resource == CPU else value(quantity)


def quantity(resource: str, amount_: int) -> str:
    """The reverse."""
    return str(Quantity(amount_, 3 if resource == CPU else 0, Format.DECIMAL_SI))


def wire(amounts: Mapping[str, int]) -> dict[str, str]:
    """Amounts as quantities."""
    return {name: quantity(name, amounts[name]) for name in sorted(amounts)}


def recommend(usages: Mapping[str, Usage], policies: Mapping[str, Policy]) -> list[Recommendation]:
    """Recommendations for all containers that were seen and are not left alone, by name."""
    names = [name for name in sorted(usages) if not policies.get(name, Policy()).off]
    floor = {CPU: _LEAST_CPU // max(len(usages), 1), MEMORY: _LEAST_MEMORY // max(len(usages), 1)}
    found = []
    for name in names:
        usage, policy = usages[name], policies.get(name, Policy())
        if not usage.count:
            continue
        confidence = usage.confidence
        target = _estimate(usage, _TARGET, 1.0, floor)
        lower = _estimate(usage, _LOWER, _multiplier(0.001, -2.0, confidence), floor)
        upper = _estimate(usage, _UPPER, _multiplier(1.0, 1.0, confidence), floor)
        found.append(
            Recommendation(
                name, _capped(target, policy), _capped(lower, policy), _chosen(target, policy), _capped(upper, policy)
            )
        )
    return found


def _multiplier(factor: float, exponent: float, confidence: float) -> float:
    """How far a bound is from its percentile while little is known: (1 + factor / confidence) ** exponent."""
    if not confidence:
        return 0.0 if exponent < 0 else math.inf
    return float((1.0 + factor / confidence) ** exponent)


def _estimate(usage: Usage, part: float, multiplier: float, floor: Mapping[str, int]) -> dict[str, int]:
    """A percentile with margin and multiplier, at least the floor."""
    raw = {CPU: usage.cpu.percentile(part) * 1000, MEMORY: usage.memory.percentile(part)}
    found = {}
    for name, at_least in floor.items():
        base = int(raw[name])
        with_margin = base + int(base * _MARGIN)
        scaled = with_margin * multiplier if with_margin else 0.0
        found[name] = max(_LARGEST if scaled >= _LARGEST else int(scaled), at_least)
    return found


def _chosen(amounts: Mapping[str, int], policy: Policy) -> dict[str, int]:
    return {name: one for name, one in amounts.items() if name in policy.resources}


def _capped(amounts: Mapping[str, int], policy: Policy) -> dict[str, int]:
    """Amounts within what the policy allows; the maximum wins."""
    found = {}
    for name, one in _chosen(amounts, policy).items():
        least, most = policy.minimum.get(name, 0), policy.maximum.get(name, _LARGEST)
        found[name] = min(max(one, least), most)
    return found


@dataclass(frozen=True, slots=True)
class Priority:
    """Whether a pod is to be updated, and how urgently."""

    outside: bool = False
    """Whether a container requests less than its lower bound or more than its upper one, or nothing."""
    scale_up: bool = False
    """Whether it asks for too little."""
    difference: float = 0.0
    """Sum over resources of the change relative to what is requested."""


def priority(pod: core_v1.Pod, recommendations: Iterable[Recommendation]) -> Priority:
    """How much a pod differs from what is recommended."""
    containers = {one.name: one for one in pod.spec.containers}
    outside = scale_up = False
    requested, wanted = dict.fromkeys(RESOURCES, 0), dict.fromkeys(RESOURCES, 0)
    for one in recommendations:
        container = containers.get(one.container)
        if container is None:
            continue
        for name, target in one.target.items():
            wanted[name] += target
            given = container.resources.requests.get(name)
            if given is None:
                outside = scale_up = True
                continue
            have = amount(name, given)
            requested[name] += have
            scale_up = scale_up or target > have
            outside = outside or have < one.lower.get(name, 0) or have > one.upper.get(name, _LARGEST)
    difference = sum(abs(wanted[name] - requested[name]) / max(requested[name], 1) for name in RESOURCES)
    return Priority(outside, scale_up, difference)


def is_due(pod: core_v1.Pod, found: Priority, age: float, *, quick_oom: bool = False) -> bool:
    """Whether a pod that runs for so long (seconds) is to be updated now."""
    if not found.difference:
        return False
    if found.outside or quick_oom:
        return True
    return age >= _LONG_LIVED and found.difference >= _LEAST_CHANGE


def is_quick_oom(started: float, finished: float) -> bool:
    """Whether a container that was killed for want of memory ran only briefly (unix times)."""
    return finished - started < _QUICK_OOM


def resized(container: core_v1.Container, one: Recommendation, policy: Policy) -> core_v1.ResourceRequirements | None:
    """What the container should ask for; None if that is what it asks for. Limits grow in proportion, unless only requests are to change."""
    requests, limits = dict(container.resources.requests), dict(container.resources.limits)
    for name, target in one.target.items():
        before = requests.get(name)
        if before is not None and amount(name, before) == target:
            continue
        requests[name] = quantity(name, target)
        limit = limits.get(name)
        if limit is None:
            continue
        had, base = amount(name, limit), amount(name, before) if before is not None else amount(name, limit)
        if policy.requests_only:
            requests[name] = quantity(name, min(target, had))
        elif base:
            limits[name] = quantity(name, had * target // base)
    if requests == container.resources.requests and limits == container.resources.limits:
        return None
    return core_v1.ResourceRequirements(requests=requests, limits=limits, claims=container.resources.claims)


def may_evict(configured: int, running: int, evicted: int, least: int = 2) -> bool:
    """Whether one more pod of a workload may go: at most half of them at once (but one), and none if it has fewer than `least`."""
    if configured == least == 1:
        return running == 1 and not evicted
    return configured >= least and running - evicted > configured - int(configured * 0.5)
