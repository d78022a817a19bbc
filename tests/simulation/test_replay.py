"""Workloads over time: replaying, comparing and recording them."""

from __future__ import annotations

import asyncio
import gzip
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bayplan.api.types import core_v1, meta_v1
from bayplan.cli.main import main
from bayplan.simulation.readers.reading import read
from bayplan.simulation.replay.compare import Figure, PriceError, Prices, compare, workload_of_copy
from bayplan.simulation.replay.gpu_shares import GPU
from bayplan.simulation.replay.run import Arrival, Workload, replay, stretched
from bayplan.simulation.replay.traces import MODEL, TraceError, read_nodes, read_pods
from bayplan.simulation.snapshots.recording import Recorder, is_recording, read_recording, recorded_kinds
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.randomness import SeededRandomness
from bayplan.support.virtual_time import run
from bayplan.testing.builders import deployment

MOST_ALLOCATED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]}}
"""


def node(name: str, cpu: str = "4") -> core_v1.Node:
    amounts: dict[str, Any] = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    return core_v1.Node(
        metadata=meta_v1.ObjectMeta(name=name, labels={"kubernetes.io/hostname": name}),
        status=core_v1.NodeStatus(capacity=amounts, allocatable=amounts),
    )


def pod(name: str, cpu: str = "2", priority: int = 0) -> core_v1.Pod:
    requests = core_v1.ResourceRequirements(requests={"cpu": cpu, "memory": "1Gi"})
    return core_v1.Pod(
        metadata=meta_v1.ObjectMeta(name=name, namespace="default", uid=name),
        spec=core_v1.PodSpec(containers=(core_v1.Container(name="main", resources=requests),), priority=priority),
    )


class TestReplay:
    def test_a_pod_of_another_scheduler_is_never_placed_and_says_why(self) -> None:
        foreign, ours = pod("foreign"), pod("ours")
        foreign.spec.scheduler_name = "mine"
        result = replay(Workload((node("a"),), (Arrival(0.0, foreign, ends=9.0), Arrival(1.0, ours, lasts=5.0))))
        assert result.placed == 1
        problem = "no profile has schedulerName 'mine'; add one to the configuration"
        assert result.never == [("default/foreign", problem)]
        staying = replay(Workload((node("a"),), (Arrival(0.0, foreign), Arrival(1.0, ours, lasts=5.0))))
        assert staying.never == [("default/foreign", problem)]

    @pytest.mark.parametrize("pods", [1, 200])
    def test_looks_are_as_many_however_long_pods_last_and_wait(self, pods: int) -> None:
        arrivals = tuple(Arrival(float(number % 7), pod(f"p-{number}", "4"), lasts=3600.0) for number in range(pods))
        result = replay(Workload((node("a"),), arrivals), samples=40)
        assert result.placed == pods
        assert result.seconds == pytest.approx(3600.0 * pods, abs=7)
        assert 40 <= len(result.moments) <= 82
        times = [moment.at for moment in result.moments[:-1]]
        gaps = [after - before for before, after in pairwise(times)]
        assert gaps == pytest.approx([gaps[0]] * len(gaps))
        assert result.mean_use("cpu") == pytest.approx(1.0, abs=0.05)

    def test_pods_wait_for_those_before_them(self) -> None:
        arrivals = tuple(Arrival(0.0, pod(f"p{number}"), lasts=100.0) for number in range(5))
        result = replay(Workload((node("a"),), arrivals))
        assert result.placed == 5
        assert result.waits == [0.0, 0.0, 100.0, 100.0, 200.0]
        assert result.seconds == 300.0
        assert (result.most_running, result.most_pending) == (2, 3)
        assert result.node_seconds == {"a": 300.0}

    def test_a_pod_that_ends_at_a_certain_time_may_never_be_placed(self) -> None:
        arrivals = (
            Arrival(0.0, pod("large", "4"), ends=1000.0),
            Arrival(10.0, pod("late"), ends=500.0),
            Arrival(20.0, pod("lucky"), ends=1500.0),
        )
        result = replay(Workload((node("a"),), arrivals))
        assert [name for name, _ in result.never] == ["default/late"]
        assert "Insufficient cpu" in result.never[0][1]
        assert result.waits == [0.0, 980.0]

    def test_every_pod_that_is_never_placed_has_its_reason(self) -> None:
        gated = pod("gated")
        gated.spec.scheduling_gates = (core_v1.PodSchedulingGate(name="example.com/wait"),)
        arrivals = tuple(Arrival(float(at), one) for at, one in enumerate((pod("x", "9"), pod("y", "9"), gated)))
        reasons = dict(replay(Workload((node("a"),), arrivals)).never)
        assert "Insufficient cpu" in reasons["default/x"]
        assert reasons["default/y"] == reasons["default/x"]
        assert "example.com/wait" in reasons["default/gated"]

    def test_the_important_come_first_and_preempt(self) -> None:
        arrivals = (
            Arrival(0.0, pod("low", "4"), lasts=100.0),
            Arrival(10.0, pod("next", "4"), lasts=100.0),
            Arrival(20.0, pod("high", "4", priority=5), lasts=50.0),
        )
        result = replay(Workload((node("a"),), arrivals))
        assert result.preemptions == 1
        assert result.placed == 3
        assert result.waits == [0.0, 0.0, 160.0]  # low at once, high at once, next after high and low anew
        assert result.seconds == 270.0

    def test_what_is_used_and_what_is_stranded(self) -> None:
        workload = Workload(
            (node("a"), node("b")), (Arrival(0.0, pod("p", "3"), ends=50.0), Arrival(0.0, pod("q", "3"), ends=100.0))
        )
        result = replay(workload, samples=10)
        assert result.moments[1].used["cpu"] == pytest.approx(6 / 8)
        assert result.moments[8].used["cpu"] == pytest.approx(3 / 8)
        free_for_pods = dict(result.fragmentation)
        assert max(free_for_pods.values()) == 0.0  # 2 of 8 free is less than one pod; nothing usable is stranded
        halves = Workload(
            (node("a"), node("b")), tuple(Arrival(0.0, pod(f"p{n}", "2500m"), ends=90.0) for n in range(2))
        )
        assert max(share for _, share in replay(halves, samples=10).fragmentation) == 1.0  # 3 free, in two halves

    def test_equal_seeds_give_equal_runs(self) -> None:
        arrivals = tuple(Arrival(float(number), pod(f"p{number}", "500m"), lasts=30.0) for number in range(60))
        workload = Workload(tuple(node(f"n{number}") for number in range(5)), arrivals)
        one, same, other = (replay(workload, seed=seed) for seed in (1, 1, 2))
        assert one == same
        assert one.node_seconds != other.node_seconds

    def test_stretched(self) -> None:
        workload = Workload((), (Arrival(10.0, pod("p"), ends=20.0), Arrival(10.0, pod("q"), lasts=5.0)))
        assert [(one.ends, one.lasts) for one in stretched(workload, 3).arrivals] == [(40.0, None), (None, 15.0)]


class TestTables:
    def test_gpu_shares_and_models(self, tmp_path: Path) -> None:
        pods, nodes = tmp_path / "pods.csv", tmp_path / "nodes.csv"
        pods.write_text(
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n"
            "a,1000,1024,1,500,V100M16|V100M32,5,15\nb,1000,1024,0,0,,7,9\n"
        )
        nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\nn0,8000,8192,2,V100M32\nn1,8000,8192,2,P100\n")
        arrivals = read_pods(pods)
        assert [(one.at, one.ends) for one in arrivals] == [(5.0, 15.0), (7.0, 9.0)]
        assert arrivals[0].pod.spec.containers[0].resources.requests[GPU] == "500"
        found = read_nodes(nodes)
        assert found[0].status.allocatable[GPU] == "2000"
        assert found[0].metadata.labels[MODEL] == "V100M32"
        assert read_nodes(str(nodes)) == found
        assert read_pods(str(pods)) == arrivals
        assert replay(Workload(found, arrivals)).node_seconds["n0"] >= 10.0

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("name,cpu_milli\n", "no column memory_mib"),
            (
                "name,cpu_milli,memory_mib,creation_time,duration\np,much,1,0,1\n",
                "line 2: cpu_milli: 'much' is no number",
            ),
        ],
    )
    def test_mistakes_are_told(self, tmp_path: Path, text: str, message: str) -> None:
        file = tmp_path / "pods.csv"
        file.write_text(text)
        with pytest.raises(TraceError, match=message):
            read_pods(file)


class TestCompare:
    def test_packing_leaves_more_nodes_empty(self, tmp_path: Path) -> None:
        config = tmp_path / "most.yaml"
        config.write_text(MOST_ALLOCATED)
        arrivals = tuple(Arrival(10.0 * number, pod(f"p{number}", "500m"), lasts=100.0) for number in range(40))
        workload = Workload(tuple(node(f"n{number}") for number in range(6)), arrivals)
        told: list[int] = []
        result = compare(workload, None, str(config), seeds=3, prices=Prices.of({"default": 2}), told=told.append)
        lines = {line.name: line for line in result.lines}
        assert lines["nodes with pods, mean"].better == "B"
        assert lines["cost of nodes with pods"].better == "B"
        assert lines["unevenness of nodes, mean"].better == "A"
        assert lines["pods never placed"].better == ""
        assert told == [1, 2, 3, 4, 5, 6]

    def test_a_margin_is_half_of_the_confidence_interval(self) -> None:
        figure = Figure.of([1.0, 2.0, 3.0])
        assert figure.mean == 2.0
        assert figure.margin == pytest.approx(4.30 / 3**0.5)
        assert Figure.of([5.0]) == Figure(5.0, 0.0)

    def test_prices(self) -> None:
        prices = Prices.of({"kubernetes.io/hostname=a": 3, "default": 1})
        assert [prices.of_node(node(name)) for name in "ab"] == [3.0, 1.0]
        with pytest.raises(PriceError, match="price per hour"):
            Prices.of(["cheap"])
        with pytest.raises(PriceError, match="no label selector"):
            Prices.of({"a in b": 1})

    def test_the_pods_of_a_cluster_come_anew(self, tmp_path: Path) -> None:
        objects = [
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}},
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "web-1"},
                "spec": {"nodeName": "a", "containers": [{"name": "c"}]},
            },
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": "agent-1",
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u"}],
                },
                "spec": {"nodeName": "a", "containers": [{"name": "c"}]},
            },
        ]
        (tmp_path / "all.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        workload = workload_of_copy(read(tmp_path / "all.json"))
        assert [(one.pod.metadata.name, one.pod.spec.node_name) for one in workload.arrivals] == [("web-1", "")]
        assert [one.metadata.name for one in workload.others] == ["agent-1"]


def _claim(name: str) -> core_v1.PersistentVolumeClaim:
    resources = core_v1.VolumeResourceRequirements(requests={"storage": "1Gi"})
    return core_v1.PersistentVolumeClaim(
        metadata=meta_v1.ObjectMeta(name=name, namespace="default"),
        spec=core_v1.PersistentVolumeClaimSpec(access_modes=("ReadWriteOnce",), resources=resources),
    )


def _with_claim(name: str, claim: str) -> core_v1.Pod:
    one = pod(name, "1")
    source = core_v1.PersistentVolumeClaimVolumeSource(claim_name=claim)
    one.spec.volumes = (core_v1.Volume(name="data", persistent_volume_claim=source),)
    one.spec.containers = (core_v1.Container(name="main", image="app:1"),)
    one.metadata.uid = ""
    return one


class TestRecording:
    def test_what_was_recorded_is_played_again(self, tmp_path: Path) -> None:
        file = tmp_path / "shop.rec"
        lines: list[bytes] = []

        async def record() -> None:
            async with VirtualCluster(nodes=3) as cluster:
                recorder = Recorder(
                    cluster.client, lines.append, clock=cluster.clock, randomness=SeededRandomness("record")
                )
                task = asyncio.create_task(recorder.run())
                await cluster.client.create(deployment("web", 4))
                await cluster.advance(minutes=5)
                await cluster.client.patch(type(deployment("web")), "web", "default", {"spec": {"replicas": 1}})
                await cluster.advance(minutes=5)
                task.cancel()
                assert recorder.pods == 4

        run(record())
        with gzip.open(file, "wb") as output:
            output.writelines(lines)
        assert is_recording(file)
        workload = read_recording(str(file))
        assert len(workload.nodes) == 3
        assert sorted(round((one.ends or 0) / 100) for one in workload.arrivals) == [0, 3, 3, 3]
        assert replay(workload).placed == 4

    def test_what_else_bears_on_placement_is_kept_as_it_was_first_seen(self, tmp_path: Path) -> None:
        file = tmp_path / "shop.rec"
        lines: list[bytes] = []

        async def record() -> None:
            async with VirtualCluster(nodes=1) as cluster:
                kinds = await recorded_kinds(cluster.client)
                recorder = Recorder(
                    cluster.client, lines.append, clock=cluster.clock, randomness=SeededRandomness("r"), kinds=kinds
                )
                task = asyncio.create_task(recorder.run())
                await cluster.advance(minutes=1)
                await cluster.client.create(_claim("data"))
                await cluster.client.create(_with_claim("db", "data"))
                await cluster.advance(minutes=1)
                bound = await cluster.client.get(core_v1.PersistentVolumeClaim, "data", "default")
                assert bound.status.phase == "Bound"
                task.cancel()

        run(record())
        with gzip.open(file, "wb") as output:
            output.writelines(lines)
        workload = read_recording(file)
        kinds = {type(one).__name__ for one in workload.others}
        assert {"PersistentVolumeClaim", "StorageClass", "PriorityClass", "Namespace"} <= kinds
        assert "PersistentVolume" not in kinds
        assert "Secret" not in kinds
        (claim,) = (one for one in workload.others if type(one) is core_v1.PersistentVolumeClaim)
        assert claim.spec.volume_name == ""
        assert replay(workload).never == []
        without = Workload(workload.nodes, workload.arrivals)
        ((name, reason),) = replay(without).never
        assert (name, 'persistentvolumeclaim "data" not found' in reason) == ("default/db", True)

    def test_one_that_broke_off_is_good_up_to_there(self, tmp_path: Path) -> None:
        file = tmp_path / "broken.rec"
        header = b'{"format":"bayplan.dev/recording","version":1,"began":"2026-01-02T03:04:05Z"}\n'
        come = b'{"at":1,"come":{"metadata":{"name":"p","namespace":"default"},"spec":{"containers":[{"name":"c"}]}}}\n'
        file.write_bytes(gzip.compress(header + come + b'{"at":2,"go')[:-8])
        assert len(read_recording(file).arrivals) == 1

    def test_a_newer_form_is_refused(self, tmp_path: Path) -> None:
        file = tmp_path / "new.rec"
        file.write_bytes(gzip.compress(b'{"format":"bayplan.dev/recording","version":9,"began":""}\n'))
        with pytest.raises(TraceError, match="version 9"):
            read_recording(file)


class TestCommands:
    @pytest.fixture
    def tables(self, tmp_path: Path) -> tuple[str, str]:
        pods, nodes = tmp_path / "pods.csv", tmp_path / "nodes.csv"
        rows = "".join(f"p{number},2000,1024,{number},50\n" for number in range(6))
        pods.write_text(f"name,cpu_milli,memory_mib,creation_time,duration\n{rows}")
        nodes.write_text("name,cpu_milli,memory_mib\nn0,4000,16384\nn1,4000,16384\n")
        return str(pods), str(nodes)

    def invoke(self, *arguments: str) -> Any:
        return CliRunner().invoke(main, arguments)

    def test_replay(self, tables: tuple[str, str], tmp_path: Path) -> None:
        page = tmp_path / "page.html"
        result = self.invoke("replay", tables[0], "--nodes", tables[1], "--html", str(page))
        assert result.exit_code == 0, result.output
        assert "6 of 6 pods placed on 2 nodes" in result.output
        assert "<svg" in page.read_text()

    def test_replay_as_data(self, tables: tuple[str, str]) -> None:
        data = json.loads(self.invoke("replay", tables[0], "--nodes", tables[1], "-o", "json").output)
        assert data["placed"] == 6
        assert data["waitSeconds"]["longest"] == 46.0
        assert data["mostPending"] == 2

    def test_a_pod_that_is_never_placed_is_exit_code_1(self, tables: tuple[str, str], tmp_path: Path) -> None:
        (tmp_path / "pods.csv").write_text("name,cpu_milli,memory_mib,creation_time,duration\nhuge,64000,1,0,9\n")
        result = self.invoke("replay", tables[0], "--nodes", tables[1])
        assert result.exit_code == 1
        assert "Insufficient cpu" in result.output

    def test_compare(self, tables: tuple[str, str], tmp_path: Path) -> None:
        config, page = tmp_path / "most.yaml", tmp_path / "page.html"
        config.write_text(MOST_ALLOCATED)
        arguments = ("--nodes", tables[1], "--scheduler-config", str(config), "--seeds", "2", "--html", str(page))
        result = self.invoke("compare", tables[0], *arguments)
        assert result.exit_code == 0, result.output
        assert "A is the defaults" in result.output
        assert "<svg" in page.read_text()

    @pytest.mark.parametrize(
        ("arguments", "code", "text"),
        [
            (("replay", "nowhere.csv", "--nodes", "x.csv"), 2, "x.csv: No such file"),
            (("replay", "nowhere.csv"), 2, "a table of pods needs nodes"),
            (("replay", "--nodes", "x.csv"), 2, "name a TRACE"),
            (("replay", "--kubeconfig", "nowhere"), 2, "name a kubeconfig with --kubeconfig"),
            (("replay", "a.csv", "--nodes", "b.csv", "--cluster", "c"), 2, "not from both"),
        ],
    )
    def test_mistakes(self, arguments: tuple[str, ...], code: int, text: str) -> None:
        result = self.invoke(*arguments)
        assert result.exit_code == code
        assert text in result.output
