"""`import bayplan`: what the package gives, and what that costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import bayplan
from bayplan.api.types import core_v1, meta_v1

MOST_MODULES = 30
"""Of one folder: more are a list in which nobody finds anything."""


def test_everything_named_is_there() -> None:
    for name in bayplan.__all__:
        assert getattr(bayplan, name) is not None
    assert dir(bayplan) == sorted(bayplan.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        bayplan.nonsense  # noqa: B018


def test_importing_it_loads_nothing() -> None:
    code = (
        "import sys, bayplan; print([name for name in sys.modules if name.startswith('bayplan.') or name == 'numpy'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture
def cluster() -> bayplan.ClusterSnapshot:
    amounts: dict[str, str | int | float] = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    nodes = [
        core_v1.Node(
            metadata=meta_v1.ObjectMeta(name=name, labels={"kubernetes.io/hostname": name}),
            status=core_v1.NodeStatus(capacity=amounts, allocatable=amounts),
        )
        for name in ("a", "b")
    ]
    requests = core_v1.ResourceRequirements(requests={"cpu": "1"})
    containers = (core_v1.Container(name="main", image="web", resources=requests),)
    placed = core_v1.Pod(
        metadata=meta_v1.ObjectMeta(name="web", namespace="default", uid="1"),
        spec=core_v1.PodSpec(containers=containers, node_name="a"),
        status=core_v1.PodStatus(phase="Running"),
    )
    huge = core_v1.ResourceRequirements(requests={"cpu": "5"})
    pending = core_v1.Pod(
        metadata=meta_v1.ObjectMeta(name="huge", namespace="default", uid="2"),
        spec=core_v1.PodSpec(containers=(core_v1.Container(name="main", image="huge", resources=huge),)),
    )
    return bayplan.ClusterSnapshot({"Node": nodes, "Pod": [placed, pending]})


def test_capacity_shows_itself(cluster: bayplan.ClusterSnapshot, tmp_path: Path) -> None:
    answer = bayplan.capacity(cluster, requests={"cpu": "1"})
    assert answer.result.room.total == 7
    assert "7 more pods" in repr(answer)
    assert answer._repr_html_().startswith("<iframe srcdoc=")
    answer.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert bayplan.capacity(cluster, "default/web").result.room.total == 7
    with pytest.raises(ValueError, match="either a pod"):
        bayplan.capacity(cluster)


def test_what_is_large_shows_what_it_is_in_a_line(cluster: bayplan.ClusterSnapshot) -> None:
    assert repr(cluster) == "<ClusterSnapshot: Node 2, Pod 2>"
    workload = bayplan.workload_on(cluster.of("Node"), [bayplan.Arrival(0.0, cluster.of("Pod")[0], lasts=5.0)])
    assert repr(workload) == "<Workload: 1 pods come to 2 nodes>"
    objects = [*cluster.of("Node"), cluster.of("Pod")[0]]
    run = bayplan.place(objects, [cluster.of("Pod")[1]])
    assert repr(run) == "<Run: 0 of 1 pods placed in 1 attempts>"
    assert "Insufficient cpu" in repr(bayplan.evaluate(objects, cluster.of("Pod")[1]))


def test_the_other_questions(cluster: bayplan.ClusterSnapshot) -> None:
    assert "huge" in repr(bayplan.fix(cluster, "default/huge"))
    assert [step.node for step in bayplan.consolidate(cluster).result.steps] in (["a"], ["b"])
    moved = bayplan.simulate(cluster, bayplan.Drain(("a",)))
    assert moved.result.good
    assert "all went well" in repr(moved)


def test_workloads(cluster: bayplan.ClusterSnapshot) -> None:
    arrivals = [bayplan.Arrival(float(number), cluster.of("Pod")[0], lasts=5.0) for number in range(1)]
    workload = bayplan.workload_on(cluster.of("Node"), arrivals)
    assert bayplan.replay(workload).result.placed == 1
    compared = bayplan.compare(workload, None, None, seeds=2)
    assert compared.result.seeds == 2
    assert "MEASURE" in repr(compared)


def test_what_belongs_together_has_a_package_of_its_own() -> None:
    root = Path(bayplan.__file__).parent
    modules = {
        folder.relative_to(root): len(list(folder.glob("*.py"))) for folder in root.rglob("*") if folder.is_dir()
    }
    del modules[Path("api/types")]  # one per group and version of Kubernetes
    assert {folder: count for folder, count in modules.items() if count > MOST_MODULES} == {}
    without_doc = [
        folder
        for folder, count in modules.items()
        if count and not (root / folder / "__init__.py").read_text().startswith('"""')
    ]
    assert without_doc == []
