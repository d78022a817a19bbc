"""The arithmetic of deployments."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.types import apps_v1
from bayplan.controllers.workloads import deployment_rules as rules
from bayplan.support.timestamps import parse_rfc3339
from bayplan.testing.builders import (
    CREATED,
    RECREATE,
    changed,
    deployment,
    pod,
    pod_status,
    replica_set,
    rolling,
    template,
)

NOW = parse_rfc3339(CREATED)


def a_set(
    name: str,
    replicas: int,
    available: int | None = None,
    *,
    revision: int = 0,
    maximum: int = 0,
    age: int = 0,
    **meta: Any,
) -> apps_v1.ReplicaSet:
    """A ReplicaSet of the deployment `web`; a higher `age` is older."""
    annotations = {}
    if revision:
        annotations[rules.REVISION] = str(revision)
    if maximum:
        annotations[rules.MAX] = str(maximum)
    meta = {"annotations": annotations, "uid": f"{name}-uid", "created": f"2026-01-02T03:{59 - age:02d}:00Z", **meta}
    return replica_set(
        name, replicas, labels={"app": "web"}, meta=meta, available=replicas if available is None else available
    )


@pytest.mark.parametrize(
    ("replicas", "strategy", "expected"),
    [
        pytest.param(10, rolling("25%", "25%"), (3, 2), id="surge is rounded up and unavailability down"),
        pytest.param(4, rolling(1, 0), (1, 0), id="numbers are taken as they are"),
        pytest.param(1, rolling("25%", "25%"), (1, 0), id="one replica is replaced without a gap"),
        pytest.param(3, rolling(0, "10%"), (0, 1), id="something must be allowed to move"),
        pytest.param(3, rolling(0, 0), (0, 1), id="two zeros mean one at a time"),
        pytest.param(3, rolling("200%", 9), (6, 3), id="not more than all can be missing"),
        pytest.param(0, rolling(0, "25%"), (0, 0), id="nothing can be missing of nothing"),
        pytest.param(5, RECREATE, (0, 0), id="recreating knows no bounds"),
    ],
)
def test_bounds(replicas: int, strategy: apps_v1.DeploymentStrategy, expected: tuple[int, int]) -> None:
    assert rules.bounds(deployment("web", replicas, strategy=strategy)) == expected


@pytest.mark.parametrize(
    ("replicas", "strategy", "old", "new", "expected"),
    [
        pytest.param(10, rolling("30%", 0), 10, 0, 3, id="the new set starts with the surge"),
        pytest.param(10, rolling(3, 0), 8, 3, 5, id="it takes the room that old pods left"),
        pytest.param(10, rolling(3, 0), 10, 3, 3, id="without room it waits"),
        pytest.param(10, rolling(0, 5), 10, 0, 0, id="without surge old pods go first"),
        pytest.param(4, rolling(3, 0), 0, 3, 4, id="it never exceeds the wanted number"),
        pytest.param(4, rolling(), 0, 6, 4, id="it shrinks at once"),
        pytest.param(4, RECREATE, 0, 0, 4, id="recreating goes all the way"),
    ],
)
def test_size_of_the_new_set(
    replicas: int, strategy: apps_v1.DeploymentStrategy, old: int, new: int, expected: int
) -> None:
    current = a_set("new", new)
    assert (
        rules.new_size(deployment("web", replicas, strategy=strategy), [a_set("old", old, age=5), current], current)
        == expected
    )


@pytest.mark.parametrize(
    ("replicas", "strategy", "new", "old", "expected"),
    [
        pytest.param(
            10, rolling(0, "20%"), (0, 0), [(10, 10)], {"old0": 8}, id="old pods go as far as availability allows"
        ),
        pytest.param(10, rolling(2, 0), (2, 0), [(10, 10)], {}, id="nothing goes before the new pods are available"),
        pytest.param(10, rolling(2, 0), (2, 1), [(10, 10)], {"old0": 9}, id="one goes for each that became available"),
        pytest.param(10, rolling(2, 2), (4, 0), [(8, 8)], {}, id="unavailable new pods count as missing"),
        pytest.param(10, rolling(2, 2), (0, 0), [(10, 8)], {"old0": 8}, id="pods that are not available go first"),
        pytest.param(
            4, rolling(1, 1), (2, 2), [(2, 0), (1, 1)], {"old0": 0}, id="broken pods of the oldest set go without loss"
        ),
        pytest.param(
            4, rolling(2, 0), (4, 4), [(1, 1), (1, 1)], {"old0": 0, "old1": 0}, id="at the end all old ones go"
        ),
        pytest.param(4, rolling(2, 0), (2, 2), [(2, 2), (1, 1)], {"old0": 1}, id="the oldest set goes first"),
        pytest.param(
            6,
            rolling(2, 1),
            (2, 2),
            [(5, 6)],
            {"old0": 3},
            id="a pod that is still counted but about to go is no reserve",
        ),
    ],
)
def test_sizes_of_old_sets(
    replicas: int,
    strategy: apps_v1.DeploymentStrategy,
    new: tuple[int, int],
    old: list[tuple[int, int]],
    expected: dict[str, int],
) -> None:
    olds = [a_set(f"old{number}", size, ready, age=9 - number) for number, (size, ready) in enumerate(old)]
    assert rules.old_sizes(deployment("web", replicas, strategy=strategy), a_set("new", *new), olds) == expected


@pytest.mark.parametrize(
    ("replicas", "surge", "sizes", "maximum", "expected"),
    [
        pytest.param(15, 3, {"old": 8, "new": 5}, 13, {"old": 11, "new": 7}, id="both grow in proportion"),
        pytest.param(5, 3, {"old": 8, "new": 5}, 13, {"old": 5, "new": 3}, id="both shrink in proportion"),
        pytest.param(0, 3, {"old": 8, "new": 5}, 13, {"old": 0, "new": 0}, id="all go at zero"),
        pytest.param(6, 0, {"old": 2, "new": 2}, 4, {"old": 3, "new": 3}, id="equal sets grow equally"),
        pytest.param(
            5, 0, {"old": 2, "new": 2}, 4, {"old": 2, "new": 3}, id="of equal sets the newer gets the odd one"
        ),
        pytest.param(
            3, 0, {"old": 2, "new": 2}, 4, {"old": 1, "new": 2}, id="of equal sets the older loses the odd one"
        ),
        pytest.param(10, 0, {"old": 10}, 10, {"old": 10}, id="nothing changes without a difference"),
    ],
)
def test_proportional_scaling(
    replicas: int, surge: int, sizes: dict[str, int], maximum: int, expected: dict[str, int]
) -> None:
    one = deployment("web", replicas, strategy=rolling(surge, 0 if surge else 1))
    sets = [a_set(name, size, maximum=maximum, age=5 if name == "old" else 0) for name, size in sizes.items()]
    assert rules.proportional_sizes(one, sets) == expected


@given(
    st.integers(0, 60),
    st.integers(0, 20),
    st.lists(st.integers(1, 30), min_size=2, max_size=5),
    st.integers(0, 20),
)
def test_proportional_scaling_fills_exactly_the_allowed_room(
    wanted: int, surge: int, sizes: list[int], extra: int
) -> None:
    one = deployment("web", wanted, strategy=rolling(surge, 1))
    sets = [a_set(f"s{n}", size, maximum=sum(sizes) + extra, age=n) for n, size in enumerate(sizes)]
    result = rules.proportional_sizes(one, sets)
    assert all(size >= 0 for size in result.values())
    assert sum(result.values()) == (wanted + surge if wanted else 0)


class TestTemplates:
    def test_equal_templates_have_equal_hashes(self) -> None:
        assert rules.template_hash(template({"a": "b"}), None) == rules.template_hash(template({"a": "b"}), None)

    def test_another_image_and_a_collision_give_other_hashes(self) -> None:
        first = template({"a": "b"})
        texts = {
            rules.template_hash(first, None),
            rules.template_hash(first, 1),
            rules.template_hash(first, 2),
            rules.template_hash(template({"a": "b"}, image="app:2"), None),
        }
        assert len(texts) == 4
        assert all(len(text) == 10 and set(text) <= set("bcdfghjklmnpqrstvwxz2456789") for text in texts)

    def test_the_hash_label_does_not_make_a_difference(self) -> None:
        assert rules.same_template(template({"a": "b", rules.HASH_LABEL: "x"}), template({"a": "b"}))
        assert not rules.same_template(template({"a": "b"}), template({"a": "c"}))

    def test_the_oldest_set_of_the_template_is_the_new_one(self) -> None:
        one = deployment("web", pod_meta={"annotations": {"v": "2"}})
        young, old = a_set("young", 1, age=1), a_set("old", 1, age=9)
        for each in (young, old):
            each.spec.template = one.spec.template
        assert rules.find_new(one, [young, a_set("foreign", 1, age=20), old]) is old
        assert rules.find_new(one, [a_set("foreign", 1)]) is None


class TestHistory:
    def test_revisions_that_are_no_numbers_count_as_zero(self) -> None:
        assert rules.revision_of(a_set("a", 0, revision=7)) == 7
        assert rules.revision_of(replica_set("a", meta={"annotations": {rules.REVISION: "x"}})) == 0

    def test_former_revisions_are_kept_up_to_2000_characters(self) -> None:
        assert rules.with_history("", "1") == "1"
        assert rules.with_history("1,3", "5") == "1,3,5"
        text = ",".join(str(number) for number in range(1000, 1400))
        longer = rules.with_history(text, "1400")
        assert len(longer) <= 2000
        assert longer.endswith("1399,1400")

    @pytest.mark.parametrize(
        ("limit", "sets", "expected"),
        [
            pytest.param(
                1, [a_set("a", 0, revision=1), a_set("b", 0, revision=2)], ["a"], id="the oldest revision goes"
            ),
            pytest.param(0, [a_set("a", 0, revision=1)], ["a"], id="zero keeps nothing"),
            pytest.param(None, [a_set("a", 0, revision=1)], [], id="no limit keeps all"),
            pytest.param(0, [a_set("a", 2, revision=1)], [], id="a set with pods stays"),
            pytest.param(
                0, [a_set("a", 0, revision=1, generation=3)], [], id="a set that has not been looked at stays"
            ),
            pytest.param(
                1, [a_set("a", 2, revision=1), a_set("b", 0, revision=2)], [], id="sets with pods count as history"
            ),
            pytest.param(
                0, [a_set("a", 0, revision=1, deleted=CREATED)], [], id="a set on its way out is not deleted again"
            ),
        ],
    )
    def test_history_limit(self, limit: int | None, sets: list[apps_v1.ReplicaSet], expected: list[str]) -> None:
        found = rules.unneeded(deployment("web", revision_history_limit=limit), sets)
        assert [one.metadata.name for one in found] == expected


class TestScale:
    def test_the_only_active_set_takes_a_change_of_scale(self) -> None:
        active, new = a_set("active", 3, age=5), a_set("new", 0)
        assert rules.latest_or_only_active([active, new], new) is active

    def test_without_active_sets_the_new_one_does_else_the_latest(self) -> None:
        old, young, new = a_set("old", 0, age=9), a_set("young", 0, age=5), a_set("new", 0)
        assert rules.latest_or_only_active([old, young, new], new) is new
        assert rules.latest_or_only_active([old, young], None) is young
        assert rules.latest_or_only_active([], None) is None

    def test_several_active_sets_share(self) -> None:
        assert rules.latest_or_only_active([a_set("a", 1), a_set("b", 1)], None) is None


class TestStatus:
    def test_counts_and_availability(self) -> None:
        one = deployment("web", 4, strategy=rolling(1, 1), meta={"generation": 3})
        new, old = a_set("new", 2, 1), a_set("old", 3, 2)
        status = rules.status_of(one, [old, new], new, NOW, 2)
        assert (status.replicas, status.updated_replicas, status.ready_replicas, status.available_replicas) == (
            5,
            2,
            3,
            3,
        )
        assert (status.unavailable_replicas, status.observed_generation, status.collision_count) == (2, 3, 2)
        (available,) = status.conditions
        assert (available.type, available.status, available.reason) == ("Available", "True", "MinimumReplicasAvailable")

    def test_too_few_available_pods_show(self) -> None:
        new = a_set("new", 4, 2)
        status = rules.status_of(deployment("web", 4, strategy=rolling(1, 1)), [new], new, NOW, None)
        assert (status.conditions[0].status, status.conditions[0].reason) == ("False", "MinimumReplicasUnavailable")


def progress(before: apps_v1.DeploymentStatus, after: apps_v1.DeploymentStatus, now: float = NOW, **spec: Any) -> Any:
    """(status, reason, wait) of the condition Progressing."""
    spec = {"progress_deadline_seconds": 60, **spec}
    one = deployment("web", 3, status=before, **spec)
    status, wait = rules.with_progress(one, changed(after, conditions=before.conditions), a_set("web-1", 3), now)
    condition = next((each for each in status.conditions if each.type == "Progressing"), None)
    return (condition.status, condition.reason, wait) if condition is not None else (None, None, wait)


def counts(
    updated: int, replicas: int, available: int, *conditions: apps_v1.DeploymentCondition
) -> apps_v1.DeploymentStatus:
    return apps_v1.DeploymentStatus(
        updated_replicas=updated,
        replicas=replicas,
        ready_replicas=available,
        available_replicas=available,
        conditions=conditions,
    )


def condition(reason: str, status: str = "True", at: float = NOW) -> apps_v1.DeploymentCondition:
    return rules.progressing(status, reason, "", at)


class TestProgress:
    def test_new_pods_are_progress(self) -> None:
        assert progress(counts(0, 3, 3), counts(1, 4, 3)) == ("True", "ReplicaSetUpdated", 60)

    def test_available_pods_are_progress(self) -> None:
        assert progress(counts(3, 3, 1, condition("ReplicaSetUpdated")), counts(3, 3, 2)) == (
            "True",
            "ReplicaSetUpdated",
            60,
        )

    def test_everything_new_and_available_is_the_end(self) -> None:
        assert progress(counts(3, 3, 2, condition("ReplicaSetUpdated")), counts(3, 3, 3)) == (
            "True",
            "NewReplicaSetAvailable",
            0,
        )

    def test_standing_still_waits_for_the_deadline(self) -> None:
        still = counts(1, 4, 3, condition("ReplicaSetUpdated", at=NOW - 20))
        assert progress(still, still) == ("True", "ReplicaSetUpdated", 41)

    def test_standing_still_for_too_long_is_a_failure(self) -> None:
        still = counts(1, 4, 3, condition("ReplicaSetUpdated", at=NOW - 61))
        assert progress(still, still) == ("False", "ProgressDeadlineExceeded", 0)

    def test_a_failed_roll_out_stays_failed_until_something_moves(self) -> None:
        failed = counts(1, 4, 3, condition("ProgressDeadlineExceeded", "False", NOW - 5))
        assert progress(failed, failed) == ("False", "ProgressDeadlineExceeded", 0)
        assert progress(failed, counts(2, 4, 3)) == ("True", "ReplicaSetUpdated", 60)

    def test_a_roll_out_that_ended_long_ago_does_not_fail_the_next_one(self) -> None:
        done = counts(3, 3, 3, condition("NewReplicaSetAvailable", at=NOW - 10_000))
        assert progress(done, counts(0, 3, 3)) == ("True", "NewReplicaSetAvailable", 0)

    def test_a_lost_pod_after_the_end_is_not_a_new_roll_out(self) -> None:
        done = counts(3, 3, 3, condition("NewReplicaSetAvailable", at=NOW - 10_000))
        assert progress(done, counts(3, 3, 2)) == ("True", "NewReplicaSetAvailable", 0)

    def test_a_paused_deployment_is_not_judged(self) -> None:
        paused = counts(1, 4, 3, condition("DeploymentPaused", "Unknown", NOW - 1000))
        assert progress(paused, paused, paused=True) == ("Unknown", "DeploymentPaused", 0)

    @pytest.mark.parametrize("deadline", [None, rules.NO_DEADLINE])
    def test_without_deadline_there_is_no_condition(self, deadline: int | None) -> None:
        still = counts(1, 4, 3, condition("ReplicaSetUpdated", at=NOW - 1000))
        assert progress(still, still, progress_deadline_seconds=deadline) == (None, None, 0)


@pytest.mark.parametrize(
    ("counted", "phases", "waits"),
    [
        pytest.param(0, (), False, id="nothing is left"),
        pytest.param(1, (), True, id="the status still counts a pod"),
        pytest.param(0, ("Running",), True, id="a pod still runs"),
        pytest.param(0, ("Failed", "Succeeded"), False, id="pods that have ended do not count"),
    ],
)
def test_recreating_waits_for_old_pods(counted: int, phases: tuple[str, ...], waits: bool) -> None:
    old = changed(a_set("old", 0), status=apps_v1.ReplicaSetStatus(replicas=counted))
    pods = [pod(f"web-{index}", status=pod_status(phase)) for index, phase in enumerate(phases)]
    assert rules.may_run_old_pods([old], pods) is waits
