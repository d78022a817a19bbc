"""Which rules of running pods have ceased to hold, and of which pods that is asked again after a change."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from bayplan.api.codec import from_tree
from bayplan.api.pods.execution_rules import ANNOTATION
from bayplan.api.types import core_v1
from bayplan.controllers.nodes.affinity_eviction_index import ExecutionIndex
from bayplan.testing.builders import changed, pod

REQUIRED = "requiredDuringSchedulingRequiredDuringExecution"
PREFERRED = "preferredDuringSchedulingRequiredDuringExecution"
SSD: dict[str, Any] = {
    "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]
}


def near(key: str = "zone", **more: Any) -> dict[str, Any]:
    """Pods with app=KIND for some kind, near by a label of nodes."""
    kind = more.pop("app", "db")
    return {"labelSelector": {"matchLabels": {"app": kind}}, "topologyKey": key, **more}


def running(
    name: str,
    node: str,
    app: str = "web",
    *,
    priority: int = 0,
    created: str = "2026-01-01T00:00:00Z",
    deleted: str | None = None,
    namespace: str = "default",
    uid: str = "",
    **affinity: Any,
) -> core_v1.Pod:
    return pod(
        name,
        namespace=namespace,
        node_name=node,
        priority=priority,
        affinity=from_tree(core_v1.Affinity, affinity) if affinity else None,
        meta={"uid": uid or name, "labels": {"app": app}, "created": created, "deleted": deleted},
    )


def index_of(*pods: core_v1.Pod) -> ExecutionIndex:
    """Nodes n1 and n2 in zone a, n3 in zone b, n4 without a zone; n1 and n3 have SSDs. All namespaces have the label team=NAME."""
    index = ExecutionIndex()
    for name in ("default", "other"):
        index.set_namespace(name, {"team": name})
    index.set_node("n1", {"zone": "a", "disk": "ssd"})
    index.set_node("n2", {"zone": "a"})
    index.set_node("n3", {"zone": "b", "disk": "ssd"})
    index.set_node("n4", {})
    for one in pods:
        index.set_pod(one)
    return index


def reasons(index: ExecutionIndex, name: str) -> list[tuple[str, str]]:
    return [(one.rule.name, one.why) for one in index.broken(f"default/{name}")]


WANTS_DB: dict[str, Any] = {"podAffinity": {REQUIRED: [near()]}}
NO_DB: dict[str, Any] = {"podAntiAffinity": {REQUIRED: [near()]}}
BOTH: dict[str, Any] = {"podAffinity": {REQUIRED: [near(), near(app="cache")]}}
IN_OTHER: dict[str, Any] = {"podAffinity": {REQUIRED: [near(namespaces=["other"])]}}
BY_TEAM: dict[str, Any] = {"podAffinity": {REQUIRED: [near(namespaceSelector={"matchLabels": {"team": "other"}})]}}
PREFERS_SSD: dict[str, Any] = {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": SSD["nodeSelectorTerms"][0]}]}}
ANYWHERE: dict[str, Any] = {"podAffinity": {REQUIRED: [near(namespaceSelector={})]}}
ALONE: dict[str, Any] = {"podAntiAffinity": {REQUIRED: [near(app="web")]}}
TOGETHER: dict[str, Any] = {"podAffinity": {REQUIRED: [near(app="web")]}}

LATE, NONE_LEFT = "2026-01-01T00:00:09Z", "no pod that it means is left in zone=a"
CASES: list[tuple[str, list[core_v1.Pod], str]] = [
    ("a node that matches is fine", [running("web", "n1", nodeAffinity={REQUIRED: SSD})], ""),
    ("a node that does not match is not", [running("web", "n2", nodeAffinity={REQUIRED: SSD})], "the labels of node n2 do not match"),
    ("a pod that is wanted is in the zone", [running("web", "n1", **WANTS_DB), running("db", "n2", "db")], ""),
    ("a pod that is wanted is in another zone", [running("web", "n1", **WANTS_DB), running("db", "n3", "db")], NONE_LEFT),
    ("a pod that is leaving is still there", [running("web", "n1", **WANTS_DB), running("db", "n2", "db", deleted=LATE)], ""),
    ("a node without the label has no zone", [running("web", "n4", **WANTS_DB), running("db", "n4", "db")], "node n4 has no label zone"),
    ("a pod of another namespace does not count", [running("web", "n1", **WANTS_DB), running("db", "n1", "db", namespace="other")], NONE_LEFT),
    ("a pod of a namespace that is named does", [running("web", "n1", **IN_OTHER), running("db", "n1", "db", namespace="other")], ""),
    ("a pod of a namespace that is selected does", [running("web", "n1", **BY_TEAM), running("db", "n1", "db", namespace="other")], ""),
    ("a pod of a namespace that is not selected does not", [running("web", "n1", **BY_TEAM), running("db", "n1", "db")], NONE_LEFT),
    ("an empty namespace selector selects all", [running("web", "n1", **ANYWHERE), running("db", "n1", "db", namespace="other")], ""),
    ("all terms have to be met by one pod", [running("web", "n1", **BOTH), running("db", "n1", "db"), running("c", "n1", "cache")], NONE_LEFT),
    ("a pod that means itself is enough", [running("web", "n1", **TOGETHER)], ""),
    ("a pod that must not be near is near", [running("web", "n1", **NO_DB), running("db", "n2", "db")], "default/db is in zone=a"),
    ("a pod that must not be near is far", [running("web", "n1", **NO_DB), running("db", "n3", "db")], ""),
    ("a pod that must not be near is leaving", [running("web", "n1", **NO_DB), running("db", "n2", "db", deleted=LATE)], ""),
    ("a node without the label is near nothing", [running("web", "n4", **NO_DB), running("db", "n4", "db")], ""),
    ("a pod is not near itself", [running("web", "n1", **ALONE)], ""),
    ("of two that exclude each other the younger one goes", [running("web", "n1", created=LATE, **ALONE), running("o", "n2", **ALONE)], "default/o is in zone=a"),
    ("of two that exclude each other the older one stays", [running("web", "n1", **ALONE), running("young", "n2", created=LATE, **ALONE)], ""),
    ("priority comes before age", [running("web", "n1", **ALONE), running("young", "n2", priority=5, created=LATE, **ALONE)], "default/young is in zone=a"),
    ("of two with rules that do not exclude each other both go", [running("web", "n1", **ALONE), running("o", "n2", **TOGETHER)], "default/o is in zone=a"),
    ("a pod that only one of two excludes does not go", [running("web", "n1", **ALONE), running("plain", "n2", created=LATE)], "default/plain is in zone=a"),
    ("a pod that is leaving is left alone", [running("web", "n2", deleted=LATE, nodeAffinity={REQUIRED: SSD})], ""),
    ("a pod on a node that is not known is left alone", [running("web", "n9", nodeAffinity={REQUIRED: SSD})], ""),
    ("a preferred rule that never held is left alone", [running("web", "n2", **PREFERS_SSD)], ""),
]  # fmt: skip


@pytest.mark.parametrize(("pods", "why"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
@pytest.mark.parametrize("backwards", [False, True])
def test_what_does_not_hold(pods: list[core_v1.Pod], why: str, backwards: bool) -> None:
    index = index_of(*(reversed(pods) if backwards else pods))
    assert [text for _, text in reasons(index, "web")][:1] == ([why] if why else [])


def test_a_preferred_rule_counts_from_the_time_when_it_has_held() -> None:
    web = running("web", "n1", **PREFERS_SSD)
    index = index_of(web)
    assert reasons(index, "web") == []
    assert index.set_node("n1", {"zone": "a"}) == ["default/web"]
    assert reasons(index, "web") == [(f"nodeAffinity.{PREFERRED}[0]", "the labels of node n1 do not match")]
    moved = changed(web, spec=changed(web.spec, node_name="n2"))
    index.set_pod(moved)
    assert reasons(index, "web") == [], "on the new node it has not held yet"


def test_rules_of_an_annotation_count_like_those_of_fields() -> None:
    web = running("web", "n2")
    web.metadata.annotations = {ANNOTATION: msgspec.json.encode({"nodeAffinity": {REQUIRED: SSD}}).decode()}
    assert reasons(index_of(web), "web") == [(f"nodeAffinity.{REQUIRED}", "the labels of node n2 do not match")]


def test_what_comes_and_goes_is_told_to_those_whom_it_concerns() -> None:
    index = index_of(running("web", "n1", **WANTS_DB), running("far", "n3", **WANTS_DB), running("shy", "n2", **NO_DB))
    assert index.set_pod(running("db", "n2", "db")) == ["default/web", "default/shy"]
    assert index.set_pod(running("plain", "n2", "other")) == []
    assert index.remove_pod("default/db") == ["default/web", "default/shy"]
    assert index.set_node("n3", {"zone": "a"}) == ["default/far"]
    assert index.set_node("n3", {"zone": "a"}) == []
    assert index.set_pod(running("db", "n3", "db")) == ["default/web", "default/shy", "default/far"]


def test_labels_of_namespaces_change_whom_a_rule_means() -> None:
    index = index_of(running("web", "n1", **BY_TEAM), running("db", "n1", "db", namespace="other"))
    assert index.set_namespace("other", {"team": "third"}) == ["default/web"]
    assert reasons(index, "web") != []
    assert index.set_namespace("other", {"team": "other"}) == ["default/web"]
    assert reasons(index, "web") == []


def test_a_pod_that_ends_counts_no_more() -> None:
    index = index_of(running("web", "n1", **WANTS_DB), db := running("db", "n1", "db"))
    ended = changed(db, status=changed(db.status, phase="Succeeded"))
    assert index.set_pod(ended) == ["default/web"]
    assert reasons(index, "web") != []


def test_a_crowd_is_not_told_of_one_member_more_or_less() -> None:
    index = index_of(*(running(f"web-{number}", "n1", **WANTS_DB) for number in range(50)))
    index.set_pod(running("db-0", "n1", "db"))
    for number in range(1, 10):
        index.set_pod(running(f"db-{number}", "n2", "db"))
    assert index.set_pod(running("db-10", "n2", "db")) == []
    assert index.remove_pod("default/db-10") == []
    for number in range(9, 0, -1):
        index.remove_pod(f"default/db-{number}")
    assert len(index.remove_pod("default/db-0")) == 50


def test_terms_without_users_are_forgotten() -> None:
    index = index_of(running("web", "n1", **WANTS_DB), running("web-2", "n1", **WANTS_DB), running("db", "n1", "db"))
    assert index.terms == 1
    index.remove_pod("default/web")
    assert index.terms == 1
    index.remove_pod("default/web-2")
    assert index.terms == 0


def _random_pod(source: random.Random, name: str) -> core_v1.Pod:
    affinity: dict[str, Any] = source.choice(
        [{}, {}, WANTS_DB, NO_DB, ALONE, TOGETHER, BY_TEAM, BOTH, {"nodeAffinity": {REQUIRED: SSD}}]
    )
    deleted = source.choice([None, None, None, "2026-01-01T00:00:01Z"])
    return running(
        name,
        source.choice(["n1", "n2", "n3", "n4"]),
        source.choice(["web", "db", "cache"]),
        namespace=source.choice(["default", "default", "other"]),
        priority=source.randrange(3),
        deleted=deleted,
        uid=f"{name}-{source.random()}",
        **affinity,
    )


@pytest.mark.parametrize("seed", range(30))
def test_after_any_changes_the_index_says_what_a_fresh_one_says_and_names_all_pods_for_which_that_is_new(
    seed: int,
) -> None:
    source = random.Random(seed)
    index = index_of()
    pods: dict[str, core_v1.Pod] = {}
    nodes: dict[str, dict[str, str] | None] = {
        "n1": {"zone": "a", "disk": "ssd"},
        "n2": {"zone": "a"},
        "n3": {"zone": "b"},
        "n4": {},
    }
    spaces = {"default": {"team": "default"}, "other": {"team": "other"}}
    for name, labels in nodes.items():
        index.set_node(name, labels)
    verdicts: dict[str, list[str]] = {}
    for _ in range(60):
        kind = source.randrange(6)
        if kind == 0:
            name = source.choice(["n1", "n2", "n3", "n4"])
            nodes[name] = source.choice([None, {}, {"zone": "a"}, {"zone": "b", "disk": "ssd"}])
            touched = index.set_node(name, nodes[name])
        elif kind == 1:
            name = source.choice(["default", "other"])
            spaces[name] = {"team": source.choice(["default", "other"])}
            touched = index.set_namespace(name, spaces[name])
        elif kind == 2 and pods:
            key = source.choice(sorted(pods))
            del pods[key]
            touched = index.remove_pod(key)
        else:
            one = _random_pod(source, f"p{source.randrange(12)}")
            key = f"{one.metadata.namespace}/{one.metadata.name}"
            pods[key] = one
            touched = index.set_pod(one)
        fresh = ExecutionIndex()
        for name, team in spaces.items():
            fresh.set_namespace(name, team)
        for name, labels in nodes.items():
            fresh.set_node(name, labels)
        for one in pods.values():
            fresh.set_pod(one)
        now = {key: [each.rule.name for each in fresh.broken(key)] for key in pods}
        assert {key: [each.rule.name for each in index.broken(key)] for key in pods} == now
        gone_bad = [key for key in pods if now[key] and not verdicts.get(key)]
        few = max(
            sum(1 for one in pods.values() if one.metadata.labels["app"] == app) for app in ("web", "db", "cache")
        )
        assert few > 2 or set(gone_bad) <= set(touched), "domains with many members are not looked at again"
        verdicts = now
