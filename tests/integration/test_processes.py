"""`bayplan up` in two processes: the API server has one, the components the other."""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from functools import partial
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
    with urllib.request.urlopen(request, context=trust_of(directory)) as answer:
        return str(answer.read().decode())


def trust_of(directory: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=directory / "pki" / "ca.crt")


def runs(api: client.CoreV1Api, name: str) -> bool:
    return bool(api.read_namespaced_pod(name, "default").status.phase == "Running")


def run_a_pod(api: client.CoreV1Api) -> None:
    """Create a pod and wait until it runs, which takes all components."""
    container = client.V1Container(name="c", image="nginx")
    pod = client.V1Pod(metadata=client.V1ObjectMeta(name="p"), spec=client.V1PodSpec(containers=[container]))
    eventually(lambda: bool(api.list_namespaced_service_account("default").items))
    api.create_namespaced_pod("default", pod)
    eventually(partial(runs, api, "p"))


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


def component_process(process: subprocess.Popen[str]) -> int:
    """The process of the components: a child of the fork server, which is the only child."""
    (server,) = children(process.pid)
    eventually(lambda: len(children(server)) == 1)
    return children(server)[0]


def get(directory: Path, path: str) -> tuple[int, str]:
    """Status and body of a GET as the administrator."""
    request = urllib.request.Request(
        core(directory).api_client.configuration.host + path,
        headers={"Authorization": f"Bearer {(directory / 'pki' / 'admin-token').read_text()}"},
    )
    try:
        with urllib.request.urlopen(request, context=trust_of(directory), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def statuses(directory: Path) -> dict[str, tuple[str, str]]:
    """Name of each component -> status and message of its condition."""
    items = json.loads(get(directory, "/api/v1/componentstatuses")[1])["items"]
    conditions = {one["metadata"]["name"]: one["conditions"][0] for one in items}
    return {name: (one["status"], one.get("message", one.get("error", ""))) for name, one in conditions.items()}


def is_ready(directory: Path) -> bool:
    return get(directory, "/readyz")[0] == 200


def test_components_that_have_been_killed_are_started_again_and_go_on(tmp_path: Path) -> None:
    process = start("--data-dir", str(tmp_path), "--port", "0", "--nodes", "1", "--processes", "2")
    try:
        api = core(tmp_path)
        eventually(lambda: bool(api.list_namespaced_service_account("default").items))
        for round_number in range(3):
            before = component_process(process)
            handles = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
            os.kill(before, signal.SIGKILL)
            name = f"p-{round_number}"
            container = client.V1Container(name="c", image="nginx")
            spec = client.V1PodSpec(containers=[container])
            api.create_namespaced_pod("default", client.V1Pod(metadata=client.V1ObjectMeta(name=name), spec=spec))
            eventually(partial(runs, api, name))
            eventually(lambda: is_ready(tmp_path))
            assert component_process(process) != before
            assert len(list(Path(f"/proc/{process.pid}/fd").iterdir())) <= handles + 2
        assert "scheduler_schedule_attempts_total" in metrics_of(tmp_path)
        assert set(statuses(tmp_path).values()) == {("True", "ok")}
    finally:
        code, _ = stop(process)
    assert code == 0


def test_components_that_are_frozen_are_reported_and_go_on_when_they_thaw(tmp_path: Path) -> None:
    process = start("--data-dir", str(tmp_path), "--port", "0", "--nodes", "1", "--processes", "2")
    try:
        eventually(lambda: is_ready(tmp_path))
        other = component_process(process)
        os.kill(other, signal.SIGSTOP)
        eventually(lambda: not is_ready(tmp_path), 3.0)
        assert "[-]component-process failed" in get(tmp_path, "/readyz?verbose")[1]
        assert "has not answered for" in get(tmp_path, "/readyz/component-process")[1]
        assert get(tmp_path, "/livez")[0] == 200
        found = statuses(tmp_path)
        assert found["etcd-0"] == ("True", "ok")
        for name in ("scheduler", "controller-manager"):
            assert found[name][0] == "False"
            assert "has not answered for" in found[name][1]
        started = time.monotonic()
        assert "apiserver_request_total" in metrics_of(tmp_path)
        assert time.monotonic() - started < 5
        os.kill(other, signal.SIGCONT)
        eventually(lambda: is_ready(tmp_path))
        assert component_process(process) == other
        run_a_pod(core(tmp_path))
    finally:
        stop(process)


def test_components_that_stay_frozen_are_replaced(tmp_path: Path) -> None:
    process = start("--data-dir", str(tmp_path), "--port", "0", "--nodes", "1", "--processes", "2")
    try:
        other = component_process(process)
        os.kill(other, signal.SIGSTOP)
        eventually(lambda: not is_there(other), 30.0)
        run_a_pod(core(tmp_path))
        eventually(lambda: is_ready(tmp_path))
    finally:
        code, seconds = stop(process)
    assert code == 0
    assert seconds < 5


def test_a_frozen_component_process_does_not_hold_up_the_end(tmp_path: Path) -> None:
    process = start("--data-dir", str(tmp_path), "--port", "0", "--nodes", "0", "--processes", "2")
    other = component_process(process)
    os.kill(other, signal.SIGSTOP)
    eventually(lambda: not is_ready(tmp_path), 3.0)
    code, seconds = stop(process)
    assert code == 0
    assert seconds < 5
    assert not is_there(other)


def test_a_fork_server_that_ends_is_replaced_with_its_component_process(tmp_path: Path) -> None:
    process = start("--data-dir", str(tmp_path), "--port", "0", "--nodes", "1", "--processes", "2")
    known: set[int] = set()
    for _ in range(2):  # the first fork server is a fork, the next one is not
        eventually(lambda: bool(children(process.pid)) and bool(children(children(process.pid)[0])))
        (server,), other = children(process.pid), component_process(process)
        assert not known & {server, other}
        known |= {server, other}
        os.kill(server, signal.SIGKILL)
        eventually(lambda other=other, server=server: not is_there(other) and not is_there(server))  # type: ignore[misc]
    eventually(lambda: bool(children(process.pid)) and bool(children(children(process.pid)[0])))
    run_a_pod(core(tmp_path))  # by the third scheduler, controllers and node
    (server,), other = children(process.pid), component_process(process)
    code, _ = stop(process)
    assert code == 0
    assert not is_there(server)
    assert not is_there(other)


def test_the_log_tells_of_a_fork_server_that_was_replaced(tmp_path: Path) -> None:
    command = [BAYPLAN, "up", "--data-dir", str(tmp_path), "--port", "0", "--nodes", "0", "--processes", "2"]
    log = tmp_path / "log"
    with (
        log.open("wb") as file,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file) as process,
    ):
        eventually(lambda: bool(children(process.pid)) and bool(children(children(process.pid)[0])))
        eventually(lambda: (tmp_path / "kubeconfig").exists())
        api = core(tmp_path)
        eventually(lambda: bool(api.list_namespace().items))
        os.kill(children(process.pid)[0], signal.SIGKILL)
        eventually(lambda: "a new component process runs" in log.read_text())
        process.terminate()
        assert process.wait(10) == 0
    assert "the fork server has ended, and the component process with it; it is started again" in log.read_text()
    assert "Traceback" not in log.read_text()


def test_the_components_do_not_outlive_the_api_server(tmp_path: Path) -> None:
    process = start("--data-dir", str(tmp_path), "--port", "0", "--nodes", "1", "--processes", "2")
    (server,) = children(process.pid)
    other = component_process(process)
    os.kill(other, signal.SIGSTOP)  # which does not keep it from ending
    process.kill()
    eventually(lambda: not (is_there(other) or is_there(server)))
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
