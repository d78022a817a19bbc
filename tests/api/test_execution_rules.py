"""Rules that hold while a pod runs, as fields and as annotations, together with the other rules."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.api.codec import from_tree
from bayplan.api.pods.execution_rules import (
    ANNOTATION,
    GRACE,
    RuleError,
    grace_of,
    required_node_selector,
    rules_in,
    with_annotation_rules,
)
from bayplan.api.selectors.nodes import pod_may_run_on
from bayplan.api.types import core_v1
from bayplan.testing.builders import node, pod

IGNORED = "requiredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingRequiredDuringExecution"
NEAR = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}


def selector(*terms: dict[str, str]) -> dict[str, Any]:
    return {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": key, "operator": "In", "values": [value]} for key, value in term.items()]}
            for term in terms
        ]
    }


def node_rules(**rules: Any) -> core_v1.NodeAffinity:
    return from_tree(core_v1.NodeAffinity, rules)


def annotated(text: str, **spec: Any) -> core_v1.Pod:
    return pod("p", meta={"annotations": {ANNOTATION: text}}, **spec)


SSD, ZONE_A = selector({"disk": "ssd"}), selector({"zone": "a"})
CASES: list[tuple[str, dict[str, Any], dict[str, str], bool]] = [
    ("both selectors have to match", {IGNORED: SSD, REQUIRED: ZONE_A}, {"disk": "ssd", "zone": "a"}, True),
    ("one of two does not do", {IGNORED: SSD, REQUIRED: ZONE_A}, {"disk": "ssd", "zone": "b"}, False),
    ("the other of two does not do", {IGNORED: SSD, REQUIRED: ZONE_A}, {"zone": "a"}, False),
    ("any term of each does", {IGNORED: selector({"disk": "ssd"}, {"disk": "hdd"}), REQUIRED: ZONE_A}, {"disk": "hdd", "zone": "a"}, True),
    ("one selector alone counts", {REQUIRED: ZONE_A}, {"zone": "b"}, False),
    ("an empty term matches no node, in company neither", {IGNORED: {"nodeSelectorTerms": [{}]}, REQUIRED: ZONE_A}, {"zone": "a"}, False),
]  # fmt: skip


@pytest.mark.parametrize(("rules", "labels", "fits"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_required_node_selectors_of_both_kinds(rules: dict[str, Any], labels: dict[str, str], fits: bool) -> None:
    one = pod("p", affinity=core_v1.Affinity(node_affinity=node_rules(**rules)))
    assert pod_may_run_on(one.spec, node("n", meta={"labels": labels})) is fits


def test_a_pod_without_rules_is_left_alone() -> None:
    one = pod("p")
    assert with_annotation_rules(one) is one
    assert required_node_selector(None) is None


def test_rules_of_an_annotation_join_those_of_the_fields() -> None:
    text = msgspec.json.encode({"nodeAffinity": {REQUIRED: ZONE_A}, "podAffinity": {REQUIRED: [NEAR]}})
    own = core_v1.Affinity(node_affinity=node_rules(**{REQUIRED: selector({"disk": "ssd"})}))
    one = annotated(text.decode(), affinity=own)
    joined = with_annotation_rules(one)
    assert one.spec.affinity is own
    assert joined.spec.affinity is not None
    assert joined.spec.affinity.pod_affinity is not None
    assert len(joined.spec.affinity.pod_affinity.required_during_scheduling_required_during_execution) == 1
    assert pod_may_run_on(joined.spec, node("n", meta={"labels": {"zone": "a", "disk": "ssd"}}))
    assert not pod_may_run_on(joined.spec, node("n", meta={"labels": {"zone": "a"}}))
    assert not pod_may_run_on(joined.spec, node("n", meta={"labels": {"disk": "ssd"}}))


@pytest.mark.parametrize(("count", "is_read"), [(32, True), (33, False)])
def test_an_annotation_with_too_many_combinations_changes_nothing(count: int, is_read: bool) -> None:
    terms = [{"disk": f"d{number}"} for number in range(count)]
    text = msgspec.json.encode({"nodeAffinity": {REQUIRED: selector(*terms)}}).decode()
    own = core_v1.Affinity(node_affinity=node_rules(**{IGNORED: selector(*terms)}))
    assert (with_annotation_rules(one := annotated(text, affinity=own)) is not one) is is_read
    assert with_annotation_rules(annotated(text)).spec.affinity is not None


UNREADABLE: list[tuple[str, Any, str]] = [
    ("no JSON", None, "truncated"),
    ("a field that does not exist", {"nodes": {}}, "unknown field `nodes`"),
    (
        "a rule that is ignored later",
        {"nodeAffinity": {IGNORED: selector({"a": "b"})}},
        "only requiredDuringScheduling",
    ),
    ("no rule at all", {"nodeAffinity": {}}, "states no rule"),
    ("a rule that is not valid", {"podAffinity": {REQUIRED: [{**NEAR, "topologyKey": ""}]}}, "topologyKey: Required"),
    ("label keys", {"podAffinity": {REQUIRED: [{**NEAR, "matchLabelKeys": ["a"]}]}}, "matchLabelKeys"),
]


@pytest.mark.parametrize(("rules", "text"), [case[1:] for case in UNREADABLE], ids=[case[0] for case in UNREADABLE])
def test_an_annotation_that_cannot_be_read_says_why_and_changes_nothing(rules: Any, text: str) -> None:
    written = msgspec.json.encode(rules).decode() if rules is not None else "{"
    with pytest.raises(RuleError, match=text):
        rules_in(written)
    one = annotated(written)
    assert with_annotation_rules(one) is one


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("60", (60.0, 60.0)),
        ("podAffinity=30", (5.0, 30.0)),
        ("nodeAffinity=0, podAffinity=30", (0.0, 30.0)),
        ("never", (5.0, 5.0)),
        ("pods=3", (5.0, 5.0)),
        ("-3", (5.0, 5.0)),
    ],
)
def test_a_grace_is_of_all_rules_or_of_some(text: str, expected: tuple[float, float]) -> None:
    annotations = {GRACE: text}
    assert (grace_of(annotations, "nodeAffinity", 5.0), grace_of(annotations, "podAffinity", 5.0)) == expected


def test_without_the_annotation_the_default_grace_counts() -> None:
    assert grace_of({}, "nodeAffinity", 7.0) == 7.0
