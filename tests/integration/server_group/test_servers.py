"""`bayplan up --servers 3`: writes go on whichever process is killed, and components take over from one another."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from bayplan.client.kubeconfig import load
from tests.integration.conftest import BAYPLAN
from tests.integration.server_group.group import (
    MAPS,
    Connection,
    Group,
    Writers,
    eventually,
    needs_linux,
    running_servers,
    started,
)

pytestmark = needs_linux
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
_MOST_SECONDS = 10.0


def holder(connection: Connection, lease: str) -> str:
    """The host of components that holds a lease."""
    found: str = connection.ask("GET", f"{_LEASES}/{lease}")[1]["spec"]["holderIdentity"]
    return found.partition("_")[0].rpartition("-")[2]


def pod(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "nginx"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


def run_pod(group: Group, name: str, seconds: float) -> None:
    """Create a pod and wait until it runs, which takes all components."""
    connection = group.connect()
    path = "/api/v1/namespaces/default/pods"
    eventually(lambda: connection.ask("GET", "/api/v1/namespaces/default/serviceaccounts/default")[0] == 200)
    assert connection.ask("POST", path, pod(name))[0] == 201
    eventually(lambda: connection.ask("GET", f"{path}/{name}")[1]["status"]["phase"] == "Running", seconds)


def test_writes_go_on_whichever_process_is_killed_and_nothing_is_lost(tmp_path: Path) -> None:
    with running_servers(tmp_path, "--nodes=0") as group:
        writers = Writers(group, 4)
        slowest = 0.0
        try:
            writers.progress(50)
            for name in (
                "bayplan-api-1",
                "bayplan-comp-0",
                "bayplan-store",
                "bayplan-api-0",
                "bayplan-comp-2",
                "bayplan-api-2",
                "bayplan-comp-1",
            ):
                before = group.kill(name)
                killed = time.monotonic()
                writers.progress(20)
                slowest = max(slowest, time.monotonic() - killed)
                eventually(lambda name=name, before=before: group.replaced(name, before))  # type: ignore[misc]
        finally:
            writers.stop()
        assert slowest < _MOST_SECONDS
        assert writers.refused == []
        names = {one["metadata"]["name"] for one in group.connect().ask("GET", MAPS)[1]["items"]}
        assert set(writers.acknowledged) <= names


def test_another_host_of_components_takes_over_from_one_that_is_killed(tmp_path: Path) -> None:
    with running_servers(tmp_path, "--nodes=1", servers=2) as group:
        run_pod(group, "before", 30)
        connection = group.connect()
        code, asked = connection.ask("POST", "/bayplan/what-if", pod("asked"))
        assert (code, asked["placed"]) == (200, 1), "whichever host runs the scheduler is asked"
        first = holder(connection, "kube-scheduler")
        transitions = connection.ask("GET", f"{_LEASES}/kube-scheduler")[1]["spec"].get("leaseTransitions", 0)
        group.kill(f"bayplan-comp-{first}")
        run_pod(group, "after", 60)
        assert connection.ask("GET", f"{_LEASES}/kube-scheduler")[1]["spec"]["leaseTransitions"] > transitions
        assert "".join(sorted(one["metadata"]["name"] for one in _nodes(connection))) == "node-1"


def _nodes(connection: Connection) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = connection.ask("GET", "/api/v1/nodes")[1]["items"]
    return items


def test_a_cluster_with_more_processes_is_one_server_and_one_host_of_components(tmp_path: Path) -> None:
    command = [BAYPLAN, "up", "--processes=3", f"--data-dir={tmp_path}", "--port=0", "--nodes=1"]
    with started(command, tmp_path) as group:
        assert group.pid("bayplan-api-1")
        assert group.pid("bayplan-api-2") == group.pid("bayplan-comp-1") == 0
        run_pod(group, "before", 30)
        before = group.kill("bayplan-comp-0")
        eventually(lambda: group.replaced("bayplan-comp-0", before))
        run_pod(group, "after", 10)
        text = group.connect().text("/metrics")
        assert "\nscheduler_schedule_attempts_total{" in text
        assert "\napiserver_request_total{" in text


def test_each_server_has_an_address_and_an_identity_and_one_address_leads_to_all(tmp_path: Path) -> None:
    with running_servers(tmp_path, "--nodes=0") as group:
        port = group.url.rsplit(":", 1)[1]
        assert group.url == load(tmp_path / "kubeconfig").server
        found = [load(tmp_path / "kubeconfig", f"server-{number}").server for number in range(3)]
        assert found == [f"https://127.0.0.{number + 2}:{port}" for number in range(3)]
        connection = group.connect()
        leases = connection.ask("GET", _LEASES)[1]["items"]
        assert len([one for one in leases if one["metadata"]["name"].startswith("apiserver-")]) == 3
        for url in found:
            server = Group(group.process, group.directory, url)
            assert server.connect().ask("GET", "/api/v1/namespaces")[0] == 200
            server.close()

        def published() -> set[str]:
            endpoints = connection.ask("GET", "/api/v1/namespaces/default/endpoints/kubernetes")[1]
            return {one["ip"] for subset in endpoints["subsets"] for one in subset["addresses"]}

        eventually(lambda: published() == {"127.0.0.2", "127.0.0.3", "127.0.0.4"})
