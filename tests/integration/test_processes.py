"""`bayplan up` in two processes: the API server has one, the components the other."""

from __future__ import annotations

import os
import re
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from kubernetes import client, config

from tests.integration.conftest import BAYPLAN, start, stop

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="two processes need Linux and two CPUs"
)


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def eventually(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for a condition. Fails the test if it does not come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def is_there(process: int) -> bool:
    """Whether a process lives, as something else than a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def core(directory: Path) -> client.CoreV1Api:
    return client.CoreV1Api(config.new_client_from_config(str(directory / "kubeconfig")))


def metrics_of(directory: Path) -> str:
    """What `/metrics` says."""
    host = core(directory).api_client.configuration.host
    token = (directory / "pki" / "admin-token").read_text()
    request = urllib.request.Request(f"{host}/metrics", headers={"Authorization": f"Bearer {token}"})
    trust = ssl.create_default_context(cafile=directory / "pki" / "ca.crt")
    with urllib.request.urlopen(request, context=trust) as answer:
        return str(answer.read().decode())


def run_a_pod(api: client.CoreV1Api) -> None:
    """Create a pod and wait until it runs, which takes all components."""
    container = client.V1Container(name="c", image="nginx")
    pod = client.V1Pod(metadata=client.V1ObjectMeta(name="p"), spec=client.V1PodSpec(containers=[container]))
    eventually(lambda: bool(api.list_namespaced_service_account("default").items))
    api.create_namespaced_pod("default", pod)
    eventually(lambda: api.read_namespaced_pod("p", "default").status.phase == "Running")


@pytest.mark.parametrize("processes", [1, 2])
def test_a_pod_runs_and_metrics_are_whole(tmp_path: Path, processes: int) -> None:
    process = start("--data-dir", str(tmp_path), "--port", "0", "--nodes", "1", "--processes", str(processes))
    try:
        assert len(children(process.pid)) == processes - 1
        run_a_pod(core(tmp_path))
        metrics = metrics_of(tmp_path)
    finally:
        code, seconds = stop(process)
    assert code == 0
    assert seconds < 5
    families = Counter(re.findall(r"^# TYPE (\S+)", metrics, re.MULTILINE))
    assert {"apiserver_request_total", "scheduler_schedule_attempts_total"} <= set(families)
    assert max(families.values()) == 1
    assert re.search(r'scheduler_schedule_attempts_total\{.*result="scheduled"\} 1', metrics)


def test_a_secret_gets_the_token_that_the_other_process_signs(tmp_path: Path) -> None:
    process = start("--data-dir", str(tmp_path), "--port", "0", "--nodes", "0", "--processes", "2")
    try:
        api = core(tmp_path)
        eventually(lambda: bool(api.list_namespaced_service_account("default").items))
        metadata = client.V1ObjectMeta(name="t", annotations={"kubernetes.io/service-account.name": "default"})
        secret = client.V1Secret(metadata=metadata, type="kubernetes.io/service-account-token")
        api.create_namespaced_secret("default", secret)
        eventually(lambda: "token" in (api.read_namespaced_secret("t", "default").data or {}))
    finally:
        stop(process)


def test_the_end_of_the_components_is_the_end_of_the_cluster(tmp_path: Path) -> None:
    process = start("--data-dir", str(tmp_path), "--port", "0", "--nodes", "0", "--processes", "2")
    (other,) = children(process.pid)
    os.kill(other, signal.SIGKILL)
    assert process.wait(10) == 1
    assert process.stdout is not None
    assert "the process of the components: it has gone" in process.stdout.read()
    stop(process)


def test_the_components_do_not_outlive_the_api_server(tmp_path: Path) -> None:
    process = start("--data-dir", str(tmp_path), "--port", "0", "--nodes", "1", "--processes", "2")
    (other,) = children(process.pid)
    process.kill()
    eventually(lambda: not is_there(other))
    stop(process)


def test_ctrl_c_which_both_processes_get_ends_them_in_order(tmp_path: Path) -> None:
    command = [BAYPLAN, "up", "--data-dir", str(tmp_path), "--port", "0", "--nodes", "1", "--processes", "2"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert any(line.startswith("ready") for line in process.stdout)
        (other,) = children(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(10) == 0
        assert not is_there(other)
        assert "Traceback" not in process.stdout.read()


def test_wrong_settings_of_a_component_are_told_by_the_first_process(tmp_path: Path) -> None:
    settings = tmp_path / "scheduler.yaml"
    settings.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: -1\n"
    )
    command = [BAYPLAN, "up", "--store", "memory:", "--port", "0", "--processes", "2"]
    done = subprocess.run(
        [*command, "--scheduler-config", str(settings), "--kubeconfig", str(tmp_path / "kubeconfig")],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert "parallelism" in done.stderr
    assert "Traceback" not in done.stderr
