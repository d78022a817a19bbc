"""From what metrics ask for to what is done: stabilization windows, policies, minimum and maximum."""

from __future__ import annotations

import pytest

from bayplan.api.types import autoscaling_v2
from bayplan.api.types.autoscaling_v2 import HPAScalingPolicy as Policy
from bayplan.api.types.autoscaling_v2 import HPAScalingRules as Rules
from bayplan.controllers.autoscaling.hpa_behavior import History, Sample, Wish, normalize

NOW = 10_000.0


def behavior(up: Rules | None = None, down: Rules | None = None) -> autoscaling_v2.HorizontalPodAutoscalerBehavior:
    return autoscaling_v2.HorizontalPodAutoscalerBehavior(scale_up=up or Rules(), scale_down=down or Rules())


def pods(value: int, period: int = 60) -> Policy:
    return Policy(type="Pods", value=value, period_seconds=period)


def percent(value: int, period: int = 60) -> Policy:
    return Policy(type="Percent", value=value, period_seconds=period)


@pytest.mark.parametrize(
    ("current", "desired", "replicas", "limited", "reason"),
    [
        pytest.param(3, 4, 4, False, "DesiredWithinRange", id="within range"),
        pytest.param(1, 9, 4, True, "ScaleUpLimit", id="to four at once"),
        pytest.param(5, 30, 10, True, "ScaleUpLimit", id="twice as many at once"),
        pytest.param(8, 30, 12, True, "TooManyReplicas", id="not more than the maximum"),
        pytest.param(5, 0, 2, True, "TooFewReplicas", id="not less than the minimum"),
        pytest.param(5, 2, 2, False, "DesiredWithinRange", id="down to the minimum at once"),
    ],
)
def test_without_behaviour_growth_is_bounded_by_the_default_rate(
    current: int, desired: int, replicas: int, limited: bool, reason: str
) -> None:
    found = normalize(Wish(current, desired, 2, 12), None, History(), 300.0, NOW)
    assert (found.replicas, found.limited, found.limit.reason) == (replicas, limited, reason)


def test_without_behaviour_the_highest_recommendation_of_the_window_counts() -> None:
    history = History([Sample(9, NOW - 301), Sample(6, NOW - 299)])
    found = normalize(Wish(6, 2, 1, 20), None, history, 300.0, NOW)
    assert (found.replicas, found.able.reason) == (6, "ScaleDownStabilized")
    assert history.recommendations == [Sample(6, NOW - 299), Sample(2, NOW)]
    later = normalize(Wish(6, 2, 1, 20), None, history, 300.0, NOW + 2)
    assert (later.replicas, later.able.reason) == (2, "ReadyForNewScale")


@pytest.mark.parametrize(
    ("up", "replicas"),
    [
        pytest.param(Rules(), 20, id="by default the larger of doubling and four more"),
        pytest.param(Rules(policies=(pods(1),)), 11, id="one more"),
        pytest.param(Rules(policies=(percent(15),)), 12, id="percentages round up"),
        pytest.param(Rules(policies=(pods(3), percent(50))), 15, id="the largest by default"),
        pytest.param(Rules(policies=(pods(3), percent(50)), select_policy="Min"), 13, id="or the smallest"),
        pytest.param(Rules(select_policy="Disabled"), 10, id="or none at all"),
    ],
)
def test_policies_limit_growth(up: Rules, replicas: int) -> None:
    found = normalize(Wish(10, 40, 1, 50), behavior(up), History(), 300.0, NOW)
    assert (found.replicas, found.limited) == (replicas, True)
    assert found.limit.reason == "ScaleUpLimit"


@pytest.mark.parametrize(
    ("down", "replicas"),
    [
        pytest.param(Rules(), 1, id="by default all may go"),
        pytest.param(Rules(policies=(pods(3),)), 7, id="three less"),
        pytest.param(Rules(policies=(percent(25),)), 7, id="percentages round down"),
        pytest.param(Rules(policies=(pods(3), percent(50))), 5, id="the largest change by default"),
        pytest.param(Rules(policies=(pods(3), percent(50)), select_policy="Min"), 7, id="or the smallest"),
        pytest.param(Rules(select_policy="Disabled"), 10, id="or none at all"),
    ],
)
def test_policies_limit_shrinking(down: Rules, replicas: int) -> None:
    found = normalize(Wish(10, 1, 1, 50), behavior(down=down), History(), 0.0, NOW)
    assert found.replicas == replicas


def test_what_changed_within_the_period_counts_already() -> None:
    rules = behavior(Rules(policies=(pods(4),)), Rules(policies=(pods(2),)))
    history = History()

    def size(current: int, desired: int, now: float) -> int:
        fresh = History([], history.added, history.removed)
        return normalize(Wish(current, desired, 1, 50), rules, fresh, 0.0, now).replicas

    history.record_change(6, 9, rules, NOW - 30)
    assert size(9, 20, NOW) == 10
    assert size(9, 20, NOW + 31) == 13
    history.record_change(9, 8, rules, NOW)
    assert size(8, 1, NOW + 1) == 4, "what was added may go again"
    assert size(8, 1, NOW + 40) == 7
    history.record_change(8, 9, rules, NOW + 100)
    assert [one.replicas for one in history.added] == [1], "what no policy asks for is forgotten"


def test_windows_hold_both_directions_back() -> None:
    up = behavior(Rules(stabilization_window_seconds=60), Rules(stabilization_window_seconds=60))
    history = History([Sample(5, NOW - 30)])
    found = normalize(Wish(5, 9, 1, 50), up, history, 300.0, NOW)
    assert (found.replicas, found.able.reason) == (5, "ScaleUpStabilized")
    found = normalize(Wish(5, 2, 1, 50), up, history, 300.0, NOW + 1)
    assert (found.replicas, found.able.reason) == (5, "ScaleDownStabilized")
    assert found.able.message.startswith("recent recommendations were higher than current one")
    found = normalize(Wish(5, 9, 1, 50), up, History([Sample(5, NOW - 61)]), 300.0, NOW)
    assert (found.replicas, found.able.reason) == (9, "ReadyForNewScale")


def test_a_behaviour_without_a_window_uses_that_of_the_flag() -> None:
    history = History([Sample(8, NOW - 100)])
    assert normalize(Wish(8, 2, 1, 50), behavior(), history, 300.0, NOW).replicas == 8
    assert normalize(Wish(8, 2, 1, 50), behavior(), History([Sample(8, NOW - 100)]), 50.0, NOW).replicas == 2
