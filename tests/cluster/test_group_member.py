"""A process that serves the address of several, and does not speak for them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from bayplan.apiserver.http.connection_share import ConnectionShare
from bayplan.apiserver.http.listener import listening_sockets
from bayplan.apiserver.requests import Request, User
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.processes.group_member import GroupMember
from bayplan.cluster.processes.server_process import GroupPlan
from bayplan.cluster.settings import ClusterSettings
from bayplan.support.metrics.shared_numbers import SharedNumbers

_ADMIN = User("admin", ("system:masters", "system:authenticated"))
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
_ENDPOINTS = "/api/v1/namespaces/default/endpoints/kubernetes"


@pytest.mark.parametrize("leads", [True, False])
def test_one_process_says_for_all_that_the_server_is_there(tmp_path: Path, leads: bool) -> None:
    async def no_metrics() -> bytes:
        return b"metrics of all"

    async def run() -> None:
        sockets = listening_sockets("127.0.0.1", 0)
        member = GroupMember(
            sockets=sockets,
            share=ConnectionShare(SharedNumbers.at(tmp_path / "counts", 2), 1),
            leads=leads,
            metrics=no_metrics,
            audit_lines=None,
        )
        port = sockets[0].getsockname()[1]
        settings = ClusterSettings(port=port, run_scheduler=False, run_controllers=False)
        cluster = Cluster(settings, member=member)
        await cluster.start()
        try:
            assert cluster.server_url == f"https://127.0.0.1:{port}"
            await asyncio.sleep(0)
            answers = [await cluster.api.handle(Request("GET", path, {}, _ADMIN)) for path in (_LEASES, _ENDPOINTS)]
            assert (b"apiserver-" in answers[0].whole_body()) == leads
            assert (answers[1].code == 200) == leads
            assert (await cluster.api.handle(Request("GET", "/metrics", {}, _ADMIN))).body == b"metrics of all"
        finally:
            await cluster.stop()

    asyncio.run(run())


@pytest.mark.parametrize(("whole", "parts"), [(400, [134, 133, 133]), (1, [1, 1, 1]), (0, [0, 0, 0])])
def test_limits_are_divided(whole: int, parts: list[int]) -> None:
    settings = ClusterSettings()
    settings = replace(settings, api=replace(settings.api, max_requests_inflight=whole))
    plan = GroupPlan(settings=settings, processes=3, sockets=(), counts=0, store_socket=None)
    assert [plan.settings_of(index).api.max_requests_inflight for index in range(3)] == parts
