"""What a horizontal autoscaler says: conditions, events and status, word by word."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.api.types import autoscaling_v2, core_v1, meta_v1
from bayplan.api.types.autoscaling_v2 import MetricSpec as Spec
from bayplan.controllers.autoscaling.hpa_behavior import History
from bayplan.controllers.autoscaling.hpa_metrics import MetricsError, PodMetric, resource_metrics
from bayplan.controllers.autoscaling.hpa_replicas import Patience, Target, Tolerances
from bayplan.controllers.autoscaling.hpa_rules import (
    Draft,
    Evaluation,
    Reading,
    bounds,
    decide,
    evaluate,
    note_rescale,
    tolerances,
)
from bayplan.controllers.base import show_selector
from bayplan.support.timestamps import parse_rfc3339
from bayplan.testing.builders import CREATED, pod, pod_status

NOW = parse_rfc3339(CREATED) + 3600
Wanted = autoscaling_v2.MetricTarget
Identifier = autoscaling_v2.MetricIdentifier

CPU = Spec(
    type="Resource",
    resource=autoscaling_v2.ResourceMetricSource(name="cpu", target=Wanted(type="Utilization", average_utilization=50)),
)
SIDE = Spec(
    type="ContainerResource",
    container_resource=autoscaling_v2.ContainerResourceMetricSource(
        name="memory", container="main", target=Wanted(type="AverageValue", average_value="100Mi")
    ),
)
REQUESTS = Spec(
    type="Pods",
    pods=autoscaling_v2.PodsMetricSource(
        metric=Identifier(name="requests"), target=Wanted(type="AverageValue", average_value="10")
    ),
)
INGRESS = autoscaling_v2.CrossVersionObjectReference(kind="Ingress", name="main", api_version="networking.k8s.io/v1")
HITS = Spec(
    type="Object",
    object=autoscaling_v2.ObjectMetricSource(
        described_object=INGRESS, metric=Identifier(name="hits"), target=Wanted(type="Value", value="2k")
    ),
)
QUEUE = Spec(
    type="External",
    external=autoscaling_v2.ExternalMetricSource(
        metric=Identifier(name="queue"), target=Wanted(type="AverageValue", average_value="30")
    ),
)


def autoscaler(*metrics: Spec, **spec: Any) -> autoscaling_v2.HorizontalPodAutoscaler:
    spec = {"min_replicas": 1, "max_replicas": 10, "metrics": metrics, **spec}
    return autoscaling_v2.HorizontalPodAutoscaler(spec=autoscaling_v2.HorizontalPodAutoscalerSpec(**spec))


def member(name: str) -> core_v1.Pod:
    return pod(name, cpu="1", memory="200Mi", status=msgspec.structs.replace(pod_status(), start_time=CREATED))


def target(count: int = 2, current: int | None = None) -> Target:
    pods = [member(f"p{index}") for index in range(count)]
    return Target(count if current is None else current, pods, Tolerances(), Patience(), NOW, "default")


def each(value: int, count: int = 2) -> dict[str, PodMetric]:
    return {f"p{index}": PodMetric(value, NOW) for index in range(count)}


def ask(spec: Spec, reading: Reading, at: Target | None = None) -> tuple[Evaluation, Draft]:
    draft = Draft((), NOW)
    return evaluate(autoscaler(spec), [reading], at or target(), 2, draft), draft


@pytest.mark.parametrize(
    ("spec", "reading", "replicas", "name"),
    [
        pytest.param(CPU, each(1000), 4, "cpu resource utilization (percentage of request)", id="resource"),
        pytest.param(SIDE, each(200 * 2**20 * 1000), 4, "memory resource", id="container resource"),
        pytest.param(REQUESTS, each(30_000), 6, "pods metric requests", id="pods"),
        pytest.param(HITS, 5_000_000, 5, "Ingress metric hits", id="object"),
        pytest.param(QUEUE, (100_000, 50_000), 5, "external metric queue(nil)", id="external"),
    ],
)
def test_every_source_asks_for_replicas_and_has_its_name(
    spec: Spec, reading: Reading, replicas: int, name: str
) -> None:
    found, draft = ask(spec, reading)
    assert (found.replicas, found.name) == (replicas, name)
    [condition] = draft.conditions
    assert (condition.type, condition.status, condition.reason) == ("ScalingActive", "True", "ValidMetricFound")
    assert condition.message == f"the HPA was able to successfully calculate a replica count from {name}"


@pytest.mark.parametrize(
    ("spec", "reason", "detail", "summary"),
    [
        pytest.param(
            CPU,
            "FailedGetResourceMetric",
            "failed to get cpu utilization: unable to get metrics for resource cpu: gone",
            "failed to get cpu resource metric value: ",
            id="resource",
        ),
        pytest.param(
            SIDE,
            "FailedGetContainerResourceMetric",
            "failed to get memory usage: unable to get metrics for resource memory: gone",
            "failed to get main container metric value: ",
            id="container resource",
        ),
        pytest.param(
            REQUESTS,
            "FailedGetPodsMetric",
            "unable to get metric requests: gone",
            "failed to get pods metric value: ",
            id="pods",
        ),
        pytest.param(
            HITS,
            "FailedGetObjectMetric",
            "unable to get metric hits: Ingress on default main/gone",
            "failed to get object metric value: ",
            id="object",
        ),
        pytest.param(
            QUEUE,
            "FailedGetExternalMetric",
            "unable to get external metric default/queue/nil: gone",
            "failed to get queue external metric value: failed to get queue external metric: ",
            id="external",
        ),
    ],
)
def test_a_metric_that_cannot_be_read_is_told(spec: Spec, reason: str, detail: str, summary: str) -> None:
    found, draft = ask(spec, MetricsError("gone"))
    assert found.replicas is None
    assert found.problem == f"invalid metrics (1 invalid out of 1), first error is: {summary}{detail}"
    assert [(one.reason, one.message) for one in draft.events] == [(reason, detail)]
    [condition] = draft.conditions
    assert (condition.status, condition.reason) == ("False", reason)
    assert condition.message == f"the HPA was unable to compute the replica count: {detail}"
    assert found.statuses == (autoscaling_v2.MetricStatus(),)


def test_the_status_shows_what_was_read() -> None:
    draft = Draft((), NOW)
    found = evaluate(
        autoscaler(CPU, SIDE, HITS, QUEUE),
        [each(250), each(64 * 2**20 * 1000), 1_500_000, (45_000,)],
        target(),
        2,
        draft,
    )
    cpu, memory, hits, queue = found.statuses
    assert cpu.resource is not None
    assert memory.container_resource is not None
    assert (cpu.resource.current.average_utilization, cpu.resource.current.average_value) == (25, "250m")
    assert memory.container_resource.current.average_value == "67108864"
    assert hits.object is not None
    assert hits.object.current.value == "1500"
    assert queue.external is not None
    assert queue.external.current.average_value == "22500m"


def test_with_some_metrics_missing_nothing_is_made_smaller() -> None:
    missing = MetricsError("gone")
    grown = evaluate(autoscaler(CPU, REQUESTS), [each(1000), missing], target(), 2, Draft((), NOW))
    assert (grown.replicas, grown.problem.startswith("invalid metrics (1 invalid out of 2)")) == (4, True)
    draft = Draft((), NOW)
    shrunk = evaluate(autoscaler(CPU, REQUESTS), [each(100), missing], target(), 2, draft)
    assert shrunk.replicas is None
    assert draft.conditions[0].reason == "FailedGetPodsMetric"


@pytest.mark.parametrize(
    ("current", "minimum", "replicas", "reason"),
    [
        pytest.param(0, 1, 0, "", id="somebody switched it off"),
        pytest.param(12, 1, 10, "Current number of replicas above Spec.MaxReplicas", id="too many"),
        pytest.param(2, 3, 3, "Current number of replicas below Spec.MinReplicas", id="too few"),
    ],
)
def test_bounds_need_no_metrics(current: int, minimum: int, replicas: int, reason: str) -> None:
    draft = Draft((), NOW)
    found = bounds(autoscaler(CPU, min_replicas=minimum), current, draft)
    assert found is not None
    assert (found.replicas, found.reason) == (replicas, reason)
    assert [one.reason for one in draft.conditions] == ([] if reason else ["ScalingDisabled"])


def test_what_went_to_sleep_by_itself_wakes_up_and_what_somebody_stopped_does_not() -> None:
    sleeper = autoscaler(QUEUE, min_replicas=0)
    stopped = bounds(sleeper, 0, Draft((), NOW))
    assert stopped is not None
    assert stopped.replicas == 0
    draft = Draft((), NOW)
    history = History()
    wish = evaluate(sleeper, [(0,)], target(), 2, draft)
    decision = decide(sleeper, 2, wish, history, 0.0, draft)
    assert (decision.replicas, decision.reason) == (0, "All metrics below target")
    note_rescale(sleeper, 2, decision, draft)
    asleep = msgspec.structs.replace(
        sleeper, status=autoscaling_v2.HorizontalPodAutoscalerStatus(conditions=draft.conditions)
    )
    assert bounds(asleep, 0, Draft(draft.conditions, NOW)) is None
    woken = evaluate(asleep, [(90_000,)], target(0), 0, draft)
    decision = decide(asleep, 0, woken, History(), 0.0, draft)
    assert decision.replicas == 3
    note_rescale(asleep, 0, decision, draft)
    [zero] = [one for one in draft.conditions if one.type == "ScaledToZero"]
    assert (zero.status, zero.reason) == ("False", "NotScaledToZero")


def test_a_change_is_explained_by_the_metric_that_asked_for_most() -> None:
    draft = Draft((), NOW)
    both = autoscaler(CPU, REQUESTS)
    wish = evaluate(both, [each(600), each(30_000)], target(), 2, draft)
    decision = decide(both, 2, wish, History(), 300.0, draft)
    assert (decision.replicas, decision.reason) == (4, "pods metric requests above target")
    note_rescale(both, 2, decision, draft)
    assert draft.events[-1] == ("Normal", "SuccessfulRescale", "New size: 4; reason: pods metric requests above target")
    shown = {one.type: (one.status, one.reason) for one in draft.conditions}
    assert shown == {
        "ScalingActive": ("True", "ValidMetricFound"),
        "AbleToScale": ("True", "SucceededRescale"),
        "ScalingLimited": ("True", "ScaleUpLimit"),
    }


def test_tolerances_of_the_behaviour_win() -> None:
    rules = autoscaling_v2.HPAScalingRules(tolerance="50m")
    own = autoscaler(CPU, behavior=autoscaling_v2.HorizontalPodAutoscalerBehavior(scale_up=rules))
    assert tolerances(own, 0.1) == Tolerances(0.05, 0.1)
    assert tolerances(autoscaler(CPU), 0.2) == Tolerances(0.2, 0.2)


def test_selectors_in_names_of_metrics_are_printed_as_go_does() -> None:
    expression = meta_v1.LabelSelectorRequirement(key="env", operator="In", values=("a", "b"))
    selector = meta_v1.LabelSelector(match_labels={"q": "jobs"}, match_expressions=(expression,))
    assert show_selector(selector) == (
        "&LabelSelector{MatchLabels:map[string]string{q: jobs,},MatchExpressions:[]LabelSelectorRequirement{"
        "LabelSelectorRequirement{Key:env,Operator:In,Values:[a b],},},}"
    )


def test_pods_whose_figures_are_incomplete_are_left_out() -> None:
    class Figures(msgspec.Struct):
        name: str
        usage: dict[str, str]

    class Named(msgspec.Struct):
        name: str

    class Item(msgspec.Struct):
        metadata: Named
        containers: list[Figures]
        timestamp: str = CREATED
        window: str = "15s"

    whole = Item(Named("a"), [Figures("main", {"cpu": "100m"}), Figures("side", {"cpu": "20m"})])
    partial = Item(Named("b"), [Figures("main", {"cpu": "100m"}), Figures("side", {})])
    found = resource_metrics([whole, partial, Item(Named("c"), [])], "cpu", "default")
    assert found == {"a": PodMetric(120, parse_rfc3339(CREATED), 15.0)}
    assert resource_metrics([whole], "cpu", "default", "side")["a"].value == 20
    with pytest.raises(MetricsError, match="container other not present in metrics for pod default/a"):
        resource_metrics([whole], "cpu", "default", "other")
