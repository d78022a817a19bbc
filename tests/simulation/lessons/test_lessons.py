"""Every scenario plays, and says what happens."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

import msgspec
import pytest

from bayplan.simulation.lessons.code_places import locate
from bayplan.simulation.lessons.lesson import ORDER, CodePlace, LessonError, Sight, parse_lesson, read_lesson
from bayplan.simulation.lessons.player import Recording, matches, play
from bayplan.simulation.lessons.recorder import Change
from bayplan.simulation.lessons.tree_difference import FieldChange


@lru_cache
def recording(name: str) -> Recording:
    return play(name, read_lesson(name))


def state_after(recorded: Recording, title: str) -> dict[str, Change]:
    """The objects when a step has happened, by kind and name."""
    (step,) = [one for one in recorded.steps if one.title == title]
    objects: dict[str, Change] = {}
    for change in (*recorded.initial, *recorded.changes[: step.change + 1]):
        key = f"{change.kind} {change.name}"
        if change.state is None:
            objects.pop(key, None)
        else:
            objects[key] = change
    return objects


def pods_on(objects: dict[str, Change], app: str) -> list[str]:
    """The nodes of the pods of an application, in order; "" for pods that wait."""
    states = [one.state for one in objects.values() if one.kind == "Pod" and one.state]
    return sorted(one["node"] for one in states if one["app"] == app and one["place"] != "leaving")


@pytest.mark.parametrize("name", ORDER)
def test_every_step_happens_one_after_the_other(name: str) -> None:
    recorded = recording(name)
    places = [one.change for one in recorded.steps]
    assert places == sorted(places)
    assert places[-1] < len(recorded.changes)
    times = [one.at for one in recorded.changes]
    assert times == sorted(times)
    assert recorded.seconds == times[-1]


@pytest.mark.parametrize("name", ORDER)
def test_every_step_has_a_text_and_code_that_exists(name: str) -> None:
    for step in recording(name).steps:
        assert step.text.endswith((".", ")")), step.title
        assert step.code, step.title
        for one in step.code:
            assert one.source.lstrip("@").startswith(("def ", "async def ", "class ")), one
            assert one.symbol.rpartition(".")[2] in one.source.splitlines()[0]


def test_steps_say_which_field_they_are_about() -> None:
    fields = {one.title: one.field for one in recording("preemption").steps}
    assert fields["No node fits, so DefaultPreemption looks for victims"] == "status.nominatedNodeName"
    assert fields["The important pod is bound"] == "spec.nodeName"
    assert fields["Its replacement has to wait"] == ""


def test_the_list_has_every_file() -> None:
    directory = files("bayplan.simulation.lessons").joinpath("scenarios")
    assert {one.name.removesuffix(".yaml") for one in directory.iterdir()} == set(ORDER)


def test_a_scenario_is_the_same_each_time() -> None:
    again = play("taints", read_lesson("taints"))
    assert msgspec.json.encode(again) == msgspec.json.encode(recording("taints"))


def test_pods_are_where_the_texts_say() -> None:
    assert pods_on(state_after(recording("scheduling"), "Filters drop nodes, scores rank the rest"), "web") == [
        "node-3"
    ]
    apart = state_after(recording("affinity"), "The fourth has to wait")
    assert pods_on(apart, "web") == ["", "node-1", "node-2", "node-3"]
    assert pods_on(apart, "db") == pods_on(apart, "cache")
    even = state_after(recording("spreading"), "Two in each zone")
    assert pods_on(even, "web") == [f"node-{number}" for number in (1, 1, 2, 2, 3, 3)]
    waits = state_after(recording("spreading"), "The ninth waits")
    assert pods_on(waits, "web").count("") == 1
    assert pods_on(waits, "web").count("node-3") == 2
    full = state_after(recording("preemption"), "The important pod is bound")
    assert len(pods_on(full, "batch")) == 4
    assert pods_on(full, "batch").count("") == 1


def test_a_tainted_node_takes_no_pods_that_do_not_tolerate_it() -> None:
    before = pods_on(state_after(recording("taints"), "You taint node 1"), "web")
    after = pods_on(state_after(recording("taints"), "The scheduler passes node 1 by"), "web")
    assert after.count("node-1") == before.count("node-1")
    assert len(after) == len(before) + 3


def test_a_rollback_creates_no_replica_set() -> None:
    recorded = recording("rollout")
    made = [one for one in recorded.changes if (one.kind, one.verb) == ("ReplicaSet", "create")]
    assert len(made) == 1
    new = state_after(recorded, "All four are new").values()
    images = {one.state["image"] for one in new if one.kind == "Pod" and one.state and one.state["place"] == "ready"}
    assert "nginx:2" in images


def test_pods_of_a_silent_node_stay_for_five_minutes() -> None:
    steps = {one.title: one.at for one in recording("node-failure").steps}
    waited = steps["Five minutes later they are evicted"] - steps["The node is tainted"]
    assert waited == pytest.approx(300, abs=1)
    assert 50 <= steps["After 50 seconds the node counts as unknown"] <= 60
    assert len(pods_on(state_after(recording("node-failure"), "The old pod is gone"), "web")) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("title: [", "broken.yaml: "),
        ("title: x\nsummary: y\ngoal: z\nsteps: []\nnodess: 3", "nodess"),
        ("title: x", "summary"),
        ("title: x\nsummary: y\ngoal: z\nsteps: [{title: a, text: b, see: {kind: Pod, verb: made}}]", "made"),
    ],
)
def test_a_file_with_a_mistake_is_named(text: str, words: str) -> None:
    with pytest.raises(LessonError, match=words):
        parse_lesson(text, "broken")


def test_an_unknown_scenario_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(LessonError, match="list-watch, scheduling"):
        read_lesson("../settings")


def test_a_step_that_does_not_happen_fails_the_scenario() -> None:
    text = "title: x\nsummary: y\ngoal: z\nnodes: 1\nsteps: [{title: Never, text: b, see: {kind: Job, verb: create}}]"
    with pytest.raises(LessonError, match="'Never' does not happen"):
        play("broken", parse_lesson(text, "broken"))


def test_an_object_that_is_not_there_fails_the_scenario() -> None:
    act = 'do: {delete: {kind: Pod, name: "web-*"}}'
    text = f"title: x\nsummary: y\ngoal: z\nnodes: 1\nsteps: [{{title: a, text: b, {act}}}]"
    with pytest.raises(LessonError, match=r"there is no Pod web-\* yet"):
        play("broken", parse_lesson(text, "broken"))


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (CodePlace("scheduler/nothing.py", "x"), "there is no file scheduler/nothing.py"),
        (CodePlace("scheduler/cycle.py", "Cycle.nothing"), "has no Cycle.nothing"),
        (CodePlace("scheduler/cycle.py", "nothing"), "has no nothing"),
    ],
)
def test_code_that_is_not_there_is_an_error(place: CodePlace, words: str) -> None:
    with pytest.raises(LessonError, match=words):
        locate(place)


CHANGE = Change(
    at=0.0,
    revision=1,
    actor="scheduler",
    verb="update",
    kind="Pod",
    namespace="default",
    name="web-1",
    difference=[FieldChange("spec.containers[web].image", "a", "b")],
    state={"reason": "Scheduled"},
)


@pytest.mark.parametrize(
    ("fields", "fits"),
    [
        ({}, True),
        ({"verb": "create"}, False),
        ({"kind": "Node"}, False),
        ({"actor": "scheduler"}, True),
        ({"actor": "user"}, False),
        ({"name": "web-*"}, True),
        ({"name": "db-*"}, False),
        ({"path": "spec.containers[web].image"}, True),
        ({"path": "spec.*"}, True),
        ({"path": "status.*"}, False),
        ({"path": "spec.containers[w].image"}, False),
        ({"path": "spec.*", "value": "b"}, True),
        ({"path": "spec.*", "value": "a"}, False),
        ({"reason": "Scheduled"}, True),
        ({"reason": "Killing"}, False),
    ],
)
def test_a_sight_fits_a_change_if_all_that_is_given_fits(fields: dict[str, str], fits: bool) -> None:
    assert matches(msgspec.convert({"kind": "Pod", "verb": "update", **fields}, Sight), CHANGE) is fits


def test_a_step_without_a_sight_is_that_of_its_act_or_of_the_step_before() -> None:
    text = """
title: x
summary: y
goal: z
nodes: 1
steps:
- {title: Wait, text: b, do: {wait: 5}}
- {title: Cordon, text: b, do: {patch: {kind: Node, name: node-1, body: {spec: {unschedulable: true}}}}}
- {title: More, text: b}
"""
    recorded = play("plain", parse_lesson(text, "plain"))
    wait, cordon, more = recorded.steps
    assert wait.change == -1
    assert recorded.changes[cordon.change].difference[0].path == "spec.unschedulable"
    assert cordon.at >= 5
    assert (more.change, more.at, more.actor) == (cordon.change, cordon.at, "user")
