"""What a horizontal autoscaler decides, and how it says so: readings in, conditions, events, status and a number of replicas out.

    bounds(...)                 decisions that need no metrics (switched off, beyond minimum or maximum)
    evaluate(...)               what each metric asks for, and its entry in the status
    decide(...)                 the number of replicas, after stabilization and rate limits

Reasons and messages are those of kube-controller-manager 1.36, letter by letter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bayplan.api.quantity import Format, Quantity, milli_value, parse
from bayplan.api.types import autoscaling_v2
from bayplan.controllers.autoscaling.hpa_behavior import History, Wish, normalize
from bayplan.controllers.autoscaling.hpa_metrics import MetricsError, PodMetric
from bayplan.controllers.autoscaling.hpa_replicas import (
    NoProposalError,
    Proposal,
    Target,
    Tolerances,
    by_average,
    by_total,
    by_total_per_pod,
    by_utilization,
)
from bayplan.controllers.base import condition_of, show_selector, with_condition
from bayplan.support.timestamps import rfc3339

NORMAL, WARNING = "Normal", "Warning"
ABLE, ACTIVE, LIMITED, ZERO = "AbleToScale", "ScalingActive", "ScalingLimited", "ScaledToZero"
Reading = dict[str, PodMetric] | tuple[int, ...] | int | MetricsError
"""What was read for a metric: of pods, series of an external metric, the metric of an object, or why it could not be read."""


class Event(NamedTuple):
    """Something to tell about an autoscaler."""

    type: str
    reason: str
    message: str


@dataclass(slots=True)
class Draft:
    """Conditions and events as they come together during one look at an autoscaler."""

    conditions: tuple[autoscaling_v2.HorizontalPodAutoscalerCondition, ...]
    now: float
    events: list[Event] = field(default_factory=list)

    def set(self, condition_type: str, status: bool, reason: str, message: str) -> None:
        """Add or replace a condition."""
        new = autoscaling_v2.HorizontalPodAutoscalerCondition(
            type=condition_type,
            status="True" if status else "False",
            reason=reason,
            message=message,
            last_transition_time=rfc3339(self.now),
        )
        self.conditions = with_condition(self.conditions, new)

    def warn(self, reason: str, message: str) -> None:
        """Record an event of type Warning."""
        self.events.append(Event(WARNING, reason, message))


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a metric says nothing."""

    reason: str
    detail: str
    """For event and condition."""
    summary: str
    """The same, as part of the message about all metrics."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one metric asks for."""

    replicas: int
    name: str
    """As events name the metric."""
    status: autoscaling_v2.MetricStatus


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What all metrics ask for together."""

    replicas: int | None
    """None if nothing may be done."""
    name: str
    statuses: tuple[autoscaling_v2.MetricStatus, ...]
    problem: str = ""
    """What went wrong, even if a decision was possible."""


@dataclass(frozen=True, slots=True)
class Decision:
    """How many replicas there are to be, and why."""

    replicas: int
    reason: str = ""
    statuses: tuple[autoscaling_v2.MetricStatus, ...] = ()


def minimum(hpa: autoscaling_v2.HorizontalPodAutoscaler) -> int:
    """The least number of replicas."""
    return 1 if hpa.spec.min_replicas is None else hpa.spec.min_replicas


def tolerances(hpa: autoscaling_v2.HorizontalPodAutoscaler, default: float) -> Tolerances:
    """The autoscaler's own tolerances where it has some."""
    behavior = hpa.spec.behavior
    rules = (behavior.scale_up, behavior.scale_down) if behavior is not None else (None, None)
    up, down = (default if one is None or one.tolerance is None else milli_value(one.tolerance) / 1000 for one in rules)
    return Tolerances(up, down)


def scales_from_zero(hpa: autoscaling_v2.HorizontalPodAutoscaler) -> bool:
    """Whether an autoscaler may wake up what it has put to sleep: one that goes down to zero by metrics that need no pods."""
    return minimum(hpa) == 0 and any(one.type in ("Object", "External") for one in hpa.spec.metrics)


def bounds(hpa: autoscaling_v2.HorizontalPodAutoscaler, current: int, draft: Draft) -> Decision | None:
    """A decision that needs no metrics; None if they are to be asked."""
    asleep = condition_of(hpa.status.conditions, ZERO)
    may_wake = scales_from_zero(hpa) and asleep is not None and asleep.status == "True"
    if (current == 0 and minimum(hpa) != 0) or (current == 0 and not may_wake):
        draft.set(ACTIVE, False, "ScalingDisabled", "scaling is disabled since the replica count of the target is zero")
        return Decision(current)
    if current > hpa.spec.max_replicas:
        return Decision(hpa.spec.max_replicas, "Current number of replicas above Spec.MaxReplicas")
    if current < minimum(hpa):
        return Decision(minimum(hpa), "Current number of replicas below Spec.MinReplicas")
    return None


def evaluate(
    hpa: autoscaling_v2.HorizontalPodAutoscaler,
    readings: Sequence[Reading],
    target: Target,
    status_replicas: int,
    draft: Draft,
) -> Evaluation:
    """The highest number that any metric asks for. If some cannot be read, nothing is made smaller. `readings`: one per metric of the spec."""
    statuses, failures, best = [], [], None
    for spec, reading in zip(hpa.spec.metrics, readings, strict=True):
        found = _ask(spec, reading, target, status_replicas)
        if isinstance(found, Failure):
            draft.warn(found.reason, found.detail)
            failures.append(found)
            statuses.append(autoscaling_v2.MetricStatus())
            continue
        statuses.append(found.status)
        if best is None or found.replicas > best.replicas:
            best = found
    problem, shown = "", tuple(statuses)
    if failures:
        first, count = failures[0], len(hpa.spec.metrics)
        problem = f"invalid metrics ({len(failures)} invalid out of {count}), first error is: {first.summary}"
        if best is None or best.replicas < target.current:
            text = f"the HPA was unable to compute the replica count: {first.detail}"
            draft.set(ACTIVE, False, first.reason, text)
            return Evaluation(None, "", shown, problem)
    assert best is not None
    text = f"the HPA was able to successfully calculate a replica count from {best.name}"
    draft.set(ACTIVE, True, "ValidMetricFound", text)
    return Evaluation(best.replicas, best.name, shown, problem)


def decide(
    hpa: autoscaling_v2.HorizontalPodAutoscaler,
    current: int,
    wanted: Evaluation,
    history: History,
    downscale_window: float,
    draft: Draft,
) -> Decision:
    """The number of replicas, after stabilization and limits. The evaluation has one."""
    desired = wanted.replicas or 0
    reason = ""
    if desired > current:
        reason = f"{wanted.name} above target"
    elif desired < current:
        reason = "All metrics below target"
    wish = Wish(current, desired, minimum(hpa), hpa.spec.max_replicas)
    result = normalize(wish, hpa.spec.behavior, history, downscale_window, draft.now)
    draft.set(ABLE, True, *result.able)
    draft.set(LIMITED, result.limited, *result.limit)
    return Decision(result.replicas, reason, wanted.statuses)


def note_rescale(hpa: autoscaling_v2.HorizontalPodAutoscaler, current: int, decision: Decision, draft: Draft) -> None:
    """Conditions and event of a change that was made."""
    text = f"the HPA controller was able to update the target scale to {decision.replicas}"
    draft.set(ABLE, True, "SucceededRescale", text)
    if scales_from_zero(hpa):
        if current > 0 and decision.replicas == 0:
            draft.set(ZERO, True, "ScaledToZero", "the HPA controller scaled the workload to zero")
        else:
            draft.set(ZERO, False, "NotScaledToZero", "the HPA controller did not scale the workload to zero")
    text = f"New size: {decision.replicas}; reason: {decision.reason}"
    draft.events.append(Event(NORMAL, "SuccessfulRescale", text))


def _ask(spec: autoscaling_v2.MetricSpec, reading: Reading, target: Target, status_replicas: int) -> Answer | Failure:
    if spec.type == "Resource" and spec.resource is not None:
        return _resource(spec.resource.name, "", spec.resource.target, reading, target)
    if spec.type == "ContainerResource" and spec.container_resource is not None:
        source = spec.container_resource
        return _resource(source.name, source.container, source.target, reading, target)
    if spec.type == "Pods" and spec.pods is not None:
        return _pods(spec.pods, reading, target)
    if spec.type == "Object" and spec.object is not None:
        return _object(spec.object, reading, target, status_replicas)
    if spec.type == "External" and spec.external is not None:
        return _external(spec.external, reading, target, status_replicas)
    text = f'unknown metric source type "{spec.type}"'
    return Failure("InvalidMetricSourceType", text, text)


def _quantity(milli: int) -> str:
    return str(Quantity(milli, 3, Format.DECIMAL_SI))


def _milli(amount: str | int | float | None) -> int:
    return parse(amount or "0").milli_value()


def _resource(
    name: str, container: str, wanted: autoscaling_v2.MetricTarget, reading: Reading, target: Target
) -> Answer | Failure:
    reason = "FailedGetContainerResourceMetric" if container else "FailedGetResourceMetric"
    summary = f"failed to get {container} container metric value" if container else ""
    summary = summary or f"failed to get {name} resource metric value"
    what = f"failed to get {name} {'usage' if wanted.average_value is not None else 'utilization'}"
    if wanted.average_value is None and wanted.average_utilization is None:
        text = (
            "invalid resource metric source: neither an average utilization target nor an average value (usage) "
            "target was set"
        )
        return Failure(reason, text, f"{summary}: {text}")
    if not isinstance(reading, dict):
        text = f"{what}: unable to get metrics for resource {name}: {reading}"
        return Failure(reason, text, f"{summary}: {text}")
    try:
        if wanted.average_value is not None:
            proposal = by_average(target, reading, _milli(wanted.average_value), name)
        else:
            proposal = by_utilization(target, reading, wanted.average_utilization or 0, name, container)
    except NoProposalError as error:
        return Failure(reason, f"{what}: {error}", f"{summary}: {what}: {error}")
    value = autoscaling_v2.MetricValueStatus(
        average_value=_quantity(proposal.value), average_utilization=proposal.utilization
    )
    if container:
        status = autoscaling_v2.MetricStatus(
            type="ContainerResource",
            container_resource=autoscaling_v2.ContainerResourceMetricStatus(
                name=name, container=container, current=value
            ),
        )
    else:
        status = autoscaling_v2.MetricStatus(
            type="Resource", resource=autoscaling_v2.ResourceMetricStatus(name=name, current=value)
        )
    shown = f"{name} resource" + ("" if wanted.average_value is not None else " utilization (percentage of request)")
    return Answer(proposal.replicas, shown, status)


def _pods(source: autoscaling_v2.PodsMetricSource, reading: Reading, target: Target) -> Answer | Failure:
    reason, name = "FailedGetPodsMetric", source.metric.name
    summary = "failed to get pods metric value"
    if not isinstance(reading, dict):
        text = f"unable to get metric {name}: {reading}"
        return Failure(reason, text, f"{summary}: {text}")
    try:
        proposal = by_average(target, reading, _milli(source.target.average_value))
    except NoProposalError as error:
        return Failure(reason, str(error), f"{summary}: {error}")
    current = autoscaling_v2.MetricValueStatus(average_value=_quantity(proposal.value))
    status = autoscaling_v2.PodsMetricStatus(metric=source.metric, current=current)
    return Answer(proposal.replicas, f"pods metric {name}", autoscaling_v2.MetricStatus(type="Pods", pods=status))


def _object(
    source: autoscaling_v2.ObjectMetricSource, reading: Reading, target: Target, status_replicas: int
) -> Answer | Failure:
    reason, name, about = "FailedGetObjectMetric", source.metric.name, source.described_object
    summary, per_pod = "failed to get object metric value", source.target.type == "AverageValue"
    if source.target.type not in ("Value", "AverageValue"):
        text = "invalid object metric source: neither a value target nor an average value target was set"
        return Failure(reason, text, f"{summary}: {text}")
    try:
        if not isinstance(reading, int):
            where = f"{about.kind} on {target.namespace} {about.name}"
            raise NoProposalError(f"unable to get metric {name}: {where}/{reading}")
        if per_pod:
            wanted = _milli(source.target.average_value)
            proposal = by_total_per_pod(status_replicas, target.tolerances, reading, wanted)
        else:
            proposal = by_total(target, reading, _milli(source.target.value))
    except NoProposalError as error:
        middle = f"failed to get {name} object metric: " if per_pod else ""
        return Failure(reason, str(error), f"{summary}: {middle}{error}")
    status = autoscaling_v2.ObjectMetricStatus(
        metric=source.metric, described_object=about, current=_value(proposal, per_pod)
    )
    shown = (
        f"external metric {name}({show_selector(source.metric.selector)})" if per_pod else f"{about.kind} metric {name}"
    )
    return Answer(proposal.replicas, shown, autoscaling_v2.MetricStatus(type="Object", object=status))


def _external(
    source: autoscaling_v2.ExternalMetricSource, reading: Reading, target: Target, status_replicas: int
) -> Answer | Failure:
    reason, name, wanted = "FailedGetExternalMetric", source.metric.name, source.target
    summary, per_pod = f"failed to get {name} external metric value", source.target.average_value is not None
    selector = show_selector(source.metric.selector)
    if not per_pod and wanted.value is None:
        text = "invalid external metric source: neither a value target nor an average value target was set"
        return Failure(reason, text, f"{summary}: {text}")
    try:
        if not isinstance(reading, tuple):
            raise NoProposalError(f"unable to get external metric {target.namespace}/{name}/{selector}: {reading}")
        if per_pod:
            proposal = by_total_per_pod(status_replicas, target.tolerances, sum(reading), _milli(wanted.average_value))
        else:
            proposal = by_total(target, sum(reading), _milli(wanted.value))
    except NoProposalError as error:
        middle = f"failed to get {name} external metric" if per_pod else f"failed to get external metric {name}"
        return Failure(reason, str(error), f"{summary}: {middle}: {error}")
    status = autoscaling_v2.ExternalMetricStatus(metric=source.metric, current=_value(proposal, per_pod))
    return Answer(
        proposal.replicas,
        f"external metric {name}({selector})",
        autoscaling_v2.MetricStatus(type="External", external=status),
    )


def _value(proposal: Proposal, per_pod: bool) -> autoscaling_v2.MetricValueStatus:
    amount = _quantity(proposal.value)
    if per_pod:
        return autoscaling_v2.MetricValueStatus(average_value=amount)
    return autoscaling_v2.MetricValueStatus(value=amount)
