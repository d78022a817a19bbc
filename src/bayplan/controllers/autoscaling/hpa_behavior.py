"""From what metrics ask for to what is done: stabilization, rate limits, minimum and maximum. Pure functions over a short history.

Without `spec.behavior` an autoscaler follows the highest recommendation of the last minutes and grows to at most twice its size (or four). With it, windows and
policies are the user's. Source of the behaviour: kube-controller-manager's horizontal controller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from bayplan.api.types import autoscaling_v2

_GROWTH_FACTOR, _GROWTH_MINIMUM = 2, 4
_DEFAULT_POLICY = autoscaling_v2.HPAScalingPolicy(type="Percent", value=100, period_seconds=15)
_DEFAULT_UP = (autoscaling_v2.HPAScalingPolicy(type="Pods", value=4, period_seconds=15), _DEFAULT_POLICY)


class Sample(NamedTuple):
    """A number of replicas, and when."""

    replicas: int
    time: float


@dataclass(slots=True)
class History:
    """What an autoscaler recommended and did lately."""

    recommendations: list[Sample] = field(default_factory=list)
    """What metrics asked for, before anything else."""
    added: list[Sample] = field(default_factory=list)
    """Replicas added, per change."""
    removed: list[Sample] = field(default_factory=list)

    def record_change(
        self, before: int, after: int, behavior: autoscaling_v2.HorizontalPodAutoscalerBehavior | None, now: float
    ) -> None:
        """Remember a change, as long as a policy of the behaviour may ask for it."""
        if behavior is None or before == after:
            return
        rules = behavior.scale_up if after > before else behavior.scale_down
        samples = self.added if after > before else self.removed
        longest = max((one.period_seconds for one in policies_of(rules, up=after > before)), default=0)
        samples[:] = [one for one in samples if one.time >= now - longest]
        samples.append(Sample(abs(after - before), now))


class Verdict(NamedTuple):
    """A condition's reason and message."""

    reason: str
    message: str


_READY = Verdict("ReadyForNewScale", "recommended size matches current size")
_WITHIN = Verdict("DesiredWithinRange", "the desired count is within the acceptable range")
_UP_STABILIZED = Verdict(
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
_DOWN_STABILIZED = Verdict(
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)
_TOO_MANY = Verdict("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW = Verdict("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_TOO_FAST = Verdict("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
_TOO_FAST_DOWN = Verdict("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")


class Normalized(NamedTuple):
    """How many replicas to have, and why not as many as metrics ask for."""

    replicas: int
    able: Verdict
    """For the condition AbleToScale, which is True."""
    limited: bool
    limit: Verdict
    """For the condition ScalingLimited."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What metrics ask for, and the bounds."""

    current: int
    desired: int
    minimum: int
    maximum: int


def normalize(
    wish: Wish,
    behavior: autoscaling_v2.HorizontalPodAutoscalerBehavior | None,
    history: History,
    downscale_window: float,
    now: float,
) -> Normalized:
    """What to do about a wish. Adds it to the history. `downscale_window`: seconds, where the behaviour names none."""
    if behavior is None:
        stable = _stabilize_down(wish.desired, history, downscale_window, now)
        able = _DOWN_STABILIZED if stable != wish.desired else _READY
        replicas, limit = _within_default_rates(wish, stable)
    else:
        up, down = behavior.scale_up, behavior.scale_down
        stable = _stabilize(wish, _window(up, 0.0), _window(down, downscale_window), history, now)
        able = _READY
        if stable != wish.desired:
            able = _UP_STABILIZED if wish.desired >= wish.current else _DOWN_STABILIZED
        replicas, limit = _within_policies(wish, stable, behavior, history, now)
    return Normalized(replicas, able, replicas != stable, limit)


def _window(rules: autoscaling_v2.HPAScalingRules | None, default: float) -> float:
    seconds = rules.stabilization_window_seconds if rules is not None else None
    return default if seconds is None else float(seconds)


def policies_of(
    rules: autoscaling_v2.HPAScalingRules | None, *, up: bool
) -> tuple[autoscaling_v2.HPAScalingPolicy, ...]:
    """The policies of a direction; the defaults where there are none."""
    if rules is None or rules.policies is None:
        return _DEFAULT_UP if up else (_DEFAULT_POLICY,)
    return rules.policies


def _stabilize_down(desired: int, history: History, window: float, now: float) -> int:
    """The highest recommendation within the window."""
    recent = [one for one in history.recommendations if one.time >= now - window]
    history.recommendations[:] = [*recent, Sample(desired, now)]
    return max((desired, *(one.replicas for one in recent)))


def _stabilize(wish: Wish, up_window: float, down_window: float, history: History, now: float) -> int:
    """The current size, moved up to the lowest and down to the highest recommendation within the two windows."""
    past = history.recommendations
    lowest = min((wish.desired, *(one.replicas for one in past if one.time > now - up_window)))
    highest = max((wish.desired, *(one.replicas for one in past if one.time > now - down_window)))
    longest = max(up_window, down_window)
    past[:] = [*(one for one in past if one.time >= now - longest), Sample(wish.desired, now)]
    return min(max(wish.current, lowest), highest)


def _within_default_rates(wish: Wish, desired: int) -> tuple[int, Verdict]:
    rate = max(_GROWTH_FACTOR * wish.current, _GROWTH_MINIMUM)
    if desired < wish.minimum:
        return wish.minimum, _TOO_FEW
    if desired > min(rate, wish.maximum):
        return (rate, _TOO_FAST) if wish.maximum > rate else (wish.maximum, _TOO_MANY)
    return desired, _WITHIN


def _within_policies(
    wish: Wish,
    desired: int,
    behavior: autoscaling_v2.HorizontalPodAutoscalerBehavior,
    history: History,
    now: float,
) -> tuple[int, Verdict]:
    if desired > wish.current:
        limit = max(_limit(wish.current, behavior.scale_up, history, now, up=True), wish.current)
        if desired > min(limit, wish.maximum):
            return (limit, _TOO_FAST) if wish.maximum > limit else (wish.maximum, _TOO_MANY)
    elif desired < wish.current:
        limit = min(_limit(wish.current, behavior.scale_down, history, now, up=False), wish.current)
        if desired < max(limit, wish.minimum):
            return (limit, _TOO_FAST_DOWN) if wish.minimum < limit else (wish.minimum, _TOO_FEW)
    return desired, _WITHIN


def _limit(
    current: int, rules: autoscaling_v2.HPAScalingRules | None, history: History, now: float, *, up: bool
) -> int:
    """How far policies let the size go, counting what changed within their periods already."""
    select = (rules.select_policy if rules is not None else None) or "Max"
    if select == "Disabled":
        return current
    proposals = []
    for policy in policies_of(rules, up=up):
        since = now - policy.period_seconds
        added = sum(one.replicas for one in history.added if one.time > since)
        removed = sum(one.replicas for one in history.removed if one.time > since)
        start = current - added + removed
        if policy.type == "Pods":
            proposals.append(start + policy.value if up else start - policy.value)
        elif up:
            proposals.append(math.ceil(start * (1 + policy.value / 100)))
        else:
            proposals.append(int(start * (1 - policy.value / 100)))
    if not proposals:
        return current
    return max(proposals) if up == (select == "Max") else min(proposals)
