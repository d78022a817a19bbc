"""Real kubectl on a live cluster: making, looking at, waiting for and debugging all kinds of objects."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import EXAMPLES, LiveCluster
from tests.integration.test_kubectl import Kubectl, deploy, kubectl

pytestmark = pytest.mark.xdist_group("live-cluster")
__all__ = ["kubectl"]


def test_an_application_that_was_applied_at_the_start_is_unchanged_for_kubectl(
    live_cluster: LiveCluster, binary: str
) -> None:
    text = live_cluster.kubectl(binary, "apply", "-f", str(EXAMPLES / "shop.yaml"))
    assert "unchanged" in text
    assert "configured" not in text
    assert "created" not in text
    warnings = live_cluster.kubectl(binary, "diff", "-f", str(EXAMPLES / "shop.yaml"))
    assert warnings == ""


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("secret", "generic", "s", "--from-literal=a=b"), "secret/s"),
        (("configmap", "c", "--from-literal=a=b"), "configmap/c"),
        (("serviceaccount", "sa"), "serviceaccount/sa"),
        (("role", "r", "--verb=get", "--resource=pods"), "role/r"),
        (("rolebinding", "rb", "--clusterrole=view", "--serviceaccount=default:default"), "rolebinding/rb"),
        (("quota", "q", "--hard=pods=50"), "quota/q"),
        (("ingress", "i", "--rule=example.com/*=web:80"), "ingress/i"),
        (("cronjob", "cj", "--image=busybox", "--schedule=*/5 * * * *", "--", "date"), "cronjob/cj"),
        (("job", "j", "--image=busybox", "--", "date"), "job/j"),
        (("pdb", "p", "--selector=app=web", "--min-available=1"), "pdb/p"),
        (("service", "clusterip", "svc", "--tcp=80:8080"), "service/svc"),
    ],
)
def test_what_kubectl_creates_can_be_described_and_deleted(
    kubectl: Kubectl, arguments: tuple[str, ...], name: str
) -> None:
    assert "created" in kubectl("create", *arguments)
    assert f"Name:{name.partition('/')[2]}" in kubectl("describe", name).replace(" ", "")
    assert "deleted" in kubectl("delete", name)
    assert "NotFound" in kubectl("get", name, check=False)


def test_a_pod_is_run_watched_waited_for_and_debugged(kubectl: Kubectl) -> None:
    command = [kubectl.binary, "--kubeconfig", str(kubectl.cluster.kubeconfig), "-n", kubectl.namespace]
    with subprocess.Popen(
        [*command, "get", "pods", "-w", "--no-headers", "--request-timeout=30s"], stdout=subprocess.PIPE, text=True
    ) as watching:
        try:
            kubectl("run", "one", "--image=nginx")
            assert watching.stdout is not None
            seen = next(line for line in watching.stdout if "Running" in line)
        finally:
            watching.kill()
    assert seen.split()[:2] == ["one", "1/1"]
    assert "condition met" in kubectl("wait", "--for=condition=Ready", "pod/one", "--timeout=10s")
    kubectl("debug", "one", "--image=busybox", "--container=debugger")
    kubectl(
        "wait",
        "--for=jsonpath={.status.ephemeralContainerStatuses[0].state.running.startedAt}",
        "pod/one",
        "--timeout=10s",
        check=False,
    )
    assert "debugger" in kubectl("get", "pod", "one", "-o", "jsonpath={.status.ephemeralContainerStatuses[*].name}")
    assert "deleted" in kubectl("delete", "pod", "one", "--timeout=10s")


def test_output_comes_in_every_form(kubectl: Kubectl) -> None:
    deploy(kubectl, 1)
    assert "kind: Deployment" in kubectl("get", "deployment", "web", "-o", "yaml")
    assert kubectl("get", "deployment", "web", "-o", "custom-columns=N:.metadata.name,R:.spec.replicas").split() == [
        "N",
        "R",
        "web",
        "1",
    ]
    assert kubectl("get", "deployments", "-o", "go-template={{range .items}}{{.metadata.name}}{{end}}") == "web"
    assert "CONTAINERS" in kubectl("get", "deployments", "-o", "wide")
    assert kubectl("get", "all", "--no-headers").count("web") >= 3
    assert len(kubectl("get", "pods", "--chunk-size=1", "--sort-by=.metadata.name", "--no-headers").splitlines()) == 1
    assert kubectl("get", "--raw", "/healthz") == "ok"
    running = kubectl("get", "pods", "--field-selector=status.phase=Running", "-o", "name")
    assert running.startswith("pod/web-")


def test_a_deployment_is_changed_by_set_and_restarted(kubectl: Kubectl) -> None:
    deploy(kubectl, 2)
    kubectl("set", "env", "deployment/web", "A=B")
    kubectl("set", "resources", "deployment/web", "--limits=cpu=200m")
    kubectl("rollout", "restart", "deployment/web")
    kubectl("rollout", "status", "deployment/web", "--timeout=20s")
    pods: Any = kubectl.json("get", "pods", "-l", "app=web")["items"]
    staying = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    assert [pod["spec"]["containers"][0]["env"] for pod in staying] == [[{"name": "A", "value": "B"}]] * 2
    kubectl("rollout", "undo", "deployment/web", "--to-revision=1")
    kubectl("rollout", "status", "deployment/web", "--timeout=20s")
    assert kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].env}") == ""
    assert "revision 1" not in kubectl("rollout", "history", "deployment/web"), "revision 1 has become the latest"


def test_a_manifest_is_changed_by_apply_even_where_others_wrote(kubectl: Kubectl, tmp_path: Path) -> None:
    manifest = tmp_path / "web.yaml"
    text = kubectl("create", "deployment", "web", "--image=nginx:1", "--dry-run=client", "-o", "yaml")
    manifest.write_text(text)
    kubectl("apply", "-f", str(manifest))
    kubectl("scale", "deployment/web", "--replicas=3")
    manifest.write_text(text.replace("nginx:1", "nginx:2").replace("  replicas: 1\n", ""))
    assert "configured" in kubectl("apply", "-f", str(manifest))
    kubectl("rollout", "status", "deployment/web", "--timeout=20s")
    found = kubectl(
        "get", "deployment", "web", "-o", "jsonpath={.spec.replicas} {.spec.template.spec.containers[0].image}"
    )
    assert found == "1 nginx:2", "a member that is no longer applied falls back to its default"
    assert "force deleted" in kubectl("delete", "pods", "--all", "--force", "--grace-period=0")


def test_silent_nodes_are_shown_as_such(live_cluster: LiveCluster, binary: str) -> None:
    """The annotation is taken back before anybody gives the node up: nothing moves."""
    live_cluster.kubectl(binary, "annotate", "node", "node-6", "bayplan.dev/silent=true")
    assert "bayplan.dev/silent: true" in live_cluster.kubectl(binary, "describe", "node", "node-6")
    live_cluster.kubectl(binary, "annotate", "node", "node-6", "bayplan.dev/silent-")
    assert "Ready" in live_cluster.kubectl(binary, "get", "node", "node-6")
