"""HTTP/2 with real kubectl, which offers it, against `bayplan apiserver` in one process and in two, and against simulated nodes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import BAYPLAN, LiveCluster, start, stop

pytestmark = pytest.mark.xdist_group("http2")

HTTP2 = "--disable-http2-serving=false"


def lone(directory: Path, *flags: str) -> Iterator[LiveCluster]:
    kubeconfig = directory / "kubeconfig"
    command = [BAYPLAN, "apiserver", "--secure-port=0", f"--cert-dir={directory}", f"--kubeconfig={kubeconfig}", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        assert any(line.startswith("ready") for line in process.stdout)
        yield LiveCluster(kubeconfig, process)
        stop(process)


@pytest.fixture(params=[(), ("--processes=2",)], ids=["one process", "two processes"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LiveCluster]:
    yield from lone(tmp_path, HTTP2, *request.param)


def streams(cluster: LiveCluster, binary: str) -> int:
    """Requests that have come over HTTP/2, with the one that asks; 0 if it is not spoken."""
    found = re.search(
        r"^bayplan_http2_streams_total (\d+)", cluster.kubectl(binary, "get", "--raw", "/metrics"), re.MULTILINE
    )
    return int(found[1]) if found else 0


def test_kubectl_speaks_http_2(server: LiveCluster, binary: str) -> None:
    assert streams(server, binary) >= 1
    server.kubectl(binary, "create", "configmap", "one", f"--from-literal=text={'x' * 100_000}")
    assert "configmap/one" in server.kubectl(binary, "get", "configmaps", "-o", "name")
    server.kubectl(binary, "label", "configmap", "one", "checked=yes")
    watching = server.kubectl(
        binary, "wait", "--for=jsonpath={.metadata.labels.checked}=yes", "configmap/one", "--timeout=10s"
    )
    assert "condition met" in watching
    server.kubectl(binary, "delete", "configmap", "one")


def test_http_2_is_off_unless_it_is_asked_for(lone_server: LiveCluster, binary: str) -> None:
    assert streams(lone_server, binary) == 0


def test_logs_and_exec_work_beside_http_2(tmp_path: Path, binary: str) -> None:
    """exec is an upgrade: kubectl makes a connection of HTTP/1.1 for it."""
    kubeconfig = tmp_path / "kubeconfig"
    arguments = (
        "--port",
        "0",
        "--nodes",
        "1",
        "--data-dir",
        str(tmp_path / "data"),
        "--kubeconfig",
        str(kubeconfig),
        f"--apiserver-flag={HTTP2}",
    )
    process = start(*arguments)
    try:
        cluster = LiveCluster(kubeconfig, process)
        cluster.kubectl(binary, "create", "deployment", "web", "--image=nginx")
        cluster.kubectl(binary, "rollout", "status", "deployment/web", "--timeout=30s")
        assert "started on simulated node" in cluster.kubectl(binary, "logs", "deployment/web")
        refused = cluster.kubectl(binary, "exec", "deployment/web", "--", "echo", check=False)
        assert "runs no containers that exec could reach" in refused
        assert streams(cluster, binary) > 1
    finally:
        code, seconds = stop(process)
    assert code == 0
    assert seconds < 8
