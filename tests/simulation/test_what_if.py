"""What happens to a cluster if something is done to it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from bayplan.api.types.core_v1 import Taint as NodeTaint
from bayplan.cli.main import main
from bayplan.cli.questions.simulate import seconds_in
from bayplan.simulation.actions import (
    Action,
    ActionError,
    AddNodes,
    Apply,
    Cordon,
    DeleteNode,
    Drain,
    FailZone,
    Scale,
    Taint,
    Upgrade,
)
from bayplan.simulation.questions.what_if import Outcome, simulate
from bayplan.simulation.readers.reading import read
from bayplan.simulation.snapshots.planner import node_shape
from bayplan.simulation.snapshots.snapshot import ClusterSnapshot


def node(name: str, zone: str, cpu: str = "4") -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def workload(name: str, replicas: int, cpu: str = "500m", **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "main", "image": name, "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec}},
        },
    }


def budget(name: str, **limits: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": name}}, **limits},
    }


def copy_of(directory: Path, *objects: dict[str, Any]) -> ClusterSnapshot:
    for number, obj in enumerate(objects):
        (directory / f"{number}.json").write_text(json.dumps(obj))
    return read(directory)


@pytest.fixture
def shop(tmp_path: Path) -> ClusterSnapshot:
    """Four nodes in two zones with room for 32 pods, of which 20 are there."""
    nodes = [node(f"n{number}", f"z{number % 2}") for number in range(4)]
    return copy_of(tmp_path, *nodes, workload("web", 20), budget("web", maxUnavailable=2))


def done(copy: ClusterSnapshot, *actions: Action, **how: Any) -> Outcome:
    return simulate(copy, actions, **how)


class TestDrain:
    def test_pods_come_to_other_nodes(self, shop: ClusterSnapshot) -> None:
        outcome = done(shop, Drain(("n1",)))
        assert outcome.good
        assert outcome.settled
        assert "n1" not in outcome.after
        assert sum(outcome.after.values()) == 20
        assert {one.reason for one in outcome.departures} == {"EvictionByEvictionAPI"}
        assert {one.node for one in outcome.departures} == {"n1"}
        assert all(move.came_to not in ("", "n1") for move in outcome.moves())

    def test_a_budget_makes_it_slow_but_is_kept(self, shop: ClusterSnapshot) -> None:
        outcome = done(shop, Drain(("n1", "n2")))
        (web,) = outcome.workloads
        assert web.name == "default/Deployment/web"
        assert web.least >= 18
        assert web.missing > 0

    def test_a_budget_that_allows_nothing_is_a_problem(self, tmp_path: Path) -> None:
        copy = copy_of(tmp_path, node("a", "z"), node("b", "z"), workload("web", 4), budget("web", maxUnavailable=0))
        outcome = done(copy, Drain(("a",), patience=60.0))
        assert not outcome.good
        assert any("disruption budget" in problem for problem in outcome.problems)
        assert outcome.before["a"] == outcome.after["a"]

    def test_daemons_stay(self, tmp_path: Path) -> None:
        daemon = workload("agent", 1, cpu="100m")
        daemon["kind"] = "DaemonSet"
        del daemon["spec"]["replicas"]
        copy = copy_of(tmp_path, node("a", "z"), node("b", "z"), daemon, workload("web", 4))
        outcome = done(copy, Drain(("a",)))
        assert outcome.good
        assert outcome.after == {"a": 1, "b": 5}


class TestOtherActions:
    def test_a_zone_that_fails_is_left_after_five_minutes(self, shop: ClusterSnapshot) -> None:
        outcome = done(shop, FailZone("z0"))
        (web,) = outcome.workloads
        first = min(one.at for one in outcome.placements)
        assert 340 <= first <= 380
        assert web.least == 20 - outcome.before["n0"] - outcome.before["n2"]
        assert len(outcome.pending) == 20 - 16
        assert not outcome.good
        left = Counter(move.left for move in outcome.moves())
        assert left == {"n0": outcome.before["n0"], "n2": outcome.before["n2"]}
        assert {move.reason for move in outcome.moves()} == {"DeletionByTaintManager"}
        assert sum(not move.came_to for move in outcome.moves()) == 4

    def test_a_node_that_is_deleted_takes_its_pods_with_it(self, shop: ClusterSnapshot) -> None:
        outcome = done(shop, DeleteNode("n0"), seconds=900)
        assert outcome.good
        assert "n0" not in outcome.after
        assert sum(outcome.after.values()) == 20
        assert outcome.seconds == 900

    def test_an_upgrade_replaces_every_node(self, shop: ClusterSnapshot) -> None:
        outcome = done(shop, Upgrade(surge=2))
        assert outcome.good
        assert set(outcome.after) == {f"n{number}-new" for number in range(4)}

    def test_scaling_beyond_the_room_leaves_pods_pending(self, shop: ClusterSnapshot) -> None:
        outcome = done(shop, Scale("deployment", "default", "web", 40))
        assert len(outcome.pending) == 8
        assert all(one.new and "Insufficient cpu" in one.reason for one in outcome.pending)
        assert outcome.samples[-1].pending == 8
        assert outcome.samples[-1].cpu == pytest.approx(1.0)

    def test_added_nodes_make_room(self, shop: ClusterSnapshot) -> None:
        outcome = done(shop, AddNodes(1, node_shape(shop)), Scale("deployment", "default", "web", 40))
        assert outcome.good
        assert sum(outcome.after.values()) == 40

    def test_a_cordoned_node_takes_no_pods(self, shop: ClusterSnapshot) -> None:
        outcome = done(shop, Cordon("n0"), Scale("deployment", "default", "web", 24))
        assert outcome.after["n0"] == outcome.before["n0"]

    def test_a_taint_drives_pods_away(self, shop: ClusterSnapshot) -> None:
        outcome = done(shop, Taint("n0", NodeTaint(key="broken", effect="NoExecute")))
        assert "n0" not in outcome.after
        assert {one.reason for one in outcome.departures} == {"DeletionByTaintManager"}

    def test_more_important_pods_preempt(self, shop: ClusterSnapshot) -> None:
        urgent = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "urgent"},
            "value": 9,
        }
        objects = (urgent, workload("vip", 15, priorityClassName="urgent"))
        outcome = done(shop, Apply(tuple((Path("x"), obj) for obj in objects)))
        reasons = Counter(one.reason for one in outcome.departures)
        assert reasons["PreemptionByScheduler"] == 3
        assert {one.pod.partition("-")[0] for one in outcome.pending} == {"default/web"}

    @pytest.mark.parametrize(
        ("action", "text"),
        [
            (Drain(("n9",)), "no node n9"),
            (FailZone("z9"), "no node in zone z9"),
            (Scale("deployment", "default", "other", 1), "not found"),
            (Scale("gadget", "default", "web", 1), "no resource gadget"),
            (Upgrade("pool=x"), "no node has the labels pool=x"),
        ],
    )
    def test_what_is_not_there_is_told(self, shop: ClusterSnapshot, action: Action, text: str) -> None:
        with pytest.raises(ActionError, match=text):
            done(shop, action)


def test_a_drain_of_a_name_instead_of_names_is_told() -> None:
    with pytest.raises(TypeError, match=r"such as Drain\(\('n1',\)\)"):
        Drain(cast(Any, "n1"))


def test_equal_seeds_give_equal_outcomes(shop: ClusterSnapshot) -> None:
    one, same, other = (done(shop, Drain(("n1",)), seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one.trace != other.trace


class TestCommand:
    def run(self, directory: Path, *arguments: str, text: str | None = None) -> Any:
        return CliRunner().invoke(main, ["simulate", "--cluster", str(directory), *arguments], input=text)

    def test_a_drain_as_a_table_and_a_page(self, shop: ClusterSnapshot, tmp_path: Path) -> None:
        page = tmp_path / "page.html"
        result = self.run(tmp_path, "--drain", "n1", "--html", str(page))
        assert result.exit_code == 0, result.output
        assert "drain n1: all went well" in result.output
        assert "evicted" in result.output
        assert "<svg" in page.read_text()

    def test_a_negative_answer_is_exit_code_1(self, shop: ClusterSnapshot, tmp_path: Path) -> None:
        result = self.run(tmp_path, "--scale", "deployment/default/web=40", "-o", "json")
        assert result.exit_code == 1
        assert json.loads(result.output)["good"] is False

    def test_manifests_from_standard_input(self, shop: ClusterSnapshot, tmp_path: Path) -> None:
        result = self.run(tmp_path, "--apply", "-", text=json.dumps(workload("api", 3)))
        assert result.exit_code == 0, result.output
        assert "3 pods placed" in result.output

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ((), "nothing to simulate"),
            (("--taint", "x"), "NODE=KEY"),
            (("--scale", "web=3"), "KIND/NAMESPACE/NAME=N"),
            (("--for", "soon"), "expected a time"),
            (("--like", "n1", "--drain", "n1"), "--add-nodes"),
        ],
    )
    def test_usage_errors_are_exit_code_2(
        self, shop: ClusterSnapshot, tmp_path: Path, arguments: tuple[str, ...], text: str
    ) -> None:
        result = self.run(tmp_path, *arguments)
        assert result.exit_code == 2
        assert text in result.output

    def test_a_node_that_is_not_there_is_exit_code_2(self, shop: ClusterSnapshot, tmp_path: Path) -> None:
        result = self.run(tmp_path, "--drain", "n9")
        assert result.exit_code == 2
        assert "there is no node n9" in result.output

    @pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("5m", 300), ("1h30m", 5400), ("149d", 149 * 86400)])
    def test_times(self, text: str, seconds: float) -> None:
        assert seconds_in(text) == seconds


@pytest.mark.parametrize("annotated", [False, True], ids=["as fields", "as an annotation"])
def test_pods_follow_the_pod_that_they_need_during_execution(tmp_path: Path, annotated: bool) -> None:
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "topology.kubernetes.io/zone"}
    rules = {"podAffinity": {"requiredDuringSchedulingRequiredDuringExecution": [term]}}
    spec: dict[str, Any] = {} if annotated else {"affinity": rules}
    web = workload("web", 2, **spec)
    if annotated:
        annotations = {"bayplan.dev/affinity-during-execution": json.dumps(rules)}
        web["spec"]["template"]["metadata"]["annotations"] = annotations
    first = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["za"]}]}
    preferred = [{"weight": 100, "preference": first}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    db = workload("db", 1, cpu="900m", nodeSelector={"role": "db"}, affinity=affinity)
    nodes = [node("a1", "za", cpu="1"), node("a2", "za"), node("b1", "zb", cpu="1"), node("b2", "zb")]
    for one in (nodes[0], nodes[2]):
        one["metadata"]["labels"]["role"] = "db"
    outcome = done(copy_of(tmp_path, *nodes, db, web), Drain(("a1",)))
    moved = Counter((move.workload, move.left, move.came_to) for move in outcome.moves())
    assert moved == {("default/Deployment/db", "a1", "b1"): 1, ("default/Deployment/web", "a2", "b2"): 2}
    assert outcome.good


def test_plugins_of_files_decide_in_a_simulation(tmp_path: Path) -> None:
    file = tmp_path / "keep_off.py"
    file.write_text(
        "from bayplan.scheduler.framework.extension_points import ScalarFilterPlugin, Scope\n"
        "from bayplan.scheduler.framework.verdicts import Status\n\n\n"
        "class KeepOff(ScalarFilterPlugin):\n"
        "    name = 'KeepOff'\n"
        "    filter_scope = Scope.NODE\n\n"
        "    def filter_node(self, state, pod, row):\n"
        "        kept_off = self.snapshot.nodes[row].metadata.name == 'n1'\n"
        "        return self.reasons.code(Status.UNSCHEDULABLE, self.name, 'kept off') if kept_off else 0\n"
    )
    copy = tmp_path / "copy.json"
    copy.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [node("n1", "a"), node("n2", "a")]}))
    web = tmp_path / "web.json"
    web.write_text(json.dumps(workload("web", 2)))
    asked = ["simulate", "--cluster", str(copy), "--apply", str(web)]

    def nodes(*options: str) -> set[str]:
        result = CliRunner().invoke(main, [*asked, "-o", "json", *options])
        assert result.exit_code == 0, result.output
        return {one["node"] for one in json.loads(result.stdout)["placements"]}

    assert nodes() == {"n1", "n2"}
    assert nodes("--plugin", str(file)) == {"n2"}
    file.write_text("class Nothing: pass\n")
    result = CliRunner().invoke(main, [*asked, "--plugin", str(file)])
    assert (result.exit_code, "there is no plugin" in result.output) == (1, True)
