"""The arithmetic of deployments."""

from __future__ import annotations

import pytest

from bayplan.api.types import apps_v1, core_v1, meta_v1
from bayplan.controllers import deployment_rules as rules
from bayplan.controllers.base import condition_of

NOW = 1_800_000_000.0


def deployment(
    replicas: int = 10, surge: int | str = "25%", unavailable: int | str = "25%", **spec: object
) -> apps_v1.Deployment:
    rolling = apps_v1.RollingUpdateDeployment(max_surge=surge, max_unavailable=unavailable)
    strategy = apps_v1.DeploymentStrategy(type="RollingUpdate", rolling_update=rolling)
    made = apps_v1.Deployment(metadata=meta_v1.ObjectMeta(name="web", generation=1))
    made.spec = apps_v1.DeploymentSpec(replicas=replicas, strategy=strategy, progress_deadline_seconds=600, **spec)  # type: ignore[arg-type]
    return made


def replica_set(
    name: str, replicas: int, available: int | None = None, *, created: int = 0, **annotations: str
) -> apps_v1.ReplicaSet:
    metadata = meta_v1.ObjectMeta(
        name=name, creation_timestamp=f"2026-01-01T00:00:{created:02d}Z", annotations=annotations
    )
    count = replicas if available is None else available
    status = apps_v1.ReplicaSetStatus(replicas=replicas, ready_replicas=count, available_replicas=count)
    return apps_v1.ReplicaSet(metadata=metadata, spec=apps_v1.ReplicaSetSpec(replicas=replicas), status=status)


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        pytest.param(10, "25%", "25%", (3, 2), id="surge rounds up, unavailable rounds down"),
        pytest.param(1, "25%", "25%", (1, 0), id="a single pod is replaced by a second one"),
        pytest.param(4, 0, 0, (0, 1), id="both zero would never get on, so one may be missing"),
        pytest.param(2, 5, 5, (5, 2), id="not more can be missing than there are"),
        pytest.param(0, "25%", "25%", (0, 1), id="nothing wanted"),
    ],
)
def test_bounds(replicas: int, surge: int | str, unavailable: int | str, expected: tuple[int, int]) -> None:
    assert rules.bounds(deployment(replicas, surge, unavailable)) == expected


def test_recreate_has_no_bounds() -> None:
    made = deployment()
    made.spec.strategy = apps_v1.DeploymentStrategy(type="Recreate")
    assert rules.bounds(made) == (0, 0)


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        pytest.param(0, 10, 3, id="the first step goes up by the surge"),
        pytest.param(3, 10, 3, id="no room until old pods have gone"),
        pytest.param(3, 8, 5, id="room that old pods left is taken"),
        pytest.param(5, 0, 10, id="the rest at once when nothing old is left"),
        pytest.param(12, 0, 10, id="too many are taken back"),
    ],
)
def test_how_far_the_new_replica_set_goes_up(new: int, old: int, expected: int) -> None:
    sets = [replica_set("new", new), replica_set("old", old)]
    assert rules.new_size(deployment(), sets, sets[0]) == expected


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        pytest.param((3, 3), [(10, 10)], {"old-0": 5}, id="as many as availability allows"),
        pytest.param((3, 0), [(10, 10)], {"old-0": 8}, id="new pods that are not available do not count"),
        pytest.param((3, 3), [(5, 0), (5, 5)], {"old-0": 0}, id="pods that are not available anyway go first"),
        pytest.param((0, 0), [(8, 8)], {}, id="nothing goes at the lowest allowed number"),
        pytest.param((8, 8), [(1, 1), (1, 1)], {"old-0": 0, "old-1": 0}, id="the last old ones go together"),
    ],
)
def test_how_far_old_replica_sets_go_down(
    new: tuple[int, int], old: list[tuple[int, int]], expected: dict[str, int]
) -> None:
    sets = [replica_set(f"old-{number}", *counts, created=number) for number, counts in enumerate(old)]
    assert rules.old_sizes(deployment(), replica_set("new", *new, created=30), sets) == expected


def test_scaling_in_the_middle_of_a_rollout_keeps_the_shares() -> None:
    made = deployment(20)
    sets = [replica_set(name, count, **{rules.MAX: "13"}) for name, count in (("old", 8), ("new", 5))]
    sizes = rules.proportional_sizes(made, sets)
    assert sum(sizes.values()) == 20 + 5, "the wanted number and the surge"
    assert sizes["old"] > sizes["new"] > 5


def test_the_hash_follows_the_template_and_the_collisions() -> None:
    template = core_v1.PodTemplateSpec(spec=core_v1.PodSpec(containers=(core_v1.Container(name="c", image="a"),)))
    other = core_v1.PodTemplateSpec(spec=core_v1.PodSpec(containers=(core_v1.Container(name="c", image="b"),)))
    assert rules.template_hash(template, None) == rules.template_hash(template, None)
    assert (
        len({rules.template_hash(template, None), rules.template_hash(template, 1), rules.template_hash(other, None)})
        == 3
    )


def test_the_hash_label_does_not_make_a_template_another_one() -> None:
    plain = core_v1.PodTemplateSpec(metadata=meta_v1.ObjectMeta(labels={"app": "web"}))
    hashed = core_v1.PodTemplateSpec(metadata=meta_v1.ObjectMeta(labels={"app": "web", rules.HASH_LABEL: "x"}))
    assert rules.same_template(plain, hashed)
    assert not rules.same_template(plain, core_v1.PodTemplateSpec(metadata=meta_v1.ObjectMeta(labels={"app": "api"})))


class TestProgress:
    def status(
        self, made: apps_v1.Deployment, new: apps_v1.ReplicaSet, *old: apps_v1.ReplicaSet, now: float = NOW
    ) -> tuple[str, str, float]:
        status = rules.status_of(made, [new, *old], new, now, None)
        status, wait = rules.with_progress(made, status, new, now)
        made.status = status
        progressing = condition_of(status.conditions, "Progressing")
        assert progressing is not None
        return progressing.status, progressing.reason, wait

    def test_a_rollout_that_gets_on_is_progressing(self) -> None:
        assert self.status(deployment(), replica_set("new", 3, 0), replica_set("old", 8)) == (
            "True",
            "ReplicaSetUpdated",
            600.0,
        )

    def test_a_finished_rollout_is_available(self) -> None:
        assert self.status(deployment(), replica_set("new", 10)) == ("True", "NewReplicaSetAvailable", 0.0)

    def test_a_rollout_that_stands_still_exceeds_its_deadline(self) -> None:
        made, new, old = deployment(), replica_set("new", 3, 0), replica_set("old", 8)
        self.status(made, new, old)
        _, reason, wait = self.status(made, new, old, now=NOW + 300)
        assert reason == "ReplicaSetUpdated"
        assert wait == pytest.approx(300, abs=1)
        assert self.status(made, new, old, now=NOW + 601)[:2] == ("False", "ProgressDeadlineExceeded")

    def test_a_paused_rollout_has_no_deadline(self) -> None:
        made = deployment(paused=True)
        status = rules.status_of(made, [replica_set("new", 3, 0)], None, NOW, None)
        assert rules.with_progress(made, status, None, NOW)[1] == 0.0

    def test_availability_counts_what_may_be_missing(self) -> None:
        made = deployment(10)
        for available, expected in ((8, "True"), (7, "False")):
            status = rules.status_of(made, [replica_set("new", 10, available)], None, NOW, None)
            condition = condition_of(status.conditions, "Available")
            assert condition is not None
            assert condition.status == expected
