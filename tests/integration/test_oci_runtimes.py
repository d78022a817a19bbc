"""Containers do the same whichever OCI runtime starts them, and pods choose one by their RuntimeClass."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bayplan.cluster.real_nodes.settings import OCI_RUNTIMES, NodePlace, RealNodeSettings
from tests.cgroups import cgroups_with
from tests.cluster.real_nodes.images import give_image
from tests.cluster.real_nodes.kubectl import Kubectl
from tests.cluster.real_nodes.test_real_nodes import traces
from tests.integration.conftest import start, stop
from tests.kubelet.runtime.real_containerd import BUSYBOX, needs_containerd

pytestmark = [
    needs_containerd,
    pytest.mark.xdist_group("real nodes"),
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in (*OCI_RUNTIMES, "kubectl")), reason="needs runc, crun, kubectl"
    ),
]
_SERVER = "trap 'echo asked to end; exit 5' TERM; echo up; while :; do sleep 0.1; done"
_SECCOMP = "exec /bin/busybox grep Seccomp: /proc/self/status"


@contextlib.contextmanager
def _node(directory: Path, *flags: str) -> Iterator[tuple[NodePlace, Kubectl]]:
    """A node with busybox, and RuntimeClasses under the names of the OCI runtimes. Nothing is left of it."""
    settings = RealNodeSettings(1, directory / "data" / "real-nodes")
    arguments = ("--data-dir", str(directory / "data"), "--port", "0", "--real-nodes", "1", "--no-real-node-outbound")
    process = start(*arguments, *flags)
    try:
        kubectl = Kubectl(directory / "data" / "kubeconfig")
        (place,) = settings.nodes()
        give_image(place)
        kubectl.until(lambda: "default" in kubectl("get", "serviceaccounts"), "a service account")
        for name in OCI_RUNTIMES:
            kind = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass"}
            kubectl.apply(json.dumps({**kind, "metadata": {"name": name}, "handler": name}))
        yield place, kubectl
    finally:
        code, _ = stop(process)
    assert code == 0
    assert traces(settings) == []


def _pod(name: str, oci_runtime: str | None, *command: str, **of_container: Any) -> str:
    """A manifest of a pod with one container."""
    container = {"name": "main", "image": BUSYBOX, "command": command, **of_container}
    spec = {"containers": [container], "restartPolicy": "Never", "runtimeClassName": oci_runtime}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def _end(kubectl: Kubectl, name: str, phase: str) -> tuple[int, str]:
    """(exit code, reason) of the container of a pod that comes to a phase."""
    kubectl.wait(f"pod/{name}", ".status.phase", phase)
    found = json.loads(kubectl.get(f"pod/{name}", ".status.containerStatuses[0].state.terminated"))
    return found["exitCode"], found["reason"]


def _containers_of(place: NodePlace, oci_runtime: str) -> set[str]:
    """Containers that a runtime keeps records of."""
    return {path.name for path in (place.state / oci_runtime / "k8s.io").glob("*")}


def _exit_code(kubectl: Kubectl, script: str) -> int:
    """With which a script ends in the pod `server`."""
    command = ["kubectl", "--kubeconfig", str(kubectl.kubeconfig), "exec", "server", "--", "sh", "-c", script]
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode


def _memory_limits(container: str) -> set[int]:
    """Limits that the cgroups of a container have, in bytes."""
    files = [path / name for path in cgroups_with(f"/{container}$") for name in ("memory.limit_in_bytes", "memory.max")]
    return {int(each.read_text()) for each in files if each.exists()}


def _working_set(kubectl: Kubectl) -> int:
    """Bytes that the pod `server` uses, as the kubelet says; 0 for none yet."""
    pods = json.loads(kubectl("get", "--raw", "/api/v1/nodes/real-1/proxy/stats/summary"))["pods"]
    containers = [one for each in pods if each["podRef"]["name"] == "server" for one in each["containers"]]
    return sum(each["memory"]["workingSetBytes"] for each in containers if "memory" in each)


@pytest.mark.parametrize("oci_runtime", OCI_RUNTIMES)
def test_containers_do_the_same_under_either_runtime(tmp_path: Path, oci_runtime: str) -> None:
    memory = {"limits": {"memory": "64Mi"}}
    confined = {"seccompProfile": {"type": "RuntimeDefault"}}
    with _node(tmp_path) as (place, kubectl):
        for manifest in (
            _pod("server", oci_runtime, "sh", "-c", _SERVER, resources=memory),
            _pod("code", oci_runtime, "sh", "-c", "exit 7"),
            _pod("missing", oci_runtime, "/nothing"),
            _pod("large", oci_runtime, "/bin/busybox", "tail", "/dev/zero", resources={"limits": {"memory": "32Mi"}}),
            _pod("free", oci_runtime, "sh", "-c", _SECCOMP),
            _pod("confined", oci_runtime, "sh", "-c", _SECCOMP, securityContext=confined),
            _pod("fixed", oci_runtime, "sh", "-c", "echo > /f", securityContext={"readOnlyRootFilesystem": True}),
        ):
            kubectl.apply(manifest)
        assert _end(kubectl, "code", "Failed") == (7, "Error")
        assert _end(kubectl, "large", "Failed") == (137, "OOMKilled")
        assert _end(kubectl, "missing", "Failed") == (128, "StartError")
        assert "/nothing" in kubectl.get("pod/missing", ".status.containerStatuses[0].state.terminated.message")
        assert _end(kubectl, "free", "Succeeded") == _end(kubectl, "confined", "Succeeded") == (0, "Completed")
        assert [kubectl("logs", name).split()[1] for name in ("free", "confined")] == ["0", "2"]
        assert _end(kubectl, "fixed", "Failed") == (1, "Error")
        assert "Read-only file system" in kubectl("logs", "fixed")
        kubectl.wait("pod/server", ".status.phase", "Running")
        container = kubectl.get("pod/server", ".status.containerStatuses[0].containerID").removeprefix("containerd://")
        assert [name for name in OCI_RUNTIMES if container in _containers_of(place, name)] == [oci_runtime]
        assert kubectl.sh("server", "echo from within") == "from within\n"
        more = {"name": "main", "resources": {"requests": {"memory": "96Mi"}, "limits": {"memory": "96Mi"}}}
        patch = json.dumps({"spec": {"containers": [more]}})
        kubectl("patch", "pod", "server", "--subresource", "resize", "--patch", patch)
        kubectl.until(lambda: _memory_limits(container) == {96 << 20}, "it has another limit")
        os.kill(int((place.state / "containerd.pid").read_text().split()[0]), signal.SIGKILL)
        kubectl.until(lambda: _exit_code(kubectl, "exit 4") == 4, "a containerd that knows the container")
        kubectl.until(lambda: 0 < _working_set(kubectl) < 64 << 20, "it is told what the container uses")
        kubectl("patch", "pod", "server", "--patch", '{"spec": {"activeDeadlineSeconds": 1}}')
        assert _end(kubectl, "server", "Failed") == (5, "Error")
        assert kubectl("logs", "server") == "up\nasked to end\n"


@pytest.mark.parametrize("oci_runtime", OCI_RUNTIMES)
def test_pods_that_choose_no_runtime_get_the_one_of_the_option(tmp_path: Path, oci_runtime: str) -> None:
    with _node(tmp_path, "--real-node-oci-runtime", oci_runtime) as (place, kubectl):
        kubectl.apply(_pod("plain", None, "sleep", "1000"))
        kubectl.wait("pod/plain", ".status.phase", "Running")
        assert len(_containers_of(place, oci_runtime)) == 2, "the sandbox and the container"
        assert sum(len(_containers_of(place, name)) for name in OCI_RUNTIMES) == 2
