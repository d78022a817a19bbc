"""Gangs of which extenders have a say: asked about pod by pod, placed all or not at all."""

from __future__ import annotations

import json
from typing import Any

from bayplan.scheduler import place
from bayplan.scheduler.extenders.protocol import Answer, ExtenderError
from tests.scheduler.extenders.test_extenders import CACHED, Handler, Helper, attempt, extender, without
from tests.scheduler.gangs.test_gangs import group, member
from tests.scheduler.objects import Tree, node, pod
from tests.scheduler.test_core import Setup


def test_place_asks_extenders_about_every_pod_of_a_gang() -> None:
    helper = Helper(filter=without("a"), prioritize=lambda question: [{"Host": "c", "Score": 10}])
    config = {
        "extenders": [extender(filterVerb="filter", prioritizeVerb="prioritize", weight=1, nodeCacheCapable=True)]
    }
    objects = [*(node(name) for name in "abc"), group("g", 2)]
    run = place(objects, [member("p", "g"), member("q", "g")], config, ask=helper.answer)
    assert [attempt.decision.node for attempt in run.attempts] == ["c", "c"]
    assert [question["Pod"]["metadata"]["name"] for verb, question in helper.asked if verb == "filter"] == ["p", "q"]


def test_a_gang_that_an_extender_refuses_in_part_is_not_placed_in_part() -> None:
    helper = Helper(filter=lambda question: {"NodeNames": [] if question["Pod"]["metadata"]["name"] == "q" else ["a"]})
    objects = [node("a"), node("b"), group("g", 2)]
    run = place(objects, [member("p", "g"), member("q", "g")], {"extenders": [extender(**CACHED)]}, ask=helper.answer)
    assert [attempt.decision.node for attempt in run.attempts] == [None, None]


def gang_with(*extenders: Tree, nodes: str = "abc", **fields: Any) -> Setup:
    """A core with a gang of two, `p` and `q`, and its extenders."""
    setup = Setup({"extenders": list(extenders)})
    for name in nodes:
        setup.see("Node", node(name, cpu="1"))
    setup.see("PodGroup", group("g", 2))
    for name in "pq":
        setup.see("Pod", member(name, "g", **fields))
    return setup


def test_extenders_are_asked_about_every_pod_of_a_gang_in_one_cycle() -> None:
    helper = Helper(filter=without("a"), prioritize=lambda question: [{"Host": "c", "Score": 10}])
    setup = gang_with(extender(filterVerb="filter", prioritizeVerb="prioritize", weight=1, nodeCacheCapable=True))
    first = attempt(setup, helper)
    assert [question["Pod"]["metadata"]["name"] for verb, question in helper.asked if verb == "filter"] == ["p", "q"]
    second = attempt(setup, helper)
    assert (first.decision.node, second.decision.node) == ("c", "c")
    assert first.group is not None
    assert (first.group.scheduled, second.group) == (True, None)
    assert len(helper.asked) == 4


def test_pods_of_a_gang_that_extenders_do_not_care_for_are_placed_with_the_others() -> None:
    setup = gang_with(extender(**CACHED, managedResources=[{"name": "example.com/fpga"}]))
    helper = Helper()
    assert {attempt(setup, helper).decision.scheduled for _ in range(2)} == {True}
    assert helper.asked == []


def _refusing(name: str) -> Handler:
    """Lets a pod go to `a` only if it has another name."""
    return lambda question: {"NodeNames": [] if question["Pod"]["metadata"]["name"] == name else ["a"]}


def test_a_gang_that_an_extender_refuses_in_part_holds_nothing() -> None:
    helper = Helper(filter=_refusing("q"))
    setup = gang_with(extender(**CACHED))
    outcomes = [attempt(setup, helper) for _ in range(2)]
    assert {outcome.decision.node for outcome in outcomes} == {None}
    assert len(setup.core.snapshot.pods) == len(setup.core.waiting) == 0
    assert setup.core.queue.sizes()["unschedulable"] == 2


def test_a_gang_of_which_an_extender_fails_about_one_pod_is_not_placed() -> None:
    def fails_about_the_second(question: Tree) -> Answer:
        if question["Pod"]["metadata"]["name"] == "q":
            raise ExtenderError("connection refused")
        return {"NodeNames": ["a"]}

    setup = gang_with(extender(**CACHED))
    outcomes = [attempt(setup, Helper(filter=fails_about_the_second)) for _ in range(2)]
    other = "failed to schedule other pod from a pod group: connection refused"
    assert [outcome.decision.message for outcome in outcomes] == [other, "connection refused"]
    assert len(setup.core.snapshot.pods) == 0


def test_a_gang_that_is_given_up_between_two_questions_holds_nothing() -> None:
    setup = gang_with(extender(**CACHED))
    steps = setup.core.attempt()
    next(steps)
    (call,) = steps.send([{"NodeNames": ["a"]}])
    assert json.loads(call.body)["Pod"]["metadata"]["name"] == "q"
    assert list(setup.core.snapshot.pods) == ["default/p"]
    steps.close()
    assert len(setup.core.snapshot.pods) == len(setup.core.waiting) == 0


def test_a_gang_makes_room_only_where_an_extender_lets_it() -> None:
    question = {"filterVerb": "filter", "preemptVerb": "preempt", "nodeCacheCapable": True}
    allowed = Helper(
        filter=lambda question: {"NodeNames": question["NodeNames"]},
        preempt=lambda question: {"NodeNameToMetaVictims": question["NodeNameToMetaVictims"]},
    )
    forbidden = Helper(filter=allowed.verbs["filter"], preempt=lambda question: {"NodeNameToMetaVictims": {}})
    for helper, victims in ((allowed, 2), (forbidden, 0)):
        setup = gang_with(extender(**question), nodes="ab", cpu="700m", priority=10)
        for name in "ab":
            setup.see("Pod", pod(f"low-{name}", cpu="700m", on=name))
        found = [attempt(setup, helper) for _ in range(2)]
        assert sum(len(outcome.decision.victims) for outcome in found) == victims
        assert sorted(setup.core.snapshot.pods) == ["default/low-a", "default/low-b"]
