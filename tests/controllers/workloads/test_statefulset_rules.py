"""Plans for StatefulSets of any size. What plans of usual ones do is seen in tests/integration/statefulsets."""

from __future__ import annotations

import time

import pytest

from bayplan.api.types import apps_v1, core_v1, meta_v1
from bayplan.controllers.pods import POD_LABEL
from bayplan.controllers.workloads.statefulset_rules import Names, Plan, plan

NOW = 1_800_000_000.0
LARGEST = 2**31 - 1
NAMES = Names("old", "new")


def stateful_set(
    replicas: int, policy: str, start: int = 0, unavailable: int | str | None = None
) -> apps_v1.StatefulSet:
    rolling = apps_v1.RollingUpdateStatefulSetStrategy(max_unavailable=unavailable)
    return apps_v1.StatefulSet(
        metadata=meta_v1.ObjectMeta(name="s", namespace="default"),
        spec=apps_v1.StatefulSetSpec(
            replicas=replicas,
            pod_management_policy=policy,
            ordinals=apps_v1.StatefulSetOrdinals(start=start) if start else None,
            selector=meta_v1.LabelSelector(match_labels={"a": "b"}),
            template=core_v1.PodTemplateSpec(),
            update_strategy=apps_v1.StatefulSetUpdateStrategy(type="RollingUpdate", rolling_update=rolling),
        ),
    )


def pod(ordinal: int, phase: str = "Running", revision: str = "new") -> core_v1.Pod:
    ready = core_v1.PodCondition(type="Ready", status="True", last_transition_time="2026-01-01T00:00:00Z")
    return core_v1.Pod(
        metadata=meta_v1.ObjectMeta(name=f"s-{ordinal}", namespace="default", labels={POD_LABEL: revision}),
        status=core_v1.PodStatus(phase=phase, conditions=(ready,) if phase == "Running" else ()),
    )


def ordinals(made: Plan) -> list[int]:
    return [ordinal for ordinal, _ in made.create]


def deleted(made: Plan) -> list[str]:
    return [one.metadata.name for one in made.delete]


def test_an_ordered_set_of_any_size_makes_one_pod_at_a_time() -> None:
    one = stateful_set(LARGEST, "OrderedReady", start=3)
    started = time.process_time()
    assert ordinals(plan(one, NAMES, [], NOW)) == [3]
    assert ordinals(plan(one, NAMES, [pod(3), pod(4)], NOW)) == [5]
    assert ordinals(plan(one, NAMES, [pod(3), pod(5)], NOW)) == [4], "gaps first"
    assert ordinals(plan(one, NAMES, [pod(3), pod(4, "Pending")], NOW)) == [], "it waits for each"
    assert time.process_time() - started < 1


def test_a_parallel_set_of_any_size_makes_some_hundred_pods_at_a_time() -> None:
    one = stateful_set(LARGEST, "Parallel")
    started = time.process_time()
    made = plan(one, NAMES, [pod(1), pod(700, "Failed")], NOW)
    assert ordinals(made) == [0, *range(2, 501)]
    assert deleted(made) == ["s-700"], "pods far above are looked after, too"
    assert time.process_time() - started < 1


@pytest.mark.parametrize(("unavailable", "expected"), [(None, ["s-3"]), (2, ["s-3", "s-2"]), ("50%", ["s-3", "s-2"])])
def test_pods_that_are_missing_count_as_unavailable(unavailable: int | str | None, expected: list[str]) -> None:
    pods = [pod(ordinal, revision="old") for ordinal in range(4)]
    assert deleted(plan(stateful_set(4, "Parallel", unavailable=unavailable), NAMES, pods, NOW)) == expected
    one_missing = plan(stateful_set(5, "Parallel", unavailable=2), NAMES, pods, NOW)
    assert (ordinals(one_missing), deleted(one_missing)) == ([4], ["s-3"])
