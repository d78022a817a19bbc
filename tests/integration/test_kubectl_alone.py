"""Real kubectl on an API server that runs alone: whatever needs no controller and no node.

Conformance: the tests of "Kubectl client" that an API server alone must satisfy (api-versions, cluster-info, diff, run, server-side dry-run, version, proxy).
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.integration.conftest import LiveCluster
from tests.integration.test_kubectl import Kubectl

pytestmark = pytest.mark.xdist_group("lone-server")

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: httpd}
spec:
  replicas: 1
  selector: {matchLabels: {app: httpd}}
  template:
    metadata: {labels: {app: httpd}}
    spec: {containers: [{name: httpd, image: "%s"}]}
"""


@pytest.fixture
def kubectl(lone_server: LiveCluster, binary: str, request: pytest.FixtureRequest) -> Kubectl:
    """kubectl in a namespace with the service account that a controller would make."""
    namespace = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())[-60:].strip("-")
    Kubectl(lone_server, binary, "default")("create", "namespace", namespace)
    inside = Kubectl(lone_server, binary, namespace)
    inside("create", "serviceaccount", "default")
    return inside


def _write(directory: Path, image: str) -> str:
    path = directory / f"{image.replace(':', '-')}.yaml"
    path.write_text(DEPLOYMENT % image)
    return str(path)


def test_the_server_says_what_it_is(kubectl: Kubectl) -> None:
    """Kubectl api-versions should check if v1 is in available api versions; cluster-info; version."""
    assert "v1" in kubectl("api-versions").splitlines()
    resources = kubectl("api-resources", "-o", "name").splitlines()
    assert {"pods", "deployments.apps", "leases.coordination.k8s.io"} <= set(resources)
    text = re.sub("\x1b\\[[0-9;]*m", "", kubectl("cluster-info"))
    assert re.search(r"Kubernetes control plane is running at https://127\.0\.0\.1:\d+", text)
    version = kubectl.json("version")
    server = version["serverVersion"]
    assert isinstance(server, dict)
    assert (server["major"], server["minor"]) == ("1", "36")


def test_a_pod_is_run_and_a_dry_run_changes_nothing(kubectl: Kubectl) -> None:
    """Kubectl run pod should create a pod from an image when restart is Never; server-side dry-run should check if kubectl can dry-run update Pods."""
    kubectl("run", "e2e", "--image=httpd", "--restart=Never", "--labels=run=e2e")
    assert kubectl("get", "pod", "e2e", "-o", "jsonpath={.spec.restartPolicy} {.spec.containers[0].image}") == (
        "Never httpd"
    )
    patch = '{"spec":{"containers":[{"name":"e2e","image":"busybox"}]}}'
    shown = kubectl(
        "patch", "pod", "e2e", "-p", patch, "--dry-run=server", "-o", "jsonpath={.spec.containers[0].image}"
    )
    assert shown == "busybox"
    assert kubectl("get", "pod", "e2e", "-o", "jsonpath={.spec.containers[0].image}") == "httpd"


def test_diff_finds_what_apply_would_change(kubectl: Kubectl, tmp_path: Path) -> None:
    """Kubectl diff should check if kubectl diff finds a difference for Deployments."""
    kubectl("create", "-f", _write(tmp_path, "httpd:1"))
    for more in ((), ("--server-side", "--force-conflicts")):
        text = kubectl("diff", *more, "-f", _write(tmp_path, "busybox"), check=False)
        assert re.search(r"^-\s+- image: httpd:1\n\+\s+- image: busybox$", text, re.MULTILINE), text
    assert kubectl("get", "deployment", "httpd", "-o", "jsonpath={.metadata.generation}") == "1"


def test_server_side_apply_tells_conflicts_and_takes_fields_over(kubectl: Kubectl, tmp_path: Path) -> None:
    first, second = _write(tmp_path, "httpd:1"), _write(tmp_path, "busybox")
    kubectl("create", "-f", first)
    refused = kubectl("apply", "--server-side", "-f", second, check=False)
    assert 'conflict with "kubectl-create" using apps/v1' in refused
    assert '.spec.template.spec.containers[name="httpd"].image' in refused
    assert "serverside-applied" in kubectl("apply", "--server-side", "--force-conflicts", "-f", second)
    refused = kubectl("apply", "--server-side", "--field-manager=other", "-f", first, check=False)
    assert 'conflict with "kubectl"' in refused
    assert "serverside-applied" in kubectl("apply", "--server-side", "--field-manager=other", "-f", second)
    assert _managers(kubectl) >= {("kubectl", "Apply"), ("other", "Apply")}
    kubectl("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", first)
    refused = kubectl("apply", "--server-side", "-f", second, check=False)
    assert 'conflict with "other"' in refused


def _managers(kubectl: Kubectl) -> set[tuple[str, str]]:
    text = kubectl("get", "deployment", "httpd", "-o", "json", "--show-managed-fields")
    return {(one["manager"], one["operation"]) for one in json.loads(text)["metadata"]["managedFields"]}


def test_client_side_apply_moves_to_the_server(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("apply", "-f", _write(tmp_path, "httpd:1"))
    assert _managers(kubectl) == {("kubectl-client-side-apply", "Update")}
    kubectl("apply", "--server-side", "-f", _write(tmp_path, "busybox"))
    assert ("kubectl", "Apply") in _managers(kubectl)
    assert ("kubectl-client-side-apply", "Update") not in _managers(kubectl)
    without = tmp_path / "without.yaml"
    without.write_text((DEPLOYMENT % "busybox").replace("  replicas: 1\n", "  paused: true\n"))
    kubectl("apply", "--server-side", "-f", str(without))
    assert kubectl("get", "deployment", "httpd", "-o", "jsonpath={.spec.paused} {.spec.replicas}") == "true 1"
    kubectl("apply", "--server-side", "-f", _write(tmp_path, "busybox"))
    assert kubectl("get", "deployment", "httpd", "-o", "jsonpath={.spec.paused}") == ""


def test_status_is_edited_patched_and_waited_for(kubectl: Kubectl) -> None:
    kubectl("run", "one", "--image=nginx")
    assert "timed out" in kubectl("wait", "--for=condition=Ready", "pod/one", "--timeout=0.2s", check=False)
    ready = '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}'
    kubectl("patch", "pod", "one", "--subresource=status", "--type=merge", "-p", ready)
    assert "condition met" in kubectl("wait", "--for=condition=Ready", "pod/one", "--timeout=5s")
    assert kubectl("get", "pods", "--field-selector=status.phase=Running", "-o", "name") == "pod/one\n"
    editor = "sed -i s/Running/Succeeded/"
    assert "edited" in kubectl("edit", "pod", "one", "--subresource=status", KUBE_EDITOR=editor)
    kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/one", "--timeout=5s")
    kubectl("delete", "pod", "one", "--now")
    kubectl("wait", "--for=delete", "pod/one", "--timeout=5s")


def test_long_lists_come_in_chunks_and_go_at_once(kubectl: Kubectl) -> None:
    for index in range(5):
        kubectl("create", "configmap", f"c{index}", f"--from-literal=a={index}")
    wanted = [f"configmap/c{index}" for index in range(5)]
    assert kubectl("get", "configmaps", "--chunk-size=2", "-o", "name").splitlines() == wanted
    lines = kubectl("get", "configmaps", "-o", "custom-columns=A:.data.a", "--sort-by={.data.a}").split()
    assert lines == ["A", "0", "1", "2", "3", "4"]
    assert kubectl("delete", "configmaps", "--all").count("deleted") == 5


def test_watch_events_are_shown_as_they_come(kubectl: Kubectl) -> None:
    command = [kubectl.binary, "--kubeconfig", str(kubectl.cluster.kubeconfig), "-n", kubectl.namespace]
    options = ["--output-watch-events", "--no-headers", "--request-timeout=30s"]
    kubectl("create", "configmap", "listed")
    with subprocess.Popen(
        [*command, "get", "configmaps", "-w", *options], stdout=subprocess.PIPE, text=True
    ) as watching:
        try:
            assert watching.stdout is not None
            shown = watching.stdout
            # kubectl may need longer to list than the next one to create: what the list shows tells that it has.
            assert shown.readline().split()[:3] == ["ADDED", "listed", "0"]
            kubectl("create", "configmap", "a", "--from-literal=x=1")
            kubectl("patch", "configmap", "a", "-p", '{"data":{"y":"2"}}')
            kubectl("delete", "configmap", "a")
            seen = [shown.readline().split()[:3] for _ in range(3)]
        finally:
            watching.kill()
    assert seen == [["ADDED", "a", "1"], ["MODIFIED", "a", "2"], ["DELETED", "a", "2"]]


def test_fields_are_explained_in_both_forms(kubectl: Kubectl) -> None:
    text = kubectl("explain", "deployment.spec.strategy", "--recursive")
    assert re.search(r"rollingUpdate\s+<.*RollingUpdateDeployment.*>", text)
    assert re.search(r"maxSurge\s+<IntOrString>", text)
    assert "Pod is a collection of containers" in kubectl("explain", "pods", "--output=plaintext-openapiv2")


def test_who_may_do_what(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert "kubernetes-admin" in kubectl("auth", "whoami")
    assert kubectl("create", "token", "default", "--duration=10m").count(".") == 2


@pytest.mark.parametrize("way", ["port", "socket"])
def test_the_proxy_leads_to_the_server(kubectl: Kubectl, tmp_path: Path, way: str) -> None:
    """Proxy server should support proxy with --port 0; should support --unix-socket=/path."""
    path = tmp_path / "socket"
    arguments = ["--port=0"] if way == "port" else [f"--unix-socket={path}"]
    command = [kubectl.binary, "--kubeconfig", str(kubectl.cluster.kubeconfig), "proxy", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
        try:
            assert proxy.stdout is not None
            line = proxy.stdout.readline()
            if way == "port":
                address = line.rpartition(" ")[2].strip()
                with urllib.request.urlopen(f"http://{address}/api/", timeout=10) as answer:
                    text = answer.read().decode()
            else:
                text = _over_socket(str(path), "/api/")
        finally:
            proxy.kill()
    assert json.loads(text)["versions"] == ["v1"]


def _over_socket(path: str, url: str) -> str:
    """The body of an answer that came through a Unix socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(path)
        connection.sendall(f"GET {url} HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n\r\n".encode())
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
    return received.partition(b"\r\n\r\n")[2].decode()
