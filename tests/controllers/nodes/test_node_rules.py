"""Taints and conditions of nodes, and when pods have to leave them."""

from __future__ import annotations

import pytest

from bayplan.api.pods.tolerations import tolerates
from bayplan.api.types import core_v1
from bayplan.controllers.nodes.node_lifecycle import unknown_conditions, wanted_taints
from bayplan.controllers.nodes.taint_eviction import eviction_time
from bayplan.support.timestamps import parse_rfc3339
from bayplan.testing.builders import CREATED, metadata, node, pod, taint, toleration

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
NOW, LATER = "2026-01-02T03:05:00Z", "2026-01-02T04:00:00Z"


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        pytest.param({"Ready": "True"}, set(), id="a ready node has none"),
        pytest.param({}, set(), id="a node without conditions has none"),
        pytest.param({"Ready": "False"}, {(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")}, id="not ready"),
        pytest.param({"Ready": "Unknown"}, {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}, id="silent"),
        pytest.param(
            {"Ready": "True", "MemoryPressure": "True", "DiskPressure": "True", "PIDPressure": "True"},
            {(f"node.kubernetes.io/{kind}-pressure", "NoSchedule") for kind in ("memory", "disk", "pid")},
            id="pressure keeps new pods away only",
        ),
        pytest.param({"MemoryPressure": "False", "DiskPressure": "Unknown"}, set(), id="no pressure, no taint"),
        pytest.param(
            {"NetworkUnavailable": "True"}, {("node.kubernetes.io/network-unavailable", "NoSchedule")}, id="no network"
        ),
    ],
)
def test_conditions_show_as_taints_with_their_time(conditions: dict[str, str], expected: set[tuple[str, str]]) -> None:
    taints = wanted_taints(node("n", conditions=conditions), NOW)
    assert {(one.key, one.effect) for one in taints} == expected
    assert all(one.time_added == NOW for one in taints)


def test_a_cordoned_node_has_the_unschedulable_taint() -> None:
    (one,) = wanted_taints(node("n", unschedulable=True), NOW)
    assert (one.key, one.effect, one.time_added) == (UNSCHEDULABLE, "NoSchedule", NOW)


def test_taints_of_others_and_taints_that_still_hold_stay_as_they_are() -> None:
    foreign = taint("mine", added=CREATED)
    kept = taint(NOT_READY, added=CREATED)
    same_key = taint("node.kubernetes.io/memory-pressure", "NoExecute")
    found = wanted_taints(node("n", conditions={"Ready": "False"}, taints=(foreign, kept, same_key)), NOW)
    assert found[:3] == (foreign, kept, same_key)
    assert [(one.key, one.effect) for one in found[3:]] == [(NOT_READY, "NoSchedule")]


def test_taints_that_no_longer_hold_go() -> None:
    stale = (taint(UNREACHABLE), taint(UNREACHABLE, "NoSchedule"), taint(UNSCHEDULABLE, "NoSchedule"))
    assert wanted_taints(node("n", taints=stale), NOW) == ()


class TestUnknownConditions:
    def test_what_the_kubelet_said_becomes_unknown(self) -> None:
        one = node("n", conditions={"Ready": "True", "MemoryPressure": "False", "Foreign": "True"})
        found = {each.type: each for each in unknown_conditions(one, NOW)}
        assert {kind: each.status for kind, each in found.items()} == {
            "Ready": "Unknown",
            "MemoryPressure": "Unknown",
            "Foreign": "True",
            "DiskPressure": "Unknown",
            "PIDPressure": "Unknown",
        }
        assert found["Ready"].reason == "NodeStatusUnknown"
        assert found["Ready"].message == "Kubelet stopped posting node status."
        assert found["Ready"].last_transition_time == NOW
        assert found["DiskPressure"].reason == "NodeStatusNeverUpdated"

    def test_unknown_conditions_stay_as_they_are(self) -> None:
        one = node("n", conditions={})
        one.status.conditions = unknown_conditions(one, NOW)
        assert unknown_conditions(one, LATER) == one.status.conditions


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        pytest.param(toleration("k"), True, id="a key that exists"),
        pytest.param(toleration(), True, id="everything"),
        pytest.param(toleration("k", value="v"), True, id="key and value"),
        pytest.param(toleration("k", value="w"), False, id="another value"),
        pytest.param(toleration("j"), False, id="another key"),
        pytest.param(toleration("k", effect="NoSchedule"), False, id="another effect"),
        pytest.param(core_v1.Toleration(key="k", value="v"), True, id="equality without operator"),
        pytest.param(core_v1.Toleration(key="k", value="v", operator="Gt"), False, id="an operator that is not known"),
    ],
)
def test_tolerates(one: core_v1.Toleration, expected: bool) -> None:
    assert tolerates(one, taint("k", value="v")) is expected


SEEN = parse_rfc3339(LATER)


@pytest.mark.parametrize(
    ("tolerations", "taints", "expected"),
    [
        pytest.param([], [taint("k")], 0, id="without toleration at once"),
        pytest.param([toleration("k")], [taint("k")], None, id="a toleration without limit is for ever"),
        pytest.param([toleration("k", seconds=30)], [taint("k")], 30, id="with a limit after it"),
        pytest.param([toleration("k", seconds=0)], [taint("k")], 0, id="a limit of zero is at once"),
        pytest.param([toleration("k", seconds=-5)], [taint("k")], 0, id="a negative limit is at once"),
        pytest.param(
            [toleration("k", seconds=30), toleration(seconds=5)], [taint("k")], 30, id="the first match counts"
        ),
        pytest.param([toleration(seconds=90)], [taint("j"), taint("k")], 90, id="one toleration for several taints"),
        pytest.param(
            [toleration("j", seconds=50), toleration("k", seconds=20)],
            [taint("j"), taint("k")],
            20,
            id="the first limit counts",
        ),
        pytest.param([toleration("k", seconds=30)], [taint("j"), taint("k")], 0, id="one taint is not tolerated"),
        pytest.param([], [], None, id="no taint, no eviction"),
    ],
)
def test_eviction_time(
    tolerations: list[core_v1.Toleration], taints: list[core_v1.Taint], expected: float | None
) -> None:
    found = eviction_time(pod("p", tolerations=tuple(tolerations)), taints, SEEN)
    assert (found - SEEN if found is not None else None) == expected


def scheduled(at: str) -> core_v1.Pod:
    condition = core_v1.PodCondition(type="PodScheduled", status="True", last_transition_time=at)
    status = core_v1.PodStatus(conditions=(condition,))
    return core_v1.Pod(
        metadata=metadata("p"), spec=core_v1.PodSpec(tolerations=(toleration("k", seconds=300),)), status=status
    )


def test_time_runs_from_the_taint_even_if_it_was_noticed_late() -> None:
    assert eviction_time(scheduled(CREATED), [taint("k", added=NOW)], SEEN) == parse_rfc3339(NOW) + 300


def test_a_pod_that_came_after_the_taint_has_its_full_time() -> None:
    assert eviction_time(scheduled(NOW), [taint("k", added=CREATED)], SEEN) == parse_rfc3339(NOW) + 300
