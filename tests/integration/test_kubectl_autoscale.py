"""Real kubectl on a live cluster: `autoscale`, `get hpa` and `describe hpa`, while the load goes up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import LiveCluster, start, stop
from tests.integration.test_kubectl import Kubectl

pytestmark = pytest.mark.xdist_group("autoscaling-cluster")

_FLAGS = (
    "--horizontal-pod-autoscaler-sync-period=1s",
    "--horizontal-pod-autoscaler-cpu-initialization-period=0s",
)
_WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {bayplan.dev/cpu-usage: 50m}
    spec:
      containers: [{name: web, image: "web:1", resources: {requests: {cpu: 100m}}}]
"""


@pytest.fixture(scope="module")
def autoscaling_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """Three nodes, and autoscalers that look often."""
    directory = tmp_path_factory.mktemp("cluster")
    kubeconfig = directory / "kubeconfig"
    flags = [f"--controller-manager-flag={one}" for one in _FLAGS]
    process = start("--store", "memory:", "--port", "0", "--nodes", "3", "--kubeconfig", str(kubeconfig), *flags)
    yield LiveCluster(kubeconfig, process)
    stop(process)


@pytest.fixture
def kubectl(autoscaling_cluster: LiveCluster, binary: str, request: pytest.FixtureRequest) -> Kubectl:
    namespace = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())[-60:].strip("-")
    Kubectl(autoscaling_cluster, binary, "default")("create", "namespace", namespace)
    return Kubectl(autoscaling_cluster, binary, namespace)


def test_autoscale_get_and_describe(kubectl: Kubectl, tmp_path: Path) -> None:
    path = tmp_path / "web.yaml"
    path.write_text(_WEB)
    kubectl("apply", "-f", str(path))
    kubectl("rollout", "status", "deployment/web", "--timeout=20s")
    said = kubectl("autoscale", "deployment", "web", "--min=1", "--max=3", "--cpu-percent=80")
    assert said == "horizontalpodautoscaler.autoscaling/web autoscaled\n"
    kubectl("wait", "hpa/web", "--for=condition=ScalingActive", "--timeout=20s")
    header, row = kubectl("get", "hpa").splitlines()
    assert header.split() == ["NAME", "REFERENCE", "TARGETS", "MINPODS", "MAXPODS", "REPLICAS", "AGE"]
    assert row.split()[:-1] == ["web", "Deployment/web", "cpu:", "50%/80%", "1", "3", "1"]
    kubectl("annotate", "pod", "-l", "app=web", "--overwrite", "bayplan.dev/cpu-usage=400m")
    kubectl("wait", "hpa/web", "--for=jsonpath={.status.desiredReplicas}=3", "--timeout=20s")
    kubectl("rollout", "status", "deployment/web", "--timeout=20s")
    text = kubectl("describe", "hpa", "web")
    assert re.search(r"resource cpu on pods\s+\(as a percentage of request\):\s+\d+% \(\d+m\) / 80%", text)
    assert re.search(r"Min replicas:\s+1\nMax replicas:\s+3\n", text)
    assert re.search(r"Deployment pods:\s+\d current / 3 desired", text)
    assert re.search(r"AbleToScale\s+True\s+\S+", text)
    found = (
        r"ScalingActive\s+True\s+ValidMetricFound\s+the HPA was able to successfully calculate a replica count from cpu"
    )
    assert re.search(found, text)
    assert re.search(r"Normal\s+SuccessfulRescale\s+\S+.*horizontal-pod-autoscaler\s+New size: 3; reason: cpu", text)


def test_a_running_pod_is_resized(kubectl: Kubectl) -> None:
    if "1.28" in kubectl.binary:
        pytest.skip("kubectl 1.28 does not know the subresource")
    kubectl(
        "run",
        "sized",
        "--image=app:1",
        '--overrides={"spec":{"containers":[{"name":"sized","image":"app:1","resources":{"requests":{"cpu":"100m"}}}]}}',
    )
    kubectl("wait", "pod/sized", "--for=condition=Ready", "--timeout=20s")
    patch = '{"spec":{"containers":[{"name":"sized","resources":{"requests":{"cpu":"%s"}}}]}}'
    kubectl("patch", "pod", "sized", "--subresource=resize", "--patch", patch % "200m")
    path = "{.status.containerStatuses[0].resources.requests.cpu}"
    kubectl("wait", "pod/sized", f"--for=jsonpath={path}=200m", "--timeout=20s")
    refused = kubectl("patch", "pod", "sized", "--subresource=resize", "--patch", patch % "900", check=False)
    assert "node didn't have enough allocatable resources: cpu, requested: 900000" in refused
    node = kubectl("get", "pod", "sized", "-o", "jsonpath={.spec.nodeName}")
    large = '{"spec":{"nodeName":"%s","containers":[{"name":"large","image":"app:1","resources":{"requests":{"cpu":"3500m"}}}]}}'
    kubectl("run", "large", "--image=app:1", f"--overrides={large % node}")
    kubectl("patch", "pod", "sized", "--subresource=resize", "--patch", patch % "1")
    kubectl("wait", "pod/sized", "--for=condition=PodResizePending", "--timeout=20s")
    assert re.search(r"PodResizePending\s+True", kubectl("describe", "pod", "sized"))
    assert kubectl("get", "pod", "sized", "-o", f"jsonpath={path}") == "200m"
    assert kubectl("get", "pod", "sized", "-o", "jsonpath={.status.containerStatuses[0].restartCount}") == "0"


def test_node_groups_of_up_make_nodes_for_pods_that_wait(binary: str, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    group = "name=web,min=0,max=3,cpu=2,memory=8Gi,label=disk=ssd,provision=1"
    arguments = ("--store", "memory:", "--port", "0", "--nodes", "0", "--kubeconfig", str(kubeconfig))
    flag = "--controller-manager-flag=--scan-interval=1s"
    process = start(*arguments, "--node-group", group, flag)
    try:
        cluster = LiveCluster(kubeconfig, process)
        assert "No resources found" in cluster.kubectl(binary, "get", "nodes")
        cluster.kubectl(binary, "create", "deployment", "web", "--image=web:1", "--replicas=3")
        cluster.kubectl(binary, "set", "resources", "deployment/web", "--requests=cpu=1500m")
        cluster.kubectl(binary, "rollout", "status", "deployment/web", "--timeout=40s")
        nodes = cluster.kubectl(binary, "get", "nodes", "-l", "disk=ssd,bayplan.dev/node-group=web", "--no-headers")
        assert [line.split()[1] for line in nodes.splitlines()] == ["Ready"] * 3
        events = cluster.kubectl(binary, "get", "events", "--field-selector=reason=TriggeredScaleUp")
        assert "pod triggered scale-up: [{web " in events
    finally:
        stop(process)
