"""Rules that hold while a pod runs count as required and preferred ones when it is scheduled."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.feature_gates import AFFINITY_DURING_EXECUTION
from bayplan.api.pods.execution_rules import ANNOTATION
from bayplan.api.types import core_v1
from bayplan.scheduler import evaluate, place
from bayplan.scheduler.configuration.settings import load
from bayplan.scheduler.core import SchedulerCore
from bayplan.scheduler.questions.service import PlacementQuestions
from bayplan.support.clock import SystemClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SystemRandomness
from tests.scheduler.objects import Tree, node, pod

REQUIRED = "requiredDuringSchedulingRequiredDuringExecution"
PREFERRED = "preferredDuringSchedulingRequiredDuringExecution"
IGNORED = "requiredDuringSchedulingIgnoredDuringExecution"
NEAR = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}


def ruled(form: str, name: str = "new", labels: dict[str, str] | None = None, **affinity: Any) -> Tree:
    """A pod whose rules stand in the fields, or in the annotation."""
    if form == "fields":
        one = pod(name, affinity=affinity)
    else:
        one = pod(name)
        one["metadata"]["annotations"] = {ANNOTATION: json.dumps(affinity)}
    one["metadata"]["labels"] = labels or {}
    return one


def term(key: str, value: str) -> Tree:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}


def running(name: str, node_name: str, **labels: str) -> Tree:
    one = pod(name, nodeName=node_name)
    one["metadata"]["labels"] = labels
    return one


NODES = [node("a", labels={"zone": "x", "disk": "ssd"}), node("b", labels={"zone": "y", "disk": "hdd"})]
FORMS = pytest.mark.parametrize("form", ["fields", "annotation"])


@FORMS
@pytest.mark.parametrize(("disk", "expected"), [("ssd", "a"), ("hdd", "b"), ("tape", None)])
def test_a_required_node_rule_refuses_other_nodes(form: str, disk: str, expected: str | None) -> None:
    rules = {REQUIRED: {"nodeSelectorTerms": [term("disk", disk)]}}
    found = evaluate(NODES, ruled(form, nodeAffinity=rules))
    assert found.node == expected
    if expected is None:
        assert "2 node(s) didn't match Pod's node affinity/selector" in found.message


@FORMS
@pytest.mark.parametrize("disk", ["ssd", "hdd"])
def test_a_preferred_node_rule_makes_the_score(form: str, disk: str) -> None:
    rules = {PREFERRED: [{"weight": 100, "preference": term("disk", disk)}]}
    scores = evaluate(NODES, ruled(form, nodeAffinity=rules)).to_dict()["nodes"]
    best = {"ssd": "a", "hdd": "b"}[disk]
    assert {name: one["scores"]["NodeAffinity"] for name, one in scores.items()} == {
        name: 200 if name == best else 0 for name in ("a", "b")
    }


@FORMS
def test_required_pod_rules_choose_the_domain(form: str) -> None:
    objects = [*NODES, running("db", "b", app="db")]
    assert evaluate(objects, ruled(form, podAffinity={REQUIRED: [NEAR]})).node == "b"
    assert evaluate(objects, ruled(form, podAntiAffinity={REQUIRED: [NEAR]})).node == "a"


@FORMS
def test_preferred_pod_rules_make_the_score(form: str) -> None:
    objects = [*NODES, running("db", "b", app="db")]
    rules = {PREFERRED: [{"weight": 100, "podAffinityTerm": NEAR}]}
    assert evaluate(objects, ruled(form, podAffinity=rules)).node == "b"
    assert evaluate(objects, ruled(form, podAntiAffinity=rules)).node == "a"


@FORMS
def test_running_pods_keep_others_away(form: str) -> None:
    there = ruled(form, "old", podAntiAffinity={REQUIRED: [NEAR]})
    there["spec"]["nodeName"] = "b"
    new = pod("new")
    new["metadata"]["labels"] = {"app": "db"}
    assert evaluate([*NODES, there], new).node == "a"


@FORMS
def test_rules_of_both_kinds_have_to_hold(form: str) -> None:
    one = ruled(form, nodeAffinity={REQUIRED: {"nodeSelectorTerms": [term("disk", "ssd")]}})
    own = one["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    own[IGNORED] = {"nodeSelectorTerms": [term("zone", "y")]}
    assert evaluate(NODES, one).node is None
    own[IGNORED] = {"nodeSelectorTerms": [term("zone", "x")]}
    assert evaluate(NODES, one).node == "a"


def test_pods_with_and_without_the_annotation_do_not_share_what_was_computed() -> None:
    plain = pod("plain", nodeSelector={"disk": "hdd"})
    rules = {REQUIRED: {"nodeSelectorTerms": [term("disk", "ssd")]}}
    with_rules = ruled("annotation", "ruled", nodeAffinity=rules)
    with_rules["spec"] = plain["spec"]
    run = place(NODES, [plain, with_rules])
    assert [one.decision.node for one in run.attempts] == ["b", None]


def asked_about(form: str, gates: frozenset[str], *, template: bool = False) -> Tree:
    """The answer to a question about a pod whose rule allows nodes with disks of the kind `hdd`, or about a Deployment of it."""
    core = SchedulerCore(load(None, gates), SystemClock(), SystemRandomness())
    for one in NODES:
        core.handle("Node", None, from_tree(core_v1.Node, one))
    questions = PlacementQuestions(core, cast(Any, None), SystemClock(), Registry())
    questions.knows_the_cluster = True
    one = ruled(form, nodeAffinity={REQUIRED: {"nodeSelectorTerms": [term("disk", "hdd")]}})
    one["spec"]["nodeSelector"] = {"zone": "x"}
    if template:
        made = {"metadata": one["metadata"], "spec": one["spec"]}
        spec = {"selector": {}, "template": made}
        one = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    answer = asyncio.run(questions.answer(json.dumps(one).encode()))
    found: Tree = answer["pods"][0]
    return found


@FORMS
@pytest.mark.parametrize("template", [False, True], ids=["pod", "deployment"])
def test_questions_take_the_rules_as_the_scheduler_does(form: str, template: bool) -> None:
    found = asked_about(form, frozenset((AFFINITY_DURING_EXECUTION,)), template=template)
    assert not found["scheduled"]
    assert "didn't match Pod's node affinity/selector" in found["message"]


@pytest.mark.parametrize("template", [False, True], ids=["pod", "deployment"])
@pytest.mark.parametrize(("form", "expected"), [("fields", "a"), ("annotation", None)])
def test_questions_drop_the_fields_while_the_gate_is_off(form: str, expected: str | None, template: bool) -> None:
    assert asked_about(form, frozenset(), template=template).get("node") == expected
