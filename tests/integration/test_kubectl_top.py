"""Real kubectl on a live cluster: `top` shows what the pods' annotations say, and follows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.test_kubectl import Kubectl, kubectl

pytestmark = pytest.mark.xdist_group("live-cluster")
__all__ = ["kubectl"]

_BUSY = """
apiVersion: v1
kind: Pod
metadata:
  name: busy
  labels: {app: busy}
  annotations: {bayplan.dev/cpu-usage: 50%, bayplan.dev/memory-usage: 64Mi}
spec:
  containers:
    - {name: main, image: "busy:1", resources: {requests: {cpu: 300m, memory: 192Mi}}}
    - {name: side, image: "side:1", resources: {requests: {cpu: 100m, memory: 64Mi}}}
"""


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_top_shows_the_usage_of_pods_containers_and_nodes_as_it_changes(kubectl: Kubectl, tmp_path: Path) -> None:
    path = tmp_path / "busy.yaml"
    path.write_text(_BUSY)
    kubectl("apply", "-f", str(path))
    kubectl("wait", "pod/busy", "--for=condition=Ready", "--timeout=20s")
    assert rows(kubectl("top", "pods", "-l", "app=busy", "--no-headers")) == [["busy", "200m", "64Mi"]]
    containers = rows(kubectl("top", "pods", "-l", "app=busy", "--containers", "--no-headers"))
    assert sorted(containers) == [["busy", "main", "150m", "48Mi"], ["busy", "side", "50m", "16Mi"]]
    kubectl("annotate", "pod/busy", "--overwrite", "bayplan.dev/cpu-usage=25%")
    assert rows(kubectl("top", "pod", "busy", "--no-headers")) == [["busy", "100m", "64Mi"]]
    node = kubectl("get", "pod", "busy", "-o", "jsonpath={.spec.nodeName}").strip()
    [[name, cpu, *_]] = rows(kubectl("top", "node", node, "--no-headers"))
    assert name == node
    assert int(cpu.removesuffix("m")) >= 100
    kubectl("delete", "pod", "busy", "--wait=false")
