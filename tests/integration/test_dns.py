"""The DNS server of a live cluster: what the API is told, clients are answered."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import statistics
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import dns.asyncquery
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype
import pytest

from bayplan.api.types import core_v1, discovery_v1, meta_v1
from bayplan.client import Client
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.settings import ClusterSettings
from bayplan.dns.service import DnsServer
from bayplan.dns.settings import DnsSettings
from bayplan.kubelet.simulator import SimulatorSettings
from bayplan.support.clock import SystemClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SystemRandomness
from bayplan.testing.mutations import detect_mutations
from tests.integration.conftest import BAYPLAN, LiveCluster

FREE = DnsSettings(port=0, health_port=0, ready_port=0, metrics_port=0)


@contextlib.asynccontextmanager
async def dns_server(client: Client) -> AsyncIterator[DnsServer]:
    parts: dict[str, Any] = {"clock": SystemClock(), "randomness": SystemRandomness(), "registry": Registry()}
    async with DnsServer(client, FREE, **parts) as server:
        yield server


def play(story: Callable[[Client, DnsServer], Awaitable[None]]) -> None:
    """Run a story with a cluster without nodes and its DNS server; nobody may change what is shared."""

    async def main() -> None:
        cluster = Cluster(ClusterSettings(nodes=SimulatorSettings(nodes=0)))
        await cluster.start()
        try:
            async with dns_server(cluster.client()) as server:
                await server.wait_for_sync()
                await story(cluster.client(), server)
        finally:
            await cluster.stop()

    with detect_mutations():
        asyncio.run(main())


async def ask(server: DnsServer, name: str, kind: str = "A") -> tuple[str, list[str]]:
    """The code and the data of the answer section."""
    address, port = server.bound[0]
    response = await dns.asyncquery.udp(dns.message.make_query(name, kind), address, 5, port)
    return dns.rcode.to_text(response.rcode()), [str(one) for rrset in response.answer for one in rrset]


async def seconds_until(server: DnsServer, name: str, expected: list[str]) -> float:
    """Ask until the answer is the one that is expected."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with asyncio.timeout(20):
        while (await ask(server, name))[1] != expected:  # noqa: ASYNC110  (what is awaited is an answer of the server)
            await asyncio.sleep(0.002)
    return loop.time() - started


def service(name: str, **spec: Any) -> core_v1.Service:
    ports = (core_v1.ServicePort(name="http", port=80),)
    return core_v1.Service(
        metadata=meta_v1.ObjectMeta(name=name, namespace="shop"),
        spec=core_v1.ServiceSpec(**{"ports": ports, **spec}),
    )


def endpoints(service_name: str, *addresses: str, ready: bool = True) -> discovery_v1.EndpointSlice:
    return discovery_v1.EndpointSlice(
        metadata=meta_v1.ObjectMeta(
            name=f"{service_name}-1", namespace="shop", labels={"kubernetes.io/service-name": service_name}
        ),
        address_type="IPv4",
        endpoints=tuple(
            discovery_v1.Endpoint(
                addresses=(one,),
                hostname=f"{service_name}-{index}",
                conditions=discovery_v1.EndpointConditions(ready=ready),
            )
            for index, one in enumerate(addresses)
        ),
        ports=(discovery_v1.EndpointPort(name="http", port=8080, protocol="TCP"),),
    )


async def shop(client: Client) -> None:
    await client.create(core_v1.Namespace(metadata=meta_v1.ObjectMeta(name="shop")))


def test_services_and_endpoints_have_names_as_long_as_they_are_there() -> None:
    async def story(client: Client, server: DnsServer) -> None:
        assert await ask(server, "kubernetes.default.svc.cluster.local") == ("NOERROR", ["10.96.0.1"])
        assert await ask(server, "db.shop.svc.cluster.local") == ("NXDOMAIN", [])
        assert await ask(server, "ns.dns.cluster.local") == ("NOERROR", ["127.0.0.1"])
        await shop(client)
        web = await client.create(service("web"))
        await client.create(service("db", cluster_ip="None"))
        await client.create(endpoints("db", "10.1.0.1"))
        await seconds_until(server, "db.shop.svc.cluster.local", ["10.1.0.1"])
        await seconds_until(server, "web.shop.svc.cluster.local", [web.spec.cluster_ip])
        assert await ask(server, "db-0.db.shop.svc.cluster.local") == ("NOERROR", ["10.1.0.1"])
        assert await ask(server, "_http._tcp.db.shop.svc.cluster.local", "SRV") == (
            "NOERROR",
            ["0 100 8080 db-0.db.shop.svc.cluster.local."],
        )
        assert await ask(server, "1.0.1.10.in-addr.arpa", "PTR") == ("NOERROR", ["db-0.db.shop.svc.cluster.local."])
        assert await ask(server, "shop.svc.cluster.local") == ("NOERROR", [])
        await client.delete(core_v1.Service, "db", "shop")
        await seconds_until(server, "db.shop.svc.cluster.local", [])
        assert await ask(server, "db.shop.svc.cluster.local") == ("NXDOMAIN", [])

    play(story)


def test_new_endpoints_are_answered_within_a_tenth_of_a_second() -> None:
    async def story(client: Client, server: DnsServer) -> None:
        await shop(client)
        await client.create(service("db", cluster_ip="None"))
        await client.create(endpoints("db", "10.1.0.0"))
        name, taken = "db.shop.svc.cluster.local", []
        await seconds_until(server, name, ["10.1.0.0"])
        for number in range(1, 16):
            patch = {"endpoints": [{"addresses": [f"10.1.0.{number}"], "conditions": {"ready": True}}]}
            await client.patch(discovery_v1.EndpointSlice, "db-1", "shop", patch)
            taken.append(await seconds_until(server, name, [f"10.1.0.{number}"]))
        assert statistics.median(taken) < 0.1  # the median, as others use the machine, too

    play(story)


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


def test_it_is_healthy_at_once_and_ready_when_the_cluster_is_known() -> None:
    async def main() -> None:
        cluster = Cluster(ClusterSettings(nodes=SimulatorSettings(nodes=0)))
        await cluster.start()
        client, listed = cluster.client(), asyncio.Event()
        original = client.list

        async def held(cls: Any, *arguments: Any, **options: Any) -> Any:
            if cls is discovery_v1.EndpointSlice:
                await listed.wait()
            return await original(cls, *arguments, **options)

        client.list = held  # type: ignore[method-assign]
        try:
            async with dns_server(client) as server:
                paths = {path: f"http://127.0.0.1:{port}{path}" for path, port in server.http_ports.items()}
                assert await get(paths["/health"]) == (200, "OK")
                assert await get(paths["/ready"]) == (503, "kubernetes: waiting for endpointslices")
                assert await ask(server, "x.default.svc.cluster.local") == ("SERVFAIL", [])
                listed.set()
                await server.wait_for_sync()
                assert await get(paths["/ready"]) == (200, "OK")
                assert await ask(server, "x.default.svc.cluster.local") == ("NXDOMAIN", [])
                status, text = await get(paths["/metrics"])
                assert status == 200
                assert "coredns_dns_requests_total{" in text
                assert (await get(paths["/ready"].replace("ready", "other")))[0] == 404
        finally:
            await cluster.stop()

    asyncio.run(main())


def test_it_goes_on_answering_while_the_api_server_is_away() -> None:
    async def main() -> None:
        cluster = Cluster(ClusterSettings(nodes=SimulatorSettings(nodes=0)))
        await cluster.start()
        async with dns_server(cluster.client()) as server:
            await server.wait_for_sync()
            await cluster.stop()
            for name in ("kubernetes.default.svc", "10-0-0-1.default.pod"):
                code, answer = await ask(server, f"{name}.cluster.local")
                assert (code, len(answer)) == ("NOERROR", 1)

    asyncio.run(main())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_serves_until_it_is_told_to_stop(
    lone_server: LiveCluster, tmp_path: Path, number: signal.Signals
) -> None:
    command = [BAYPLAN, "dns", f"--kubeconfig={lone_server.kubeconfig}", "--port=0", "--forward=none"]
    command += ["--health-port=0", "--ready-port=0", "--metrics-port=0", "--listen=127.0.0.1", "--listen=::1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        found = re.fullmatch(
            r"listening: 127.0.0.1:(\d+), \[::1\]:\1, domain cluster.local\n", process.stdout.readline()
        )
        assert found is not None
        assert process.stdout.readline() == "ready\n"
        query = dns.message.make_query("kubernetes.default.svc.cluster.local", "A")
        for address in ("127.0.0.1", "::1"):
            for way in (dns.query.udp, dns.query.tcp):
                response = way(query, address, 5, int(found[1]))
                assert [str(one) for one in response.answer[0]] == ["10.96.0.1"]
        process.send_signal(number)
        assert (process.wait(10), process.stdout.read()) == (0, "")
