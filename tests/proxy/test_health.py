"""What /healthz and /livez say, and the health checks of services."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import aiohttp
import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.proxy.configuration import KubeProxyConfiguration, from_tree
from bayplan.proxy.errors import ListenError
from bayplan.proxy.families import IPV4, IPV6
from bayplan.proxy.health import ProxyHealth
from bayplan.proxy.http_endpoints import HttpEndpoints
from bayplan.proxy.metrics import ProxyMetrics
from bayplan.proxy.rules.desired_table import DesiredTable
from bayplan.proxy.rules.table_options import TableOptions
from bayplan.proxy.service_health import ServiceHealthServers
from bayplan.support.clock import SystemClock
from bayplan.support.metrics.instruments import Registry
from bayplan.testing.clock import ManualClock
from tests.proxy.objects import NODE, endpoint, endpoint_slice, service
from tests.proxy.test_configuration import HEAD

WEB = ("ns", "web")


def node(*, taint: str = "", deleted: bool = False) -> core_v1.Node:
    return core_v1.Node(
        metadata=meta_v1.ObjectMeta(name="n", deletion_timestamp="2026-01-01T00:00:00Z" if deleted else None),
        spec=core_v1.NodeSpec(taints=(core_v1.Taint(key=taint, effect="NoSchedule"),) if taint else ()),
    )


def test_health_shows_each_family_and_when_it_was_synced() -> None:
    clock = ManualClock()
    health = ProxyHealth(clock, 60)
    health.node = node()
    health.queued(IPV4)
    health.queued(IPV6)
    health.updated(IPV4)
    clock.advance(59.9)
    good, body = health.livez()
    assert good
    assert body["lastUpdated"] == body["currentTime"]
    assert "nodeEligible" not in body
    clock.advance(0.2)
    good, body = health.healthz()
    assert not good
    assert body["healthy"] is False
    assert body["nodeEligible"] is True
    assert body["lastUpdated"] < body["currentTime"]
    assert {name: one["healthy"] for name, one in body["status"].items()} == {"IPv4": True, "IPv6": False}
    health.updated(IPV6)
    assert health.healthz()[0]


def test_without_any_sync_it_is_healthy_and_was_never_updated() -> None:
    health = ProxyHealth(ManualClock(), 60)
    good, body = health.healthz()
    assert (good, body["healthy"], body["lastUpdated"]) == (False, True, "0001-01-01T00:00:00Z")
    assert health.livez()[0]


@pytest.mark.parametrize(
    ("found", "eligible"),
    [
        (None, False),
        (node(), True),
        (node(taint="other"), True),
        (node(taint="ToBeDeletedByClusterAutoscaler"), False),
        (node(deleted=True), False),
    ],
    ids=["no node", "a node", "tainted", "to be deleted", "being deleted"],
)
def test_a_node_that_is_to_go_gets_no_traffic(found: core_v1.Node | None, eligible: bool) -> None:
    health = ProxyHealth(ManualClock(), 60)
    health.queued(IPV4)
    health.node = found
    assert (health.healthz()[0], health.livez()[0]) == (eligible, True)


def test_health_checks_count_ready_endpoints_on_this_node_once() -> None:
    table = DesiredTable(TableOptions(family=IPV4, node_name=NODE))
    ports = (("p80", "TCP", 80), ("p81", "TCP", 81))
    web = {"balancers": ("203.0.113.1",), "external_traffic_policy": "Local", "health_check_node_port": 30000}
    table.put_service(service("web", "10.96.0.1", ports=ports, **web))  # type: ignore[arg-type]
    table.put_service(service("other", "10.96.0.2"))
    assert table.health_checks() == {WEB: (30000, 0)}
    table.put_slice(
        endpoint_slice(
            "web",
            endpoint("10.1.0.1", local=True),
            endpoint("10.1.0.2", local=True, ready=False, serving=True, terminating=True),
            endpoint("10.1.0.3", local=True),
            "10.2.0.1",
            ports=ports,
        )
    )
    assert table.health_checks() == {WEB: (30000, 2)}
    table.remove_service("ns", "web")
    assert table.health_checks() == {}


async def get(url: str) -> tuple[int, dict[str, str], str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, dict(response.headers), await response.text()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_services_health_checks_answer_as_kube_proxys() -> None:
    async def main() -> None:
        port, healthy = free_port(), True
        url = f"http://127.0.0.1:{port}/any/path"
        servers = ServiceHealthServers(lambda: healthy, lambda: ("127.0.0.1",), lambda *_: None)
        await servers.sync({WEB: (port, 2)})
        status, headers, text = await get(url)
        assert status == 200
        assert headers["Content-Type"] == "application/json"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Load-Balancing-Endpoint-Weight"] == "2"
        assert text == (
            '{\n\t"service": {\n\t\t"namespace": "ns",\n\t\t"name": "web"\n\t},\n'
            '\t"localEndpoints": 2,\n\t"serviceProxyHealthy": true\n}'
        )
        healthy = False
        assert (await get(url))[0] == 503
        healthy = True
        await servers.sync({WEB: (port, 0)})
        status, headers, text = await get(url)
        assert (status, headers["X-Load-Balancing-Endpoint-Weight"]) == (503, "0")
        assert json.loads(text)["localEndpoints"] == 0
        other = free_port()
        await servers.sync({WEB: (other, 1)})
        assert (await get(f"http://127.0.0.1:{other}/"))[0] == 200
        with pytest.raises(aiohttp.ClientConnectorError):
            await get(url)
        await servers.stop()
        with pytest.raises(aiohttp.ClientConnectorError):
            await get(f"http://127.0.0.1:{other}/")

    asyncio.run(main())


def test_a_port_that_is_taken_is_told_and_tried_again() -> None:
    async def main() -> None:
        told: list[Any] = []
        servers = ServiceHealthServers(lambda: True, lambda: ("127.0.0.1",), lambda *what: told.append(what))
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            await servers.sync({WEB: (port, 1)})
        assert [key for key, _ in told] == [WEB]
        assert told[0][1].startswith(f"failed to start healthcheck ns/web on port {port}: ")
        await servers.sync({WEB: (port, 1)})
        assert (await get(f"http://127.0.0.1:{port}/"))[0] == 200
        await servers.stop()

    asyncio.run(main())


def endpoints(**fields: Any) -> HttpEndpoints:
    configuration: KubeProxyConfiguration = from_tree(
        {**HEAD, "healthzBindAddress": "127.0.0.1:0", "metricsBindAddress": "127.0.0.1:0", **fields}, "FILE"
    )
    registry, health = Registry(), ProxyHealth(SystemClock(), 60)
    health.queued(IPV4)
    return HttpEndpoints(configuration, health, registry, ProxyMetrics(registry), SystemClock())


def test_paths_are_those_of_kube_proxy() -> None:
    async def main() -> None:
        made = endpoints()
        await made.start()
        health, metrics = (f"http://127.0.0.1:{made.ports[name]}" for name in ("healthz", "metrics"))
        status, headers, text = await get(f"{health}/healthz")
        assert (status, json.loads(text)["nodeEligible"]) == (503, False)
        assert headers["X-Content-Type-Options"] == "nosniff"
        status, headers, text = await get(f"{health}/livez")
        assert (status, json.loads(text)["healthy"]) == (200, True)
        assert (await get(f"{health}/metrics"))[0] == 404
        assert (await get(f"{metrics}/healthz"))[::2] == (200, "ok")
        assert (await get(f"{metrics}/proxyMode"))[::2] == (200, "nftables")
        status, _, text = await get(f"{metrics}/configz")
        assert json.loads(text)["kubeproxy.config.k8s.io"]["nftables"]["syncPeriod"] == "30s"
        status, _, text = await get(f"{metrics}/metrics")
        assert 'kubeproxy_proxy_healthz_total{code="503"} 1\n' in text
        assert 'kubeproxy_proxy_livez_total{code="200"} 1\n' in text
        await made.stop()

    asyncio.run(main())


def test_an_address_that_is_taken_ends_the_proxy_only_if_told_so() -> None:
    async def main() -> None:
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            taken = f"127.0.0.1:{other.getsockname()[1]}"
            hard = endpoints(metricsBindAddress=taken, bindAddressHardFail=True)
            with pytest.raises(ListenError, match=f"cannot listen on {taken} for metrics: .*metricsBindAddress"):
                await hard.start()
            await hard.stop()
            soft = endpoints(metricsBindAddress=taken)
            await soft.start()
            assert soft.ports.keys() == {"healthz"}
            await soft.stop()

    asyncio.run(main())
