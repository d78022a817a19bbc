"""Plugins of third parties: registered by entry point, scalar or columnar."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from bayplan.scheduler import Planner, registry
from bayplan.scheduler.framework.extension_points import ScalarFilterPlugin, ScalarScorePlugin, Scope
from bayplan.scheduler.framework.state import CycleState, PodShape
from bayplan.scheduler.framework.verdicts import Status
from tests.scheduler.objects import node, pod


class EvenNodes(ScalarFilterPlugin, ScalarScorePlugin):
    """Only nodes with an even number; the higher the better."""

    name = "EvenNodes"
    filter_scope = Scope.NODE
    score_scope = Scope.NODE
    asked: ClassVar[list[int]] = []

    def filter_node(self, state: CycleState, pod: PodShape, row: int) -> int:
        self.asked.append(row)
        if int(self.snapshot.name(row)[-1]) % 2:
            return self.reasons.code(Status.UNRESOLVABLE, self.name, "node(s) had an odd number")
        return 0

    def score_node(self, state: CycleState, pod: PodShape, row: int) -> int:
        return int(self.snapshot.name(row)[-1]) * 10


class Point:
    """Stands for an installed entry point."""

    name = "EvenNodes"

    def load(self) -> type[EvenNodes]:
        return EvenNodes


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_third_party", lambda: {"EvenNodes": Point()})
    EvenNodes.asked.clear()


@pytest.mark.usefixtures("installed")
def test_a_scalar_plugin_filters_scores_and_explains() -> None:
    enabled: dict[str, Any] = {"multiPoint": {"enabled": [{"name": "EvenNodes", "weight": 10}]}}
    planner = Planner({"nodes": [node(f"n{i}") for i in range(6)]}, {"profiles": [{"plugins": enabled}]})
    decision = planner.decide(pod("p"))
    assert decision.node == "n4"
    assert decision.to_dict()["nodes"]["n4"]["scores"]["EvenNodes"] == 400
    refusal = decision.verdict("n3")
    assert refusal is not None
    assert refusal.reasons == ("node(s) had an odd number",)


@pytest.mark.usefixtures("installed")
def test_a_plugin_that_looks_at_nodes_only_is_not_asked_again_for_equal_pods() -> None:
    enabled: dict[str, Any] = {"filter": {"enabled": [{"name": "EvenNodes"}]}}
    planner = Planner({"nodes": [node(f"n{i}") for i in range(6)]}, {"profiles": [{"plugins": enabled}]})
    for number in range(5):
        planner.schedule(pod(f"p{number}", cpu="100m"))
    assert len(EvenNodes.asked) == 6
