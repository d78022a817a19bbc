"""Logs, exec, attach and port-forward of simulated pods, with real kubectl and the Python client."""

from __future__ import annotations

import contextlib
import gc
import http.server
import os
import pty
import re
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client, config, stream

from tests.integration.conftest import LiveCluster, start, stop

pytestmark = pytest.mark.xdist_group("simulated-answers")

OBJECTS = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Logs
metadata: {{name: web, namespace: default}}
spec: {{logs: [{{logsFile: web.log}}]}}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterExec
metadata: {{name: all}}
spec: {{selector: {{matchNames: [web]}}, execs: [{{local: {{envs: [{{name: GREETING, value: hello}}]}}}}]}}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: PortForward
metadata: {{name: web, namespace: default}}
spec:
  forwards:
  - {{ports: [80], target: {{address: 127.0.0.1, port: {port}}}}}
  - {{ports: [81], command: [cat]}}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ResourceUsage
metadata: {{name: web}}
spec: {{usages: [{{usage: {{cpu: {{value: 250m}}, memory: {{expression: 'Quantity("12Mi")'}}}}}}]}}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Metric
metadata: {{name: used}}
spec:
  path: /metrics/used
  metrics: [{{name: memory, kind: gauge, dimension: pod, value: 'pod.Usage("memory")', labels: [{{name: pod, value: pod.metadata.name}}]}}]
"""
PAGE = b"a page of this machine"


class _Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *arguments: Any) -> None:
        """Nothing is told."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """A cluster with two simulated pods, one of which answers as objects of kwok say."""
    directory = tmp_path_factory.mktemp("answers")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (directory / "kwok.yaml").write_text(OBJECTS.format(port=server.server_port))
        (directory / "web.log").write_text("2026-01-02T03:04:05.1Z stdout F of a file\n")
        (directory / "pods.yaml").write_text(
            "\n---\n".join(
                f"{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: c, image: i}}]}}}}"
                for name in ("web", "other")
            )
        )
        kubeconfig = directory / "kubeconfig"
        process = start(
            *("--store", "memory:", "--port", "0", "--kubeconfig", str(kubeconfig), "--nodes", "1"),
            *("--stages", str(directory / "kwok.yaml"), "--apply", str(directory / "pods.yaml")),
        )
        try:
            found = LiveCluster(kubeconfig, process)
            core = client.CoreV1Api(config.new_client_from_config(str(kubeconfig)))
            wait_until_ready(core)
            yield found
        finally:
            stop(process)
            server.shutdown()


def wait_until_ready(core: client.CoreV1Api) -> None:
    """Wait for both pods."""
    for _ in range(100):
        pods = core.list_namespaced_pod("default").items
        if sum(pod.status.phase == "Running" for pod in pods) == 2:
            return
        threading.Event().wait(0.1)
    raise AssertionError("the pods do not run")


def run(cluster: LiveCluster, binary: str, *arguments: str, text: str = "") -> tuple[int, str, str]:
    command = [binary, "--kubeconfig", str(cluster.kubeconfig), *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stdout, done.stderr


def test_logs_come_from_a_file_or_tell_what_happened(cluster: LiveCluster, binary: str) -> None:
    assert run(cluster, binary, "logs", "web") == (0, "of a file\n", "")
    assert "c: started on simulated node" in run(cluster, binary, "logs", "other")[1]


def test_usage_is_what_the_objects_say(cluster: LiveCluster, binary: str) -> None:
    lines = run(cluster, binary, "top", "pod", "--no-headers")[1].splitlines()
    assert ["web", "250m", "12Mi"] in [line.split() for line in lines]


def test_nodes_have_pages_of_metrics(cluster: LiveCluster, binary: str) -> None:
    path = "/api/v1/nodes/node-1/proxy/metrics"
    assert f'memory{{pod="web"}} {12 << 20:e}'.split("e")[0] in run(cluster, binary, "get", "--raw", f"{path}/used")[1]
    code, _, error = run(cluster, binary, "get", "--raw", f"{path}/other")
    assert code == 1
    assert "runs no containers that proxy could reach" in error


def test_commands_run_on_this_machine(cluster: LiveCluster, binary: str) -> None:
    script = "echo $GREETING; echo bad >&2; exit 3"
    code, out, error = run(cluster, binary, "exec", "web", "--", "sh", "-c", script)
    assert (code, out) == (3, "hello\n")
    assert error.startswith("bad\n")
    assert run(cluster, binary, "exec", "-i", "web", "--", "tr", "a-z", "A-Z", text="typed")[:2] == (0, "TYPED")
    code, _, error = run(cluster, binary, "exec", "web", "--", "no-such-tool")
    assert code == 1
    assert "no-such-tool cannot be run" in error
    code, _, error = run(cluster, binary, "exec", "other", "--", "true")
    assert code == 1
    assert "runs no containers that exec could reach" in error


def test_commands_have_a_terminal(cluster: LiveCluster, binary: str) -> None:
    main, second = pty.openpty()
    command = [binary, "--kubeconfig", str(cluster.kubeconfig), "exec", "-it", "web", "--", "sh", "-c", "tty; exit 4"]
    with subprocess.Popen(command, stdin=second, stdout=second, stderr=second) as process:
        os.close(second)
        shown = b""
        with contextlib.suppress(OSError):  # so a terminal ends
            while piece := os.read(main, 4096):
                shown += piece
        os.close(main)
        assert process.wait(20) == 4
    assert b"/dev/pts/" in shown


def test_those_who_attach_see_what_happens(cluster: LiveCluster, binary: str) -> None:
    command = [binary, "--kubeconfig", str(cluster.kubeconfig), "attach", "other"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("c: started on simulated node")
        process.terminate()


def test_ports_lead_to_this_machine(cluster: LiveCluster, binary: str) -> None:
    command = [binary, "--kubeconfig", str(cluster.kubeconfig), "port-forward", "pod/web", ":80", ":81"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        ports: dict[str, int] = {}
        while len(ports) < 2:
            match = re.search(r"127\.0\.0\.1:(\d+) -> (\d+)", process.stdout.readline())
            if match is not None:
                ports[match[2]] = int(match[1])
        with urllib.request.urlopen(f"http://127.0.0.1:{ports['80']}/", timeout=10) as answer:
            assert answer.read() == PAGE
        with socket.create_connection(("127.0.0.1", ports["81"]), timeout=10) as connection:
            connection.sendall(b"echo")
            assert connection.recv(4) == b"echo"
        process.terminate()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_python_client(cluster: LiveCluster) -> None:
    use_the_python_client(cluster)
    gc.collect()  # which tells here, and not in another test, that the client leaves sockets open


def use_the_python_client(cluster: LiveCluster) -> None:
    """Run a command and connect to a port."""
    core = client.CoreV1Api(config.new_client_from_config(str(cluster.kubeconfig)))
    command = ["sh", "-c", "echo out; echo err >&2; exit 5"]
    found = stream.stream(
        core.connect_get_namespaced_pod_exec,
        *("web", "default"),
        command=command,
        stdin=False,
        stdout=True,
        stderr=True,
        tty=False,
        _preload_content=False,
    )
    found.run_forever(timeout=10)
    assert found.returncode == 5
    assert (found.read_stdout(), found.read_stderr()) == ("out\n", "err\n")
    forwarded = stream.portforward(core.connect_get_namespaced_pod_portforward, "web", "default", ports="81,82")
    connection = forwarded.socket(81)
    connection.setblocking(True)
    connection.sendall(b"echo")
    assert connection.recv(4) == b"echo"
    forwarded.close()
    found.close()
