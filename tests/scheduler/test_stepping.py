"""A decision step by step."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from bayplan.cli.main import main
from bayplan.scheduler import Planner
from bayplan.scheduler.development.stepping import DecisionSteps, Step, step_through
from bayplan.support.clock import SystemClock
from tests.scheduler.objects import node, pod

CLUSTER = """\
# two nodes and a pod
{kind: Node, apiVersion: v1, metadata: {name: a}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "9"}}}
---
{kind: Node, apiVersion: v1, metadata: {name: b}, status: {allocatable: {cpu: "2", memory: 8Gi, pods: "9"}}}
---
kind: Pod
apiVersion: v1
metadata: {name: p, namespace: shop}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "3"}}}]}
"""


def of(steps: DecisionSteps, title: str) -> Step:
    return next(step for step in steps.steps if step.title == title)


def two_nodes(cpu: str = "1") -> DecisionSteps:
    return step_through(Planner([node("a", cpu="4"), node("b", cpu="2")]), pod("p", cpu=cpu))


def test_a_filter_says_which_nodes_it_refuses_and_why() -> None:
    step = of(two_nodes("3"), "Filter NodeResourcesFit")
    assert step.says == "refuses 1 of 2 nodes"
    assert step.nodes == {"a": ("passes",), "b": ("Insufficient cpu",)}
    assert "b     Insufficient cpu" in step.text()


def test_scores_add_up_to_the_total_of_the_decision() -> None:
    steps = two_nodes()
    scores = [step for step in steps.steps if step.point == "Score"]
    assert "NodeResourcesFit" in {step.plugin for step in scores}
    for name in ("a", "b"):
        weighted = sum(int(step.nodes[name][1]) for step in scores)
        assert of(steps, "Decision").nodes[name] == (str(weighted),)
    best = next(iter(of(steps, "Decision").nodes))
    assert best == steps.decision.node == "a"
    taints = of(steps, "Score TaintToleration")
    assert taints.nodes["a"] == ("100", "300")


class TickingClock(SystemClock):
    """A second passes whenever it is looked at."""

    def __init__(self) -> None:
        self._ticks = 0

    def monotonic(self) -> float:
        self._ticks += 1
        return float(self._ticks)


def test_what_plugins_took_is_told_by_extension_point_the_dearest_first() -> None:
    planner = Planner([node("a"), node("b"), node("c", cpu="1")])
    steps = step_through(planner, pod("p", cpu="2"), TickingClock())
    cost = steps.cost()
    assert cost.head == ("MS", "PreFilter", "Filter", "PreScore", "Score")
    assert cost.nodes["NodeResourcesFit"] == ("4000.000", *["1000.000"] * 4)
    assert cost.nodes["NodeName"] == ("1000.000", "", "1000.000", "", "")
    totals = [float(cells[0]) for cells in cost.nodes.values()]
    assert totals == sorted(totals, reverse=True)
    assert cost.text().startswith(f"Cost: {sum(totals):.3f} ms for 3 nodes\n  PLUGIN ")
    assert planner.cycle_for(planner.pod(pod("p"))).profile.meter is None


def test_scores_that_the_decision_did_not_need_cost_what_they_take() -> None:
    steps = step_through(Planner([node("a"), node("b", cpu="1")]), pod("p", cpu="2"), TickingClock())
    assert steps.decision.node == "a"
    assert steps.cost().nodes["NodeResourcesFit"] == ("4000.000", *["1000.000"] * 4)


def test_steps_are_gone_one_by_one_or_to_the_next_extension_point() -> None:
    steps = two_nodes()
    first = steps.step()
    assert first is steps.steps[0]
    rest = steps.next()
    assert {step.point for step in rest} == {"PreFilter"}
    filters = steps.next()
    assert {step.point for step in filters} == {"Filter"}
    assert 1 + len(rest) + len(filters) == steps.position
    while not steps.is_over:
        steps.next()
    assert steps.step() is None
    assert steps.next() == []
    steps.restart()
    assert steps.step() is first


def test_why_a_node_tells_what_each_plugin_said_of_it() -> None:
    steps = two_nodes("3")
    refused = steps.why("b")
    assert refused.says == "refused: Insufficient cpu (NodeResourcesFit)"
    assert refused.nodes["Filter NodeResourcesFit"] == ("Insufficient cpu",)
    assert steps.why("a").says == "it is chosen"
    assert two_nodes().why("b").says == "not chosen"
    with pytest.raises(KeyError):
        steps.why("c")


def test_a_gated_pod_and_one_that_is_rejected_before_its_nodes_are_looked_at() -> None:
    gated = pod("p")
    gated["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    steps = step_through(Planner([node("a")]), gated)
    assert [step.title for step in steps.steps] == ["PreEnqueue SchedulingGates", "Decision"]
    assert "example.com/wait" in steps.steps[0].says
    claimed = pod("p")
    claimed["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "none"}}]
    rejected = step_through(Planner([node("a")]), claimed)
    assert any("rejects the pod" in step.says and '"none" not found' in step.says for step in rejected.steps)
    assert not any(step.point == "Filter" for step in rejected.steps)


def test_preemption_is_a_step() -> None:
    there = pod("low", cpu="4", on="a")
    urgent = pod("high", cpu="4", priority=9)
    steps = step_through(Planner([node("a", cpu="4"), there]), urgent)
    assert of(steps, "PostFilter").says == "evict default/low on a"


def test_notebooks_show_tables_without_markup_of_the_cluster() -> None:
    page = step_through(Planner([node("<b>", cpu="4")]), pod("p"))._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<td><b>" not in page
    assert "<th>NODE</th>" in page


def test_nothing_is_changed() -> None:
    planner = Planner([node("a")])
    before = planner.snapshot.position
    step_through(planner, pod("p"))
    assert planner.snapshot.position == before
    assert not planner.snapshot.pods


def test_the_debugger_does_what_is_typed(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    question = ["scheduler", "plugin", "debug", "shop/p", "--cluster", str(tmp_path / "cluster.yaml")]
    plugin = ["--plugin", "examples/scheduler/quiet_nodes.py"]
    result = CliRunner().invoke(main, [*question, *plugin], input="n\nall\nwhy b\nwhy c\nc\ns\nr\n\nhelp\nq\n")
    assert result.exit_code == 0, result.output
    assert "Filter QuietNodes: refuses 0 of 2 nodes" in result.output
    assert "Why b: refused: Insufficient cpu (NodeResourcesFit)" in result.output
    assert "there is no node 'c'" in result.output
    assert "  QuietNodes " in result.output.partition("Cost: ")[2]
    assert result.output.count("that was the last step") == 1
    assert "before the first step" in result.output
    assert CliRunner().invoke(main, question, input="").exit_code == 0
    assert CliRunner().invoke(main, [*question[:3], "shop/none", *question[4:]]).exit_code == 2


RAISING = """\
from bayplan.scheduler.framework.extension_points import PreEnqueuePlugin, PreFilterPlugin, ScalarFilterPlugin, Scope, ScorePlugin
class Raising({base}):
    name = "Raising"
    filter_scope = Scope.NODE
    score_scope = Scope.ROW
    def {method}:
        raise ValueError("why")
"""


@pytest.mark.parametrize(
    ("base", "method", "step"),
    [
        ("PreEnqueuePlugin", "pre_enqueue(self, pod)", "PreEnqueue"),
        ("PreFilterPlugin", "pre_filter(self, state, pod)", "PreFilter"),
        ("ScalarFilterPlugin", "filter_node(self, state, pod, row)", "Filter"),
        ("ScorePlugin", "score(self, state, pod, rows)", "Score"),
    ],
)
def test_a_plugin_that_raises_is_a_step_that_names_the_line(tmp_path: Path, base: str, method: str, step: str) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "raising.py").write_text(RAISING.format(base=base, method=method))
    words = ["scheduler", "plugin", "debug", "shop/p", "--cluster", str(tmp_path / "cluster.yaml")]
    found = CliRunner().invoke(main, [*words, "--plugin", str(tmp_path / "raising.py")], input="all\n")
    assert found.exit_code == 0, found.output
    lines = found.output.splitlines()
    assert any(
        line.removeprefix("(debug) ").startswith(f"{step} Raising: ") and "raising.py:7" in line for line in lines
    )
