"""Vertical autoscaling: histograms that forget, recommendations with margin and confidence, and which pods are worth an update."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.types import core_v1
from bayplan.controllers.autoscaling.vpa_annotations import MODE, AnnotationError, mode_of, policies_of, render
from bayplan.controllers.autoscaling.vpa_histogram import Buckets, DecayingHistogram
from bayplan.controllers.autoscaling.vpa_rules import (
    DAY,
    Policy,
    Recommendation,
    Usage,
    is_due,
    is_quick_oom,
    may_evict,
    priority,
    recommend,
    resized,
)
from bayplan.testing.builders import container, pod

MIB = 2**20
DOUBLING = Buckets(1000.0, 10.0, 2.0)


def seen(days: float, cores: float = 0.2, memory: float = 400 * MIB) -> Usage:
    """A container that used the same all the time."""
    usage = Usage()
    for minute in range(int(days * 24 * 60) + 1):
        usage.add_cpu(cores, 0.1, minute * 60.0)
        usage.add_memory("p", memory, minute * 60.0)
    return usage


class TestHistogram:
    def test_buckets_double(self) -> None:
        assert [DOUBLING.find(value) for value in (0, 9.9, 10, 29.9, 30, 70, 1e9)] == [0, 0, 1, 1, 2, 3, 7]
        assert [DOUBLING.start(bucket) for bucket in range(4)] == [0, 10, 30, 70]

    def test_a_percentile_is_the_end_of_its_bucket(self) -> None:
        found = DecayingHistogram(DOUBLING, DAY)
        assert found.percentile(0.5) == 0.0
        for value in (5.0, 15.0, 40.0, 100.0):
            found.add(value, 1.0, 0.0)
        assert [found.percentile(part) for part in (0.0, 0.25, 0.5, 0.75, 1.0)] == [10, 10, 30, 70, 150]

    def test_what_is_a_half_life_old_weighs_half(self) -> None:
        found = DecayingHistogram(DOUBLING, DAY)
        found.add(5.0, 3.0, 0.0)
        found.add(40.0, 2.0, DAY)
        assert found.percentile(0.42) == 10.0, "3 of 3 + 4"
        assert found.percentile(0.44) == 70.0

    def test_old_weights_vanish_and_what_is_taken_away_was_never_there(self) -> None:
        found = DecayingHistogram(DOUBLING, DAY)
        found.add(5.0, 1.0, 0.0)
        found.add(40.0, 1.0, 101 * DAY)
        assert found.percentile(0.01) == 70.0
        found.add(40.0, -1.0, 101 * DAY)
        assert not found.weights

    @given(st.lists(st.floats(0.0, 500.0), min_size=1, max_size=30), st.floats(0.0, 1.0))
    def test_a_percentile_is_not_below_the_value_it_stands_for(self, values: list[float], part: float) -> None:
        found = DecayingHistogram(Buckets(1000.0, 0.01), DAY)
        for value in values:
            found.add(value, 1.0, 0.0)
        exact = sorted(values)[max(0, -(-int(part * len(values) * 1000) // 1000) - 1)]
        assert found.percentile(part) >= exact * 0.999


class TestRecommendation:
    def test_steady_usage_is_recommended_with_a_margin(self) -> None:
        [found] = recommend({"main": seen(8)}, {})
        assert 200 * 1.15 <= found.target["cpu"] <= (200 + 20) * 1.15, "the buckets there are 20 m wide"
        assert 400 * MIB * 1.15 <= found.target["memory"] <= 400 * MIB * 1.15 * 1.08
        assert found.lower["cpu"] <= found.target["cpu"] <= found.upper["cpu"]
        assert found.upper["cpu"] == pytest.approx(found.target["cpu"] * (1 + 1 / 8), rel=0.01)
        assert found.lower["cpu"] == pytest.approx(found.target["cpu"], rel=0.01)

    def test_bounds_are_wide_while_little_is_known(self) -> None:
        [young] = recommend({"main": seen(0.01)}, {})
        [old] = recommend({"main": seen(2)}, {})
        assert young.lower["cpu"] < old.lower["cpu"] < old.upper["cpu"] < young.upper["cpu"]
        [first] = recommend({"main": seen(0)}, {})
        assert (first.lower["cpu"], first.upper["cpu"]) == (25, 10**14)
        assert recommend({"main": Usage()}, {}) == []

    def test_a_pod_is_recommended_a_minimum_which_its_containers_share(self) -> None:
        both = recommend({"a": seen(1, 0.001, 1e6), "b": seen(1, 0.001, 1e6)}, {})
        assert [one.target for one in both] == [{"cpu": 12, "memory": 125 * MIB}] * 2
        [alone] = recommend({"a": seen(1, 0.001, 1e6)}, {})
        assert alone.to_dict()["target"] == {"cpu": "25m", "memory": "262144k"}

    def test_a_policy_caps_and_leaves_out(self) -> None:
        policy = Policy({"cpu": 500}, {"cpu": 800}, ("cpu",))
        [found] = recommend({"main": seen(1)}, {"main": policy})
        assert found.target == {"cpu": 500}
        assert found.uncapped["cpu"] < 500
        assert found.upper == {"cpu": 500}
        assert recommend({"main": seen(1)}, {"main": Policy(off=True)}) == []
        [capped] = recommend({"main": seen(1, cores=2.0)}, {"main": policy})
        assert capped.target == {"cpu": 800}

    def test_of_each_day_the_peak_of_memory_counts(self) -> None:
        usage = Usage()
        for hour, amount in enumerate((100, 900, 200)):
            usage.add_memory("p", amount * MIB, hour * 3600.0)
        assert sum(usage.memory.weights.values()) == pytest.approx(1.0)
        assert usage.memory.percentile(0.01) >= 900 * MIB

    def test_who_was_killed_for_want_of_memory_needs_more(self) -> None:
        usage = seen(1)
        usage.add_oom("p", 500 * MIB, DAY + 60)
        usage.add_cpu(0.2, 0.1, DAY + 60)
        [found] = recommend({"main": usage}, {})
        assert found.target["memory"] >= 600 * MIB * 1.15


class TestUpdates:
    ONE = Recommendation(
        "main", {"cpu": 300, "memory": 400}, {"cpu": 200, "memory": 300}, {}, {"cpu": 500, "memory": 600}
    )

    @pytest.mark.parametrize(
        ("requests", "age", "due"),
        [
            pytest.param({"cpu": "100m", "memory": "400"}, 60, True, id="below the lower bound"),
            pytest.param({"cpu": "900m", "memory": "400"}, 60, True, id="above the upper bound"),
            pytest.param({"memory": "400"}, 60, True, id="no request at all"),
            pytest.param({"cpu": "400m", "memory": "400"}, 60, False, id="within the bounds and young"),
            pytest.param({"cpu": "400m", "memory": "400"}, DAY, True, id="within the bounds and old"),
            pytest.param({"cpu": "310m", "memory": "400"}, DAY, False, id="old, but hardly different"),
            pytest.param({"cpu": "300m", "memory": "400"}, DAY, False, id="just right"),
        ],
    )
    def test_which_pods_are_updated(self, requests: dict[str, Any], age: float, due: bool) -> None:
        one = pod("web", containers=(container(resources=core_v1.ResourceRequirements(requests=requests)),))
        assert is_due(one, priority(one, [self.ONE]), age) is due

    def test_a_quick_death_for_want_of_memory_is_urgent(self) -> None:
        one = pod("web", cpu="400m", memory="400")
        assert is_quick_oom(0.0, 599.0)
        assert not is_quick_oom(0.0, 601.0)
        assert is_due(one, priority(one, [self.ONE]), 10.0, quick_oom=True)

    def test_limits_grow_in_proportion_or_stay(self) -> None:
        resources = core_v1.ResourceRequirements(
            requests={"cpu": "100m", "memory": "400"}, limits={"cpu": "200m", "memory": "800"}
        )
        one = container(resources=resources)
        found = resized(one, self.ONE, Policy())
        assert found is not None
        assert (found.requests, found.limits["cpu"], found.limits["memory"]) == (
            {"cpu": "300m", "memory": "400"},
            "600m",
            "800",
        )
        fixed = resized(one, self.ONE, Policy(requests_only=True))
        assert fixed is not None
        assert (fixed.requests["cpu"], fixed.limits["cpu"]) == ("200m", "200m")
        assert resized(container(cpu="300m", memory="400"), self.ONE, Policy()) is None

    @pytest.mark.parametrize(
        ("configured", "running", "evicted", "allowed"),
        [(1, 1, 0, False), (2, 2, 0, True), (2, 2, 1, False), (4, 4, 1, True), (4, 4, 2, False), (4, 3, 1, False)],
    )
    def test_at_most_half_of_the_pods_go_at_once(
        self, configured: int, running: int, evicted: int, allowed: bool
    ) -> None:
        assert may_evict(configured, running, evicted) is allowed


class TestAnnotations:
    def test_policies_are_read_for_all_and_for_one_container(self) -> None:
        found = policies_of(
            {
                "bayplan.dev/vertical-min": "cpu=50m,memory=64Mi",
                "bayplan.dev/vertical-max.side": "cpu=1",
                "bayplan.dev/vertical-values": "RequestsOnly",
                "bayplan.dev/vertical-mode.side": "Off",
                "bayplan.dev/vertical-resources.main": "cpu",
            },
            ("main", "side"),
        )
        least = {"cpu": 50, "memory": 64 * MIB}
        assert found["main"] == Policy(least, {}, ("cpu",), requests_only=True)
        assert found["side"] == Policy(least, {"cpu": 1000}, requests_only=True, off=True)

    @pytest.mark.parametrize(
        ("annotations", "message"),
        [
            ({MODE: "Sometimes"}, "'Sometimes' is not one of Off, Initial, Recreate, InPlaceOrRecreate"),
            ({"bayplan.dev/vertical-min": "cpu"}, "'cpu' is not of the form cpu=50m or memory=64Mi"),
            ({"bayplan.dev/vertical-max": "gpu=1"}, "'gpu=1' is not of the form"),
            ({"bayplan.dev/vertical-max": "cpu=many"}, "annotation bayplan.dev/vertical-max: "),
            ({"bayplan.dev/vertical-resources": "disk"}, "'disk' is not one of cpu, memory"),
            ({"bayplan.dev/vertical-values": "Both"}, "neither RequestsOnly nor RequestsAndLimits"),
            ({"bayplan.dev/vertical-mode.main": "On"}, "annotation bayplan.dev/vertical-mode.main: 'On'"),
        ],
    )
    def test_what_cannot_be_understood_is_named(self, annotations: dict[str, str], message: str) -> None:
        with pytest.raises(AnnotationError) as refused:
            policies_of(annotations, ("main",)) if mode_of(annotations) == "" else None
        assert message in str(refused.value)

    def test_the_recommendation_is_written_as_upstream_writes_it(self) -> None:
        [one] = json.loads(render([TestUpdates.ONE]))["containerRecommendations"]
        assert one["containerName"] == "main"
        assert one["target"] == {"cpu": "300m", "memory": "400"}
        assert sorted(one) == ["containerName", "lowerBound", "target", "uncappedTarget", "upperBound"]
