"""`bayplan explain` of more than pending pods: what is printed, data, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from msgspec.structs import replace

from bayplan.api.types import core_v1, meta_v1
from bayplan.api.types.scheduling_v1alpha2 import (
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    PodGroupStatus,
)
from bayplan.cli.main import main
from bayplan.cli.questions.explain import Target, target_of
from bayplan.simulation.snapshots.snapshot import to_bytes
from bayplan.testing.builders import node, pod, taint
from bayplan.testing.handle import ClusterHandle
from tests.simulation.objects import copy_of, owned, running, set_of


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["explain", *arguments])


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """A pod on a node that is not there, a replica set whose pod is pending, a node with more than one obstacle."""
    web = set_of("web")
    waiting = replace(owned(web, "web-1", "", cpu="9"), status=core_v1.PodStatus(phase="Pending"))
    objects = (
        node("a", cpu="2", taints=(taint("only", "NoSchedule"),)),
        node("b"),
        web,
        waiting,
        running("lost", "gone"),
    )
    file = tmp_path / "cluster.bayplan"
    file.write_bytes(to_bytes(copy_of(*objects, running("fine", "b"))))
    return str(file)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("web", Target("Pod", "ns", "web")),
        ("pod/web", Target("Pod", "ns", "web")),
        ("shop/web", Target("Pod", "shop", "web")),
        ("deploy/web", Target("Deployment", "ns", "web")),
        ("deployments.apps/web", Target("Deployment", "ns", "web")),
        ("no/a", Target("Node", "ns", "a")),
        ("secret/x", Target("Pod", "secret", "x")),
    ],
)
def test_targets_are_named_as_for_kubectl(text: str, target: Target) -> None:
    assert target_of(text, "ns") == target


def test_a_bound_pod_that_does_not_run_is_a_negative_answer(cluster: str) -> None:
    result = run("lost", "--cluster", cluster)
    assert result.exit_code == 1
    assert (
        result.output.splitlines()[0] == "pod default/lost does not run: it is bound to node gone, which does not exist"
    )


def test_data_of_a_pod_hold_explanation_and_decision(cluster: str) -> None:
    result = run("lost", "--cluster", cluster, "-o", "json")
    data = json.loads(result.output)
    assert (result.exit_code, data["explanation"]["good"], data["best"]) == (1, False, ["b"])
    assert run("fine", "--cluster", cluster).exit_code == 0


def test_a_workload_is_explained_by_its_pods(cluster: str) -> None:
    result = run("rs/web", "--cluster", cluster)
    lines = result.output.splitlines()
    assert (result.exit_code, lines[0]) == (1, "replicaset default/web has 1 of 1 pod, of which none are ready")
    assert "web-1 is pending: 0/2 nodes are available" in lines[1]
    assert json.loads(run("rs/web", "--cluster", cluster, "-o", "json").output)["kind"] == "ReplicaSet"


def test_a_node_is_explained(cluster: str) -> None:
    assert run("node/b", "--cluster", cluster).exit_code == 0
    assert "takes only pods that tolerate" in run("node/a", "--cluster", cluster).output


def test_all_names_every_obstacle_of_a_node(cluster: str) -> None:
    short = run("web-1", "--cluster", cluster).output
    every = run("web-1", "--cluster", cluster, "--all").output
    assert [row.split()[0] for row in every.splitlines() if row.startswith(("a ", " a "))] == ["a"]
    assert short.count("NodeResourcesFit") < every.count("NodeResourcesFit")
    refusals = json.loads(run("web-1", "--cluster", cluster, "--all", "-o", "json").output)["refusals"]
    assert [one["plugin"] for one in refusals["a"]] == ["TaintToleration", "NodeResourcesFit"]


def test_patch_shows_the_command(cluster: str, tmp_path: Path) -> None:
    file = tmp_path / "c"
    file.write_bytes(to_bytes(copy_of(node("a", cpu="2"), pod("p", cpu="3"))))
    result = run("p", "--cluster", str(file), "--fix", "--patch")
    assert '{"containers":[{"name":"main","resources":{"requests":{"cpu":"2"}}}]}' in result.output
    assert "containers" not in run("p", "--cluster", str(file), "--fix").output


def as_reader(cluster: ClusterHandle, directory: Path) -> str:
    """A kubeconfig of somebody who may read all of namespace default and nothing else."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}
    metadata = {"name": "reader", "namespace": "default"}
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding"}
    cluster.apply({**binding, "metadata": metadata, "roleRef": role, "subjects": [subject]})
    config = yaml.safe_load(Path(cluster.kubeconfig).read_text())
    config["users"][0]["user"]["as"] = "reader"
    file = directory / "reader.kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return str(file)


def test_rights_in_one_namespace_are_enough(bayplan_cluster: ClusterHandle, tmp_path: Path) -> None:
    config = as_reader(bayplan_cluster, tmp_path)
    containers = [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "99"}}}]
    big = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "big"}, "spec": {"containers": containers}}
    small = {**big, "metadata": {"name": "small"}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}
    bayplan_cluster.apply(big, small)

    def state(name: str) -> dict[str, Any]:
        found: dict[str, Any] = (bayplan_cluster.get("pod", name) or {})["status"]
        return found

    bayplan_cluster.eventually(lambda: state("small")["phase"] == "Running" and state("big").get("conditions"))
    pending = run("big", "--kubeconfig", config)
    assert pending.exit_code == 1
    assert "default/big is pending" in pending.output
    assert "Insufficient cpu" in pending.output
    assert "does not exist" not in pending.output
    assert run("small", "--kubeconfig", config).exit_code == 0
    for arguments in (("big", "--fix"), ("node/node-1",)):
        refused = run(*arguments, "--kubeconfig", config)
        assert refused.exit_code == 2
        assert 'nodes is forbidden: User "reader" cannot list resource' in refused.output


@pytest.mark.parametrize("is_gang", [True, False])
def test_a_pod_that_would_be_placed_by_itself_is_told_what_its_scheduler_said(is_gang: bool, tmp_path: Path) -> None:
    metadata = meta_v1.ObjectMeta(name="train", namespace="default")
    refused = meta_v1.Condition(type="PodGroupScheduled", status="False", reason="Unschedulable", message="2 of 3 fit")
    gang = GangSchedulingPolicy(min_count=3)
    group = PodGroup(
        metadata=metadata,
        spec=PodGroupSpec(scheduling_policy=PodGroupSchedulingPolicy(gang=gang)),
        status=PodGroupStatus(conditions=(refused,)),
    )
    member = core_v1.PodSchedulingGroup(pod_group_name="train") if is_gang else None
    pods = [pod(f"p{number}", scheduling_group=member) for number in range(3)]
    about = core_v1.ObjectReference(kind="Pod", namespace="default", name="p0", uid=pods[0].metadata.uid)
    event = core_v1.Event(
        metadata=meta_v1.ObjectMeta(name="e", namespace="default"),
        involved_object=about,
        reason="FailedScheduling",
        message="kept out of the queue by EarliestDeadline: too late",
    )
    file = tmp_path / "cluster.bayplan"
    file.write_bytes(to_bytes(copy_of(node("a"), group, *pods, event)))
    result = run("default/p0", "--cluster", str(file))
    assert result.exit_code == 1, result.output
    first, because, alone, decision, *_ = result.output.splitlines()
    assert first == "pod default/p0 is pending"
    said = "its group train is not placed: Unschedulable: 2 of 3 fit"
    assert (
        said in because if is_gang else "its scheduler said last: kept out of the queue by EarliestDeadline" in because
    )
    assert alone == "If it were decided about by itself and now:"
    assert decision.startswith("default/p0: placed on a")
