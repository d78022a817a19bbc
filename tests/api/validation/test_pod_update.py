"""What an update of a pod may change. Bounds and texts are those of `ValidatePodUpdate` (pkg/apis/core/validation)."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api import codec
from bayplan.api.types import core_v1
from bayplan.api.validation.pods.pod_update import validate_pod_update
from tests.api.validation.pods import told

MOST = 2**31 - 1
EXPRESSION = {"key": "a", "operator": "In", "values": ["x"]}
OTHER = {"key": "b", "operator": "Exists"}
FIELD = {"key": "metadata.name", "operator": "In", "values": ["n"]}
GATED = {"schedulingGates": [{"name": "g"}]}
TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


def spec(tree: dict[str, Any]) -> core_v1.Pod:
    return codec.from_tree(core_v1.Pod, {"spec": {"containers": [{"name": "c", "image": "x"}], **tree}})


def change(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    return told(validate_pod_update(spec(new), spec(old)))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, 0, []),
        (None, MOST, []),
        (None, MOST + 1, ["INVALID"]),
        (None, -1, ["INVALID"]),
        (7, 7, []),
        (7, 6, []),
        (7, 0, []),
        (7, 8, ["INVALID"]),
        (7, None, ["INVALID"]),
    ],
)
def test_a_deadline_comes_nearer(old: int | None, new: int | None, expected: list[str]) -> None:
    before, after = ({} if one is None else {"activeDeadlineSeconds": one} for one in (old, new))
    assert change(before, after) == [f"spec.activeDeadlineSeconds {kind}" for kind in expected]


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        (-1, 1, True),
        (-30, 1, True),
        (-1, 0, False),
        (-1, 2, False),
        (0, 1, False),
        (30, 1, False),
        (None, 1, False),
        (-1, None, False),
    ],
)
def test_only_a_negative_grace_period_becomes_one_second(old: int | None, new: int | None, allowed: bool) -> None:
    before, after = ({} if one is None else {"terminationGracePeriodSeconds": one} for one in (old, new))
    assert change(before, after) == ([] if allowed else ["spec FORBIDDEN"])


def gates(*names: str) -> dict[str, Any]:
    return {"schedulingGates": [{"name": name} for name in names]}


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (("a", "b"), []),
        (("b",), []),
        ((), []),
        (("a", "c"), ["spec.schedulingGates[1].name FORBIDDEN"]),
    ],
)
def test_scheduling_gates_are_only_removed(new: tuple[str, ...], expected: list[str]) -> None:
    assert change(gates("a", "b"), gates(*new)) == expected


def node(*terms: dict[str, Any], **more: Any) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}} if terms else {}
    return {"affinity": {"nodeAffinity": required, **more}}


TIGHT = {"matchExpressions": [EXPRESSION], "matchFields": [FIELD]}
APART = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({}, node(TIGHT), []),
        ({"affinity": {}}, node(TIGHT), []),
        ({}, node(TIGHT, podAffinity=APART), ["spec FORBIDDEN"]),
        ({}, node(TIGHT, podAntiAffinity=APART), ["spec FORBIDDEN"]),
        ({"affinity": {"podAffinity": APART}}, node(TIGHT, podAffinity=APART), []),
        (node(TIGHT), node({**TIGHT, "matchExpressions": [EXPRESSION, OTHER]}), []),
        (node(TIGHT), node({**TIGHT, "matchFields": [FIELD, FIELD]}), []),
        (node(TIGHT), node({**TIGHT, "matchExpressions": [OTHER, EXPRESSION]}), [f"{TERMS}[0] INVALID"]),
        (node(TIGHT), node({"matchExpressions": [EXPRESSION]}), [f"{TERMS}[0] INVALID"]),
        (node(TIGHT), node({"matchFields": [FIELD]}), [f"{TERMS}[0] INVALID"]),
        (node({}), node({"matchExpressions": [OTHER]}), [f"{TERMS}[0] INVALID"]),
        (node({}), node({"matchFields": [FIELD]}), [f"{TERMS}[0] INVALID"]),
        (node({}, podAffinity=APART), node({}, podAffinity=APART), []),
        (node({}, TIGHT), node({}, {**TIGHT, "matchExpressions": [EXPRESSION, OTHER]}), []),
        (node(TIGHT), node(TIGHT, TIGHT), [f"{TERMS} INVALID"]),
        (node(TIGHT), node(), [f"{TERMS} INVALID"]),
        (node(TIGHT), {"affinity": {}}, [f"{TERMS} INVALID"]),
        (node(TIGHT), {}, [f"{TERMS} INVALID"]),
    ],
)
def test_node_affinity_of_a_gated_pod_is_only_tightened(
    old: dict[str, Any], new: dict[str, Any], expected: list[str]
) -> None:
    assert change({**GATED, **old}, {**GATED, **new}) == expected
    if old != new:
        assert "spec FORBIDDEN" in change(old, new)


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ({"a": "1"}, []),
        ({"a": "1", "b": "2"}, []),
        ({"a": "2"}, ["spec.nodeSelector INVALID"]),
        ({}, ["spec.nodeSelector INVALID"]),
    ],
)
def test_a_gated_pod_selects_its_nodes_more_closely(new: dict[str, str], expected: list[str]) -> None:
    assert change({**GATED, "nodeSelector": {"a": "1"}}, {**GATED, "nodeSelector": new}) == expected
