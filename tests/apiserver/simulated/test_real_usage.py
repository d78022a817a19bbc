"""metrics.k8s.io of nodes with a kubelet of their own: their figures are those of /stats/summary."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.routing.relays import unavailable
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.settings import ApiServerSettings
from tests.apiserver.http.test_relays import ask
from tests.apiserver.serving import client_of, opened

TIME = "2026-01-02T03:04:05Z"
NODES = "/apis/metrics.k8s.io/v1beta1/nodes"
PODS = "/apis/metrics.k8s.io/v1beta1/pods"


def used(name: str, nano_cores: int | None, memory: int = 2048) -> dict[str, Any]:
    cpu: dict[str, Any] = {"time": TIME}
    if nano_cores is not None:
        cpu["usageNanoCores"] = nano_cores
    return {"name": name, "cpu": cpu, "memory": {"workingSetBytes": memory}}


async def make(api: ApiServer, node: str, *pods: str) -> dict[str, str]:
    """A node with pods that run; uids by name."""
    client = client_of(api)
    port = core_v1.NodeDaemonEndpoints(kubelet_endpoint=core_v1.DaemonEndpoint(port=10250))
    address = core_v1.NodeAddress(type="InternalIP", address=node)
    status = core_v1.NodeStatus(addresses=(address,), daemon_endpoints=port)
    await client.create(core_v1.Node(metadata=meta_v1.ObjectMeta(name=node), status=status))
    uids = {}
    for name in pods:
        spec = core_v1.PodSpec(containers=(core_v1.Container(name="c", image="i"),), node_name=node)
        metadata = meta_v1.ObjectMeta(name=name, namespace="default")
        uids[name] = (await client.create(core_v1.Pod(metadata=metadata, spec=spec))).metadata.uid
        await client.patch(core_v1.Pod, name, "default", {"status": {"phase": "Running"}}, subresource="status")
    return uids


def with_server(check: Callable[[ApiServer], Awaitable[None]]) -> None:
    async def main() -> None:
        settings = ApiServerSettings(
            runtime_config=("metrics.k8s.io/v1beta1=true",),
            kubelet_preferred_address_types=("InternalIP",),
            service_cluster_ip_range="10.0.0.0/16",
        )
        async with opened(settings=settings) as api:
            account = meta_v1.ObjectMeta(name="default", namespace="default")
            await client_of(api).create(core_v1.ServiceAccount(metadata=account))
            await check(api)

    asyncio.run(main())


async def read(api: ApiServer, path: str) -> Any:
    return json.loads(await client_of(api).raw("GET", path))


def test_figures_are_those_of_the_kubelet_and_a_silent_kubelet_is_left_out() -> None:
    async def check(api: ApiServer) -> None:
        uids = {**await make(api, "10.1.0.1", "a", "new"), **await make(api, "10.1.0.2", "b")}
        asked: list[tuple[str, str, str]] = []

        async def page(host: str, port: str, path: str) -> bytes:
            asked.append((host, port, path))
            if host == "10.1.0.2":
                raise unavailable("gone")
            pods = [
                {"podRef": {"name": "a", "namespace": "default", "uid": uids["a"]}, "containers": [used("c", 7)]},
                {"podRef": {"uid": uids["new"]}, "containers": [used("c", 7), used("d", None)]},
                {"podRef": {"uid": "unknown"}, "containers": [used("c", 7)]},
            ]
            return json.dumps({"node": used("", 500_000_000, 1 << 20), "pods": pods}).encode()

        api.context.kubelet_page = page
        (node,) = (await read(api, NODES))["items"]
        assert node["metadata"]["name"] == "10.1.0.1"
        assert (node["usage"], node["timestamp"]) == ({"cpu": "500000000n", "memory": "1024Ki"}, TIME)
        assert sorted(asked) == [(host, "10250", "/stats/summary") for host in ("10.1.0.1", "10.1.0.2")]
        (pod,) = (await read(api, PODS))["items"]
        assert pod["metadata"]["name"] == "a"
        assert pod["containers"] == [{"name": "c", "usage": {"cpu": "7n", "memory": "2Ki"}}]
        asked.clear()
        await read(api, f"{NODES}/10.1.0.1")
        assert [host for host, _, _ in asked] == ["10.1.0.1"]
        with pytest.raises(ApiError) as refused:
            await read(api, f"{NODES}/10.1.0.2")
        assert refused.value.code == 404

    with_server(check)


def test_a_server_that_reaches_no_kubelets_knows_nothing_of_real_nodes() -> None:
    async def check(api: ApiServer) -> None:
        await make(api, "10.1.0.1", "a")
        assert (await read(api, NODES))["items"] == []
        assert (await read(api, PODS))["items"] == []

    with_server(check)


def test_pages_of_kubelets_are_read_with_the_servers_certificate() -> None:
    async def check(server: Any, get: Callable[[str], Awaitable[tuple[int, Any]]]) -> None:
        page, client = server.api.context.kubelet_page, client_of(server.api)
        node = await client.get(core_v1.Node, "n")
        port = str(node.status.daemon_endpoints.kubelet_endpoint.port)
        assert await page("127.0.0.1", port, "/stats/summary") == b"/stats/summary?"
        with pytest.raises(ApiError, match="answered 400: previous terminated"):
            await page("127.0.0.1", port, "/stats/summary?previous=1")
        with pytest.raises(ApiError, match="does not answer"):
            await page("127.0.0.1", "1", "/stats/summary")

    ask(check)
