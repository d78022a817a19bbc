"""`bayplan up` and `bayplan apiserver` when they are told to stop, and when they run out of files."""

from __future__ import annotations

import http.client
import os
import re
import resource
import signal
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest
from kubernetes import client, config

from tests.integration.conftest import BAYPLAN, start, stop
from tests.integration.shutdown_load import run_round
from tests.integration.test_processes import core, eventually, get


def test_no_request_is_lost_when_the_cluster_stops_under_load(tmp_path: Path) -> None:
    acknowledged: set[str] = set()
    for number in range(3):
        outcome = run_round(tmp_path, f"r{number}")
        assert outcome.unanswered == []
        assert outcome.answered == outcome.sent > 64
        assert set(outcome.statuses) <= {200, 201}
        assert outcome.announced == 64
        assert outcome.code == 0
        assert outcome.seconds < 10
        acknowledged |= outcome.acknowledged
    process = start("--data-dir", str(tmp_path), "--port", "0", "--nodes", "0")
    try:
        found = {one.metadata.name for one in core(tmp_path).list_namespaced_config_map("default").items}
        assert acknowledged <= found
    finally:
        stop(process)


def test_a_cluster_that_is_told_to_stop_is_not_ready_and_goes_on_for_a_while(tmp_path: Path) -> None:
    process = start(
        "--data-dir", str(tmp_path), "--port", "0", "--nodes", "1", "--apiserver-flag=--shutdown-delay-duration=3s"
    )
    try:
        api = core(tmp_path)
        eventually(lambda: bool(api.list_namespaced_service_account("default").items))
        process.send_signal(signal.SIGTERM)
        started = time.monotonic()
        eventually(lambda: get(tmp_path, "/readyz")[0] == 500)
        assert "[-]shutdown failed" in get(tmp_path, "/readyz?verbose")[1]
        assert get(tmp_path, "/livez")[0] == 200
        spec = client.V1PodSpec(containers=[client.V1Container(name="c", image="nginx")])
        api.create_namespaced_pod("default", client.V1Pod(metadata=client.V1ObjectMeta(name="p"), spec=spec))
        eventually(lambda: api.read_namespaced_pod("p", "default").status.phase == "Running", 2.5)  # components run on
        assert process.wait(20) == 0
        assert time.monotonic() - started >= 3
    finally:
        stop(process)


def test_a_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    process = start(
        "--data-dir", str(tmp_path), "--port", "0", "--nodes", "0", "--apiserver-flag=--shutdown-delay-duration=60s"
    )
    try:
        process.send_signal(signal.SIGTERM)
        eventually(lambda: get(tmp_path, "/readyz")[0] == 500)
        time.sleep(0.5)  # sooner it counts as the same
        process.send_signal(signal.SIGINT)
        assert process.wait(5) == 1
    finally:
        stop(process)


def test_timeout_which_signals_the_process_and_its_group_ends_a_cluster_in_order(tmp_path: Path) -> None:
    command = [
        "timeout",
        "--preserve-status",
        "5",
        BAYPLAN,
        "up",
        "--data-dir",
        str(tmp_path),
        "--port",
        "0",
        "--nodes",
        "1",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "ready: " in ended.stdout


@pytest.mark.parametrize("wrong", ["-1s", "soon"])
def test_a_delay_that_is_none_is_refused(wrong: str) -> None:
    command = [BAYPLAN, "apiserver", f"--shutdown-delay-duration={wrong}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_server_without_free_files_goes_on_and_recovers(tmp_path: Path) -> None:
    command = [
        BAYPLAN,
        "apiserver",
        "--secure-port=0",
        f"--cert-dir={tmp_path}/pki",
        f"--kubeconfig={tmp_path}/kubeconfig",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            assert any(line.startswith("ready") for line in process.stdout)
            limits = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
            assert limits[0] == limits[1]  # it has asked for all that it may have
            loaded = config.new_client_from_config(str(tmp_path / "kubeconfig"))
            port = int(loaded.configuration.host.rpartition(":")[2])
            trust = ssl.create_default_context(cafile=tmp_path / "pki" / "ca.crt")
            kept = http.client.HTTPSConnection("127.0.0.1", port, context=trust, timeout=20)
            kept.request("GET", "/livez")
            assert kept.getresponse().read() == b"ok"
            used = len(os.listdir(f"/proc/{process.pid}/fd"))
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (used + 3, limits[1]))
            waiting = [socket.create_connection(("127.0.0.1", port)) for _ in range(30)]
            eventually(lambda: len(os.listdir(f"/proc/{process.pid}/fd")) >= used + 3)
            late = http.client.HTTPSConnection("127.0.0.1", port, context=trust, timeout=20)
            asking = threading.Thread(target=lambda: late.request("GET", "/livez"))
            asking.start()
            for _ in range(20):
                kept.request("GET", "/livez")
                assert kept.getresponse().read() == b"ok"
                time.sleep(0.05)  # in which the server tries to accept
            for one in waiting:
                one.close()
            asking.join(20)
            assert late.getresponse().read() == b"ok"
            kept.close()
            late.close()
        finally:
            process.send_signal(signal.SIGTERM)
            text = process.communicate(timeout=20)[0]
    assert process.returncode == 0
    assert len(re.findall("Too many open files", text)) == 1
    assert "Traceback" not in text
