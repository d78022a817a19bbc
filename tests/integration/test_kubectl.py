"""Real kubectl on a live cluster: what people do all day."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import EXAMPLES, LiveCluster

pytestmark = pytest.mark.xdist_group("live-cluster")


class Kubectl:
    """kubectl in a namespace of the test's own."""

    def __init__(self, cluster: LiveCluster, binary: str, namespace: str) -> None:
        self.cluster, self.binary, self.namespace = cluster, binary, namespace

    def __call__(self, *arguments: str, check: bool = True, **environment: Any) -> str:
        return self.cluster.kubectl(self.binary, "-n", self.namespace, *arguments, check=check, **environment)

    def json(self, *arguments: str) -> dict[str, object]:
        loaded: dict[str, object] = json.loads(self(*arguments, "-o", "json"))
        return loaded


@pytest.fixture
def kubectl(live_cluster: LiveCluster, binary: str, request: pytest.FixtureRequest) -> Kubectl:
    namespace = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())[-60:].strip("-")
    outside = Kubectl(live_cluster, binary, "default")
    outside("create", "namespace", namespace)
    return Kubectl(live_cluster, binary, namespace)


def deploy(kubectl: Kubectl, replicas: int = 2) -> None:
    kubectl("create", "deployment", "web", "--image=nginx:1", f"--replicas={replicas}")
    kubectl("rollout", "status", "deployment/web", "--timeout=20s")


def test_the_example_application_becomes_available(live_cluster: LiveCluster, binary: str) -> None:
    text = live_cluster.kubectl(
        binary, "-n", "shop", "wait", "--for=condition=Available", "deployment", "--all", "--timeout=30s"
    )
    assert text.count("condition met") == 3
    pods = live_cluster.kubectl(binary, "-n", "shop", "get", "pods", "-o", "wide")
    assert pods.count("Running") == 7
    nodes = live_cluster.kubectl(
        binary, "-n", "shop", "get", "pods", "-l", "app=checkout", "-o", "jsonpath={.items[*].spec.nodeName}"
    )
    assert len(set(nodes.split())) == 2, "checkouts never share a node"


def test_rollout_history_and_undo(kubectl: Kubectl) -> None:
    deploy(kubectl)
    kubectl("set", "image", "deployment/web", "nginx=nginx:2")
    kubectl("rollout", "status", "deployment/web", "--timeout=20s")
    history = kubectl("rollout", "history", "deployment/web")
    assert "1  " in history
    assert "2  " in history
    kubectl("rollout", "undo", "deployment/web")
    kubectl("rollout", "status", "deployment/web", "--timeout=20s")
    assert "nginx:1" in kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
    kubectl("rollout", "restart", "deployment/web")
    kubectl("rollout", "status", "deployment/web", "--timeout=20s")
    assert len(kubectl("get", "replicasets", "-o", "name").split()) == 3


def test_scale_pause_and_resume(kubectl: Kubectl) -> None:
    deploy(kubectl)
    kubectl("scale", "deployment/web", "--replicas=5")
    kubectl("rollout", "status", "deployment/web", "--timeout=20s")
    assert kubectl("get", "deployment", "web").split()[-4] == "5/5"
    kubectl("rollout", "pause", "deployment/web")
    kubectl("set", "image", "deployment/web", "nginx=nginx:3")
    assert len(kubectl("get", "replicasets", "-o", "name").split()) == 1
    kubectl("rollout", "resume", "deployment/web")
    kubectl("rollout", "status", "deployment/web", "--timeout=20s")
    assert len(kubectl("get", "replicasets", "-o", "name").split()) == 2


def test_labels_annotations_and_selectors(kubectl: Kubectl) -> None:
    deploy(kubectl)
    kubectl("label", "pods", "-l", "app=web", "tier=front")
    assert len(kubectl("get", "pods", "-l", "tier in (front),app!=other", "-o", "name").split()) == 2
    kubectl("annotate", "deployment", "web", "note=hello")
    assert kubectl("get", "deployment", "web", "-o", "jsonpath={.metadata.annotations.note}") == "hello"
    kubectl("label", "pods", "--all", "tier-")
    assert "No resources found" in kubectl("get", "pods", "-l", "tier=front")


def test_describe_events_and_explain(kubectl: Kubectl) -> None:
    deploy(kubectl, 1)
    pod = kubectl("get", "pods", "-o", "name").strip()
    text = kubectl("describe", pod)
    assert "Successfully assigned" in text
    assert "default-scheduler" in text
    assert "QoS Class" in text
    assert "ScalingReplicaSet" in kubectl("describe", "deployment", "web")
    assert "SuccessfulCreate" in kubectl("get", "events")
    assert "Scheduled" in kubectl("events")
    assert "nodeName" in kubectl("explain", "pod.spec.nodeName")
    assert "deployments" in kubectl("api-resources")
    assert "apps/v1" in kubectl("api-versions")
    assert "Ready" in kubectl("describe", "node", "node-1")


def test_a_pod_that_fits_nowhere_says_why(kubectl: Kubectl) -> None:
    text = (EXAMPLES / "too-big.yaml").read_text().replace("namespace: shop", f"namespace: {kubectl.namespace}")
    import subprocess

    subprocess.run(
        [kubectl.binary, "--kubeconfig", str(kubectl.cluster.kubeconfig), "apply", "-f", "-"], input=text, text=True, check=True, timeout=30,
        capture_output=True,
    )  # fmt: skip
    kubectl("wait", "--for=condition=PodScheduled=false", "pod/year-end-report", "--timeout=20s")
    assert "6 Insufficient cpu" in kubectl("get", "events", "--field-selector", "reason=FailedScheduling")
    assert "Pending" in kubectl("get", "pod", "year-end-report")


def test_apply_patch_edit_and_replace(kubectl: Kubectl, tmp_path: Path) -> None:
    manifest = tmp_path / "settings.yaml"
    manifest.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: '1', b: '2'}\n")
    assert "created" in kubectl("apply", "-f", str(manifest))
    assert "unchanged" in kubectl("apply", "-f", str(manifest))
    manifest.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: '3'}\n")
    assert 'a: "3"' in kubectl("diff", "-f", str(manifest), check=False)
    assert "configured" in kubectl("apply", "-f", str(manifest))
    assert kubectl.json("get", "configmap", "settings")["data"] == {"a": "3"}
    kubectl("patch", "configmap", "settings", "--type=merge", "-p", '{"data":{"c":"4"}}')
    kubectl("patch", "configmap", "settings", "--type=json", "-p", '[{"op":"remove","path":"/data/a"}]')
    kubectl("patch", "configmap", "settings", "--type=strategic", "-p", '{"data":{"d":"5"}}')
    assert kubectl.json("get", "configmap", "settings")["data"] == {"c": "4", "d": "5"}
    editor = tmp_path / "editor"
    editor.write_text(
        f"#!{sys.executable}\nimport sys, pathlib\np = pathlib.Path(sys.argv[1])\np.write_text(p.read_text().replace('\"4\"', '\"6\"'))\n"
    )
    editor.chmod(0o755)
    assert "edited" in kubectl("edit", "configmap", "settings", KUBE_EDITOR=str(editor))
    assert kubectl.json("get", "configmap", "settings")["data"] == {"c": "6", "d": "5"}
    manifest.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {z: '9'}\n")
    assert "replaced" in kubectl("replace", "-f", str(manifest))
    assert kubectl.json("get", "configmap", "settings")["data"] == {"z": "9"}


def test_unknown_fields_and_invalid_objects_are_refused(kubectl: Kubectl, tmp_path: Path) -> None:
    manifest = tmp_path / "broken.yaml"
    manifest.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: c, image: i, imgae: j}]}\n"
    )
    assert 'unknown field "spec.containers[0].imgae"' in kubectl("apply", "-f", str(manifest), check=False)
    manifest.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: X_}\nspec: {containers: []}\n")
    text = kubectl("apply", "-f", str(manifest), check=False)
    assert "metadata.name" in text
    assert "spec.containers: Required value" in text
    assert "No resources found" in kubectl("get", "pods")


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_delete_with_every_cascade(kubectl: Kubectl, cascade: str) -> None:
    kubectl("delete", "deployment", "--all", "--timeout=20s")
    deploy(kubectl)
    kubectl("delete", "deployment", "web", f"--cascade={cascade}", "--timeout=20s")
    if cascade == "orphan":
        assert len(kubectl("get", "pods", "-o", "name").split()) == 2
        owners = kubectl("get", "replicasets", "-o", "jsonpath={.items[*].metadata.ownerReferences}")
        assert owners == ""
        kubectl("delete", "replicasets", "--all", "--timeout=20s")
    kubectl("wait", "--for=delete", "pod", "-l", "app=web", "--timeout=20s")
    assert "No resources found" in kubectl("get", "replicasets,pods")


def test_services_get_addresses_and_endpoints(kubectl: Kubectl) -> None:
    deploy(kubectl)
    kubectl("expose", "deployment", "web", "--port=80")
    kubectl("wait", "--for=jsonpath={.subsets[0].addresses[1].ip}", "endpoints/web", "--timeout=20s", check=False)
    service = kubectl.json("get", "service", "web")
    assert str(service["spec"]["clusterIP"]).startswith("10.96.")  # type: ignore[index]
    addresses = kubectl("get", "endpoints", "web", "-o", "jsonpath={.subsets[0].addresses[*].ip}").split()
    pods = kubectl("get", "pods", "-o", "jsonpath={.items[*].status.podIP}").split()
    assert sorted(addresses) == sorted(pods)


def test_cordon_taint_and_drain(live_cluster: LiveCluster, binary: str, kubectl: Kubectl) -> None:
    deploy(kubectl, 6)
    node = kubectl("get", "pods", "-o", "jsonpath={.items[0].spec.nodeName}")
    assert "drained" in kubectl(
        "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=40s"
    )
    assert "SchedulingDisabled" in kubectl("get", "node", node)
    kubectl("rollout", "status", "deployment/web", "--timeout=20s")
    assert node not in kubectl("get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}").split()
    kubectl("uncordon", node)
    kubectl("taint", "nodes", node, "dedicated=test:NoSchedule")
    assert "dedicated" in kubectl("get", "node", node, "-o", "jsonpath={.spec.taints[*].key}")
    kubectl("taint", "nodes", node, "dedicated-")
    assert "SchedulingDisabled" not in kubectl("get", "node", node)


def test_a_namespace_goes_with_everything_in_it(kubectl: Kubectl) -> None:
    deploy(kubectl)
    kubectl("create", "configmap", "c", "--from-literal=a=b")
    kubectl("delete", "namespace", kubectl.namespace, "--timeout=30s")
    assert "not found" in kubectl("get", "namespace", kubectl.namespace, check=False)
