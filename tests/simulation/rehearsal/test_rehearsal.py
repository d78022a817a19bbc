"""Rehearsals: the pods that fare otherwise under another setting, with reasons and measures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bayplan.api.types.core_v1 import Node, Pod
from bayplan.cli.main import main
from bayplan.scheduler.development.plugin_files import PluginFileError
from bayplan.scheduler.library import typed
from bayplan.simulation.rehearsal.measures import jain
from bayplan.simulation.rehearsal.page import rehearsal_page
from bayplan.simulation.rehearsal.run import PodChange, rehearse
from bayplan.simulation.rehearsal.setting import RehearsalError, Setting
from bayplan.simulation.replay.run import Arrival, Workload, replay

SPREAD = Setting()
FILL = Setting(
    config={
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "plugins": {"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
                "pluginConfig": [
                    {
                        "name": "NodeResourcesFit",
                        "args": {
                            "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
                        },
                    }
                ],
            }
        ],
    }
)
KEEP_OFF = """
from bayplan.scheduler.framework.extension_points import ScalarFilterPlugin, Scope
from bayplan.scheduler.framework.verdicts import Status


class KeepOff(ScalarFilterPlugin):
    name = "KeepOff"
    filter_scope = Scope.NODE

    def filter_node(self, state, pod, row):
        if self.snapshot.nodes[row].metadata.name != {node!r}:
            return 0
        return self.reasons.code(Status.UNSCHEDULABLE, self.name, "kept off {node}")
"""


def node(name: str, cpu: str = "4") -> Node:
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    found: Node = typed("Node", {"metadata": {"name": name}, "status": {"allocatable": amounts}})
    return found


def pod(name: str, cpu: str = "1", namespace: str = "shop", priority: int = 0, **spec: Any) -> Pod:
    tree = {
        "metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}"},
        "spec": {
            "priority": priority,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}],
            **spec,
        },
    }
    found: Pod = typed("Pod", tree)
    return found


def names(found: tuple[PodChange, ...]) -> list[str]:
    return [one.pod for one in found]


def small_then_large() -> Workload:
    """Two small pods, then one that needs a node for itself."""
    arrivals = (Arrival(0.0, pod("a")), Arrival(1.0, pod("b")), Arrival(2.0, pod("whole", "4"), ends=50.0))
    return Workload((node("n1"), node("n2")), arrivals)


def test_a_setting_beside_itself_changes_nothing() -> None:
    arrivals = tuple(Arrival(float(at), pod(f"p{at}", "2"), lasts=30.0) for at in range(12))
    workload = Workload((node("n1"), node("n2")), arrivals)
    for seed in (None, 7):
        result = rehearse(workload, SPREAD, Setting(), seed=seed)
        assert all(not found for _, found in result.changes.lists())
        assert result.good
        assert result.measures[0] == result.measures[1]
        assert result.measures[0].mean_wait > 0


def test_pods_that_land_elsewhere_and_stay_pending_say_why() -> None:
    result = rehearse(small_then_large(), FILL, SPREAD)
    assert names(result.changes.elsewhere) == ["shop/b"]
    moved = result.changes.elsewhere[0]
    assert (moved.before.node, moved.after.node) == ("n1", "n2")
    assert moved.reason.startswith("n2 scores ")
    assert "NodeResourcesFit +" in moved.reason
    assert names(result.changes.pending) == ["shop/whole"]
    assert result.changes.pending[0].reason.startswith("0/2 nodes are available: 2 Insufficient cpu")
    assert not result.good
    back = rehearse(small_then_large(), SPREAD, FILL)
    assert names(back.changes.placed) == ["shop/whole"]
    assert back.good


def test_pods_that_wait_longer_say_what_they_waited_for() -> None:
    first, last = small_then_large().arrivals[0], Arrival(2.0, pod("whole", "4"), lasts=10.0)
    workload = Workload((node("n1"), node("n2")), (first, Arrival(1.0, pod("b"), ends=20.0), last))
    result = rehearse(workload, FILL, SPREAD)
    assert names(result.changes.later) == ["shop/whole"]
    assert (result.changes.later[0].before.wait, result.changes.later[0].after.wait) == (0.0, 18.0)
    assert "Insufficient cpu" in result.changes.later[0].reason
    assert names(rehearse(workload, SPREAD, FILL).changes.sooner) == ["shop/whole"]


def test_pods_that_are_preempted_say_by_whom() -> None:
    arrivals = (Arrival(0.0, pod("a")), Arrival(1.0, pod("b")), Arrival(2.0, pod("whole", "4", priority=9)))
    workload = Workload((node("n1"), node("n2")), arrivals)
    result = rehearse(workload, FILL, SPREAD)
    assert len(result.changes.preempted) == 1
    assert result.changes.preempted[0].reason == "by shop/whole"
    assert not result.good
    assert len(rehearse(workload, SPREAD, FILL).changes.spared) == 1


def test_a_name_that_comes_again_is_another_pod() -> None:
    arrivals = (Arrival(0.0, pod("a", "4"), ends=5.0), Arrival(10.0, pod("a", "5"), ends=20.0))
    records = replay(Workload((node("n1"),), arrivals)).records.of
    assert {name: record.node for name, record in records.items()} == {"shop/a": "n1", "shop/a (2)": ""}
    assert (records["shop/a"].running, records["shop/a (2)"].waiting) == (5.0, 10.0)


def test_a_preempted_pod_waits_and_runs_in_turns() -> None:
    arrivals = (Arrival(0.0, pod("low", "4"), lasts=100.0), Arrival(10.0, pod("high", "4", priority=1), lasts=30.0))
    record = replay(Workload((node("n1"),), arrivals)).records.of["shop/low"]
    assert (record.wait, record.waiting, record.running) == (0.0, 30.0, 110.0)
    assert record.preempted_by == ["shop/high"]


def test_two_versions_of_a_plugin_are_compared_though_they_have_one_name(tmp_path: Path) -> None:
    for number in ("1", "2"):
        (tmp_path / f"v{number}.py").write_text(KEEP_OFF.format(node=f"n{number}"))
    workload = Workload((node("n1"), node("n2")), (Arrival(0.0, pod("a")),))
    first, second = (Setting(plugins=(tmp_path / f"v{number}.py",)) for number in ("1", "2"))
    result = rehearse(workload, first, second)
    assert [(one.before.node, one.after.node) for one in result.changes.elsewhere] == [("n2", "n1")]
    assert result.changes.elsewhere[0].reason == "n2 is refused: kept off n2 (KeepOff)"


def test_an_older_release_ignores_requests_of_whole_pods() -> None:
    big = pod("big", resources={"requests": {"cpu": "5"}})
    result = rehearse(Workload((node("n1"),), (Arrival(0.0, big),)), Setting(kubernetes="1.33"), Setting())
    assert names(result.changes.pending) == ["shop/big"]
    assert result.uses == {"PodLevelResources": 1}
    assert not rehearse(Workload((node("n1"),), (Arrival(0.0, big),)), Setting(kubernetes="1.34"), Setting()).uses


def test_measures_say_how_namespaces_and_sizes_fare() -> None:
    arrivals = (
        Arrival(0.0, pod("a", "4", "one"), lasts=10.0),
        Arrival(0.0, pod("b", "4", "two"), lasts=10.0),
        Arrival(0.0, pod("c", "100m", "three"), lasts=10.0),
    )
    measures = rehearse(Workload((node("n1", "4100m"),), arrivals), SPREAD, FILL).measures[0]
    assert [(one.name, one.mean_wait, one.granted) for one in measures.namespaces] == [
        ("one", 0.0, 1.0),
        ("three", 0.0, 1.0),
        ("two", 10.0, 0.5),
    ]
    assert measures.fairness == pytest.approx(2.5**2 / (3 * 2.25))
    assert [(one.name, one.pods, one.longest_wait) for one in measures.sizes] == [
        ("up to 1/16 of a node", 1, 0.0),
        ("more than 1/2", 2, 10.0),
    ]
    assert measures.success == 1.0


@pytest.mark.parametrize(
    ("values", "index"), [([], 1.0), ([0.0, 0.0], 1.0), ([1.0, 1.0], 1.0), ([1.0, 0.0, 0.0, 0.0], 0.25)]
)
def test_jains_index(values: list[float], index: float) -> None:
    assert jain(values) == pytest.approx(index)


def test_nodes_with_some_gpus_in_use_and_some_free_are_counted() -> None:
    from bayplan.simulation.replay.traces import arrival_of, node_of

    nodes = tuple(
        node_of({"sn": f"g{number}", "cpu_milli": "8000", "memory_mib": "9000", "gpu": "2"}) for number in "12"
    )
    rows = [{"name": "p", "cpu_milli": "1", "memory_mib": "1", "num_gpu": "1", "gpu_milli": "1000", "duration": "9"}]
    result = rehearse(Workload(nodes, tuple(arrival_of(row) for row in rows)), SPREAD, FILL)
    assert result.measures[0].split_gpu_nodes == pytest.approx(0.5, abs=0.01)
    full = [{**rows[0], "num_gpu": "2"}]
    result = rehearse(Workload(nodes, tuple(arrival_of(row) for row in full)), SPREAD, FILL)
    assert result.measures[0].split_gpu_nodes == 0.0
    result = rehearse(Workload(nodes, tuple(arrival_of(row) for row in rows)), SPREAD, FILL)
    assert [one.name for one in result.measures[0].sizes] == ["1 GPU"]


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        (["nonsense"], "expected config=FILE, plugin=FILE or kubernetes=VERSION"),
        (["speed=1"], "expected config=FILE"),
        (["config="], "expected config=FILE"),
        (["kubernetes=1.20"], "1.33, 1.34, 1.35, 1.36 are known"),
        (["config=a", "config=b"], "config is given twice: a and b"),
    ],
)
def test_settings_that_make_no_sense_say_what_may_stand_there(entries: list[str], problem: str) -> None:
    with pytest.raises(RehearsalError, match=problem):
        Setting.of(entries)


def test_a_configuration_that_is_not_there_is_named() -> None:
    with pytest.raises(RehearsalError, match="config=nowhere: No such file"):
        rehearse(small_then_large(), SPREAD, Setting(config="nowhere"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x = 1", "there is no plugin"),
        ("x = \n", "SyntaxError"),
        ("x = 1\ny = nobody", r"plugin.py:2: NameError"),
        ("from bayplan.scheduler.framework.extension_points import FilterPlugin", "there is no plugin"),
    ],
)
def test_a_file_without_a_plugin_names_file_and_line(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "plugin.py").write_text(text)
    with pytest.raises(PluginFileError, match=problem):
        rehearse(small_then_large(), SPREAD, Setting(plugins=(tmp_path / "plugin.py",)))


def test_the_command_answers_as_text_data_and_page(tmp_path: Path) -> None:
    trace, nodes = "examples/workload/pods.csv", "examples/workload/nodes.csv"
    page = tmp_path / "page.html"
    question = ["rehearse", trace, "--nodes", nodes, "--after", "config=examples/scheduler/most-allocated.yaml"]
    result = CliRunner().invoke(main, [*question, "--stretch", "6", "-o", "json", "--html", str(page)])
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert len(data["changes"]["elsewhere"]) > 100
    assert data["measures"]["b"]["schedulingSuccessRate"] == 1.0
    assert data["b"]["config"] == "examples/scheduler/most-allocated.yaml"
    assert "Why pods land elsewhere" in page.read_text()
    same = CliRunner().invoke(main, [*question[:4], "--before", "kubernetes=1.36"])
    assert same.exit_code == 2
    assert "both sides are the same" in same.output


def test_the_page_names_pods_and_gates() -> None:
    big = pod("big<b>", resources={"requests": {"cpu": "5"}})
    result = rehearse(Workload((node("n1"),), (Arrival(0.0, big),)), Setting(kubernetes="1.33"), Setting())
    page = rehearsal_page(result)
    assert "shop/big&lt;b&gt;" in page
    assert "PodLevelResources" in page
