"""Pod groups of other schedulers: how they are read, when their pods may be tried, and which status they get."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.types import meta_v1
from bayplan.api.types.core_v1 import Pod
from bayplan.scheduler.configuration.settings import load
from bayplan.scheduler.errors import SettingsError
from bayplan.scheduler.framework.custom_groups import CustomGroupsPlugin, GroupProgress, MalformedGroup
from bayplan.scheduler.library import place, typed
from bayplan.scheduler.profile import Profile
from bayplan.scheduler.snapshot.custom_groups import GroupQueue
from bayplan.scheduler.snapshot.snapshot import Snapshot
from tests.scheduler.objects import Tree, node, pod
from tests.scheduler.plugins.extra.cores import enabling, sorting

COSCHEDULING = sorting("Coscheduling", permitWaitingTimeSeconds=7)
VOLCANO = enabling("VolcanoPodGroups")
LABEL, ANNOTATION = "scheduling.x-k8s.io/pod-group", "scheduling.k8s.io/group-name"


def group(version: str, name: str, **spec: Any) -> Tree:
    return {
        "kind": "PodGroup",
        "apiVersion": version,
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def of_coscheduling(name: str, of: str, **fields: Any) -> Tree:
    return pod(name, labels={LABEL: of}, **fields)


def of_volcano(name: str, of: str, **fields: Any) -> Tree:
    tree = pod(name, **fields)
    tree["metadata"]["annotations"] = {ANNOTATION: of}
    return tree


def plugin(config: Tree) -> CustomGroupsPlugin:
    profile = Profile(load(config).profiles[0], Snapshot())
    return next(one for one in profile.pre_enqueue if isinstance(one, CustomGroupsPlugin))


@pytest.mark.parametrize(
    ("config", "version", "member"),
    [
        (COSCHEDULING, "scheduling.x-k8s.io/v1alpha1", of_coscheduling),
        (VOLCANO, "scheduling.volcano.sh/v1beta1", of_volcano),
    ],
)
def test_all_of_a_group_or_nothing_in_the_library(config: Tree, version: str, member: Any) -> None:
    objects = [node("a"), node("b"), group(version, "two", minMember=2), group(version, "three", minMember=3)]
    pods = [
        member(f"{size}-{index}", size, cpu="3") for size in ("three", "two") for index in range(len(size) // 2 + 1)
    ]
    run = place(objects, pods, config)
    assert {one.pod for one in run.attempts if one.decision.scheduled} == {"default/two-0", "default/two-1"}
    plain = place(objects, pods)
    assert sum(one.decision.scheduled for one in plain.attempts) == 2
    assert {one.pod for one in plain.attempts if one.decision.scheduled} != {"default/two-0", "default/two-1"}


def test_a_pod_whose_group_is_not_there_waits() -> None:
    run = place([node("a")], [of_coscheduling("p", "g"), pod("q")], COSCHEDULING)
    assert [(one.pod, one.decision.scheduled) for one in run.attempts] == [("default/p", False), ("default/q", True)]


def read(config: Tree, spec: Any, status: Tree | None = None) -> Any:
    metadata = meta_v1.ObjectMeta(name="g", namespace="default", uid="u", resource_version="5")
    return plugin(config).read_group(metadata, {"spec": spec, "status": status or {}})


def test_what_a_group_says() -> None:
    found = read(COSCHEDULING, {"minMember": 3, "minResources": {"cpu": "1500m", "memory": "1Ki"}})
    assert (found.min_count, found.own_name, found.metadata.name) == (3, "g", "scheduling.x-k8s.io/g")
    assert found.min_resources == {"cpu": 1500, "memory": 1024}
    assert (found.permit_seconds, found.queue) == (7.0, "")
    assert read(COSCHEDULING, {"scheduleTimeoutSeconds": 9}).permit_seconds == 9.0
    assert read(VOLCANO, {"minMember": 1, "queue": "q"}).queue == "q"
    assert read(VOLCANO, {}).queue == "default"


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ([], None),
        ("all", "spec: must be an object"),
        ({"minMember": -1}, "spec.minMember: -1 must be a whole number"),
        ({"minMember": True}, "spec.minMember: True must be a whole number"),
        ({"minResources": "much"}, "spec.minResources: must be an object"),
        ({"minResources": {"cpu": "much"}}, "spec.minResources.cpu: 'much' must be a quantity"),
        ({"scheduleTimeoutSeconds": "1s"}, "spec.scheduleTimeoutSeconds: '1s' must be a whole number"),
    ],
)
def test_what_a_group_may_not_say(spec: Any, told: str | None) -> None:
    if told is None:
        assert read(COSCHEDULING, spec).min_count == 0
        return
    with pytest.raises(MalformedGroup, match=told.partition(" ")[0].replace(".", r"\.")):
        read(COSCHEDULING, spec)


@pytest.mark.parametrize("field", ["permitWaitingTimeSeconds", "podGroupBackoffSeconds"])
def test_arguments_of_coscheduling_that_are_refused(field: str) -> None:
    with pytest.raises(SettingsError, match=f"{field}: Invalid value: -1"):
        load(sorting("Coscheduling", **{field: -1}))


def test_what_a_queue_says() -> None:
    volcano = plugin(VOLCANO)
    metadata = meta_v1.ObjectMeta(name="q")
    assert volcano.read_queue(metadata, {}) == GroupQueue("q")
    closing = {"spec": {"capability": {"cpu": 2}}, "status": {"state": "Closing"}}
    assert volcano.read_queue(metadata, closing) == GroupQueue("q", False, {"cpu": 2000})


def test_a_closed_queue_holds_its_groups_back() -> None:
    volcano = plugin(VOLCANO)
    found = read(VOLCANO, {"minMember": 1, "queue": "q"})
    assert volcano.refusal(found) == "", "nothing is known of queues"
    volcano.snapshot.catalog.put_queue("q", GroupQueue("q", is_open=False))
    assert volcano.refusal(found) == 'queue "q" is closed'
    volcano.snapshot.catalog.put_queue("q", GroupQueue("q"))
    assert volcano.refusal(found) == ""
    assert volcano.refusal(read(VOLCANO, {})) == "", "the default queue need not exist"


# Status


def pods(*phases: str) -> list[Pod]:
    return [typed("Pod", {"metadata": {"name": str(i)}, "status": {"phase": one}}) for i, one in enumerate(phases)]


def status(config: Tree, phases: tuple[str, ...], placed: int, before: Tree, refusal: str = "") -> Tree:
    found = read(config, {"minMember": 2}, before)
    progress = GroupProgress(pods(*phases), placed, refusal, "2026-01-01T00:00:00Z", "id")
    return plugin(config).status_of(found, progress)


@pytest.mark.parametrize(
    ("phases", "phase"),
    [
        ((), "Pending"),
        (("Pending",), "Pending"),
        (("Pending", "Pending"), "Scheduling"),
        (("Running", "Pending"), "Scheduling"),
        (("Running", "Running"), "Running"),
        (("Running", "Succeeded"), "Running"),
        (("Failed", "Pending"), "Scheduling"),
        (("Failed", "Running"), "Failed"),
        (("Succeeded", "Succeeded", "Running"), "Finished"),
        (("Succeeded", "Succeeded", "Failed"), "Finished"),
    ],
)
def test_phases_of_coscheduling(phases: tuple[str, ...], phase: str) -> None:
    found = status(COSCHEDULING, phases, 0, {})
    assert found["phase"] == phase
    assert found["failed"] == phases.count("Failed")
    assert ("scheduleStartTime" in found) == (phase != "Pending")


def test_what_has_ended_stays_ended() -> None:
    ended = {"phase": "Failed", "failed": 1}
    assert status(COSCHEDULING, ("Running", "Running"), 2, ended) == ended


@pytest.mark.parametrize(
    ("phases", "placed", "refusal", "before", "phase"),
    [
        ((), 0, "", "", "Inqueue"),
        ((), 0, "no room", "", "Pending"),
        (("Pending", "Pending"), 0, "no room", "Inqueue", "Inqueue"),
        (("Pending", "Pending"), 2, "", "Inqueue", "Running"),
        (("Pending", "Pending", "Pending"), 3, "", "Inqueue", "Running"),
        (("Running", "Pending"), 1, "no room", "Running", "Unknown"),
        (("Running", "Succeeded"), 1, "", "Running", "Running"),
        (("Succeeded", "Succeeded"), 0, "", "Running", "Completed"),
        (("Succeeded", "Failed"), 0, "", "Running", "Running"),
    ],
)
def test_phases_of_volcano(phases: tuple[str, ...], placed: int, refusal: str, before: str, phase: str) -> None:
    assert status(VOLCANO, phases, placed, {"phase": before}, refusal)["phase"] == phase


def test_conditions_of_volcano_change_when_what_they_say_does() -> None:
    first = status(VOLCANO, (), 0, {}, "no room")
    assert [(one["type"], one["reason"], one["message"]) for one in first["conditions"]] == [
        ("Unschedulable", "NotEnoughResources", "no room")
    ]
    first["conditions"][0]["transitionID"] = "before"
    assert status(VOLCANO, (), 0, first, "no room") == first
    other = {"type": "Other", "status": "True"}
    second = status(VOLCANO, ("Running", "Running"), 2, first | {"conditions": [other, *first["conditions"]]})
    assert [one["type"] for one in second["conditions"]] == ["Other", "Scheduled"]
