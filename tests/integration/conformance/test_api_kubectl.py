"""What kubectl needs of the API server, in a cluster whose controllers and nodes are at work; the server alone is in `tests/integration/test_kubectl_alone.py`.

Conformance: Kubectl client (version, diff, run pod, server-side dry-run).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conformance.workloads import OTHER_IMAGE, SERVER_IMAGE, template, workload
from tests.integration.conftest import LiveCluster


@pytest.fixture
def namespace(live_cluster: LiveCluster, binary: str, request: pytest.FixtureRequest) -> Iterator[str]:
    version = Path(binary).name.replace(".", "-")
    name = f"{request.function.__name__.removeprefix('test_').replace('_', '-')[:40]}-{version}"
    live_cluster.kubectl(binary, "create", "namespace", name)
    yield name
    live_cluster.kubectl(binary, "delete", "namespace", name)


def test_both_versions_are_shown(live_cluster: LiveCluster, binary: str) -> None:
    """Kubectl client Kubectl version should check is all data is printed."""
    shown = live_cluster.kubectl(binary, "version")
    for item in ("Client Version: ", "Server Version: "):
        assert re.search(rf"{item}v\d\.\d+\.[\w.+-]+", shown), shown


def test_a_difference_to_a_running_deployment_is_shown(
    live_cluster: LiveCluster, binary: str, namespace: str, tmp_path: Path
) -> None:
    """Kubectl client Kubectl diff should check if kubectl diff finds a difference for Deployments."""
    manifest = tmp_path / "ferry.json"
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        **workload("ferry", {"app": "ferry"}, template({"app": "ferry"})),
    }
    manifest.write_text(json.dumps(body))
    in_namespace = ("-n", namespace)
    live_cluster.kubectl(binary, *in_namespace, "create", "-f", str(manifest))
    live_cluster.kubectl(binary, *in_namespace, "rollout", "status", "deployment/ferry", "--timeout=30s")
    manifest.write_text(manifest.read_text().replace(SERVER_IMAGE, OTHER_IMAGE))
    shown = live_cluster.kubectl(binary, *in_namespace, "diff", "-f", str(manifest), check=False)
    assert re.search(rf"^-\s+- image: {SERVER_IMAGE}\n\+\s+- image: {OTHER_IMAGE}$", shown, re.MULTILINE), shown


def test_a_pod_runs_once_and_a_dry_run_changes_nothing(live_cluster: LiveCluster, binary: str, namespace: str) -> None:
    """Kubectl run pod should create a pod from an image when restart is Never; server-side dry-run should check if kubectl can dry-run update Pods."""

    def kubectl(*arguments: str) -> str:
        return live_cluster.kubectl(binary, "-n", namespace, *arguments)

    kubectl(
        "run", "ferry", "--restart=Never", "--pod-running-timeout=2m0s", f"--image={SERVER_IMAGE}", "--labels=run=ferry"
    )
    shown = kubectl("get", "pod", "ferry", "-o", "jsonpath={.spec.containers[*].image} {.spec.restartPolicy}")
    assert shown == f"{SERVER_IMAGE} Never"
    change = {"spec": {"containers": [{"name": "ferry", "image": OTHER_IMAGE}]}}
    kubectl("patch", "pod", "ferry", "-p", json.dumps(change), "--dry-run=server")
    assert kubectl("get", "pod", "ferry", "-o", "jsonpath={.spec.containers[*].image}") == SERVER_IMAGE
    kubectl("delete", "pods", "ferry")
    assert not json.loads(kubectl("get", "pods", "-o", "json"))["items"]
