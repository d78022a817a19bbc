"""The service proxy of a live cluster: what the API is told, packets follow."""

from __future__ import annotations

import asyncio
import json
import signal
import statistics
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bayplan.api.types import core_v1, discovery_v1, meta_v1
from bayplan.client import Client
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.settings import ClusterSettings
from bayplan.kubelet.simulator import SimulatorSettings
from bayplan.proxy.configuration import from_tree
from bayplan.proxy.families import FAMILIES
from bayplan.proxy.service import ProxyServer
from bayplan.proxy.system.kernel import NetlinkKernel
from bayplan.proxy.system.nft import Nft
from bayplan.support.clock import SystemClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SystemRandomness
from bayplan.testing.mutations import detect_mutations
from tests.integration.conftest import BAYPLAN, start, stop
from tests.namespaces import needs_namespaces
from tests.proxy.network import NODE_ADDRESSES, PODS, A, B, C, Network, network
from tests.proxy.objects import NODE, endpoint, endpoint_slice, service
from tests.proxy.test_configuration import HEAD

pytestmark = [needs_namespaces, pytest.mark.xdist_group("proxy-namespaces")]

PORTS = (("p80", "TCP", 8080),)
NODE_PORT = 30080
FAST: dict[str, Any] = {
    **HEAD,
    "clusterCIDR": ",".join(PODS),
    "healthzBindAddress": "127.0.0.1:0",
    "metricsBindAddress": "127.0.0.1:0",
    "nftables": {"minSyncPeriod": "1ms", "syncPeriod": "1s"},
}


@pytest.fixture(scope="module")
def net() -> Iterator[Network]:
    with network() as made:
        yield made


class Story:
    """What tests of a cluster use."""

    def __init__(self, net: Network, client: Client, server: ProxyServer) -> None:
        self.net = net
        self.client = client
        self.server = server

    async def ask(self, *arguments: Any) -> str:
        """See Network.ask."""
        return await asyncio.to_thread(self.net.ask, *arguments)

    async def until(self, expected: str, *arguments: Any) -> None:
        """Ask until the answer is the one that is expected."""
        async with asyncio.timeout(20):
            while (found := await self.ask(*arguments)) != expected:
                assert isinstance(found, str)

    async def create(self, *objects: Any) -> None:
        """Create objects."""
        for one in objects:
            await self.client.create(one)


def play(net: Network, story: Callable[[Story], Awaitable[None]], **fields: Any) -> None:
    """Run a story with a cluster and a proxy in the node's namespace; nobody may change what is shared."""

    async def main() -> None:
        cluster = Cluster(ClusterSettings(nodes=SimulatorSettings(nodes=0)))
        await cluster.start()
        client, writer, kernel = cluster.client(), Nft(), NetlinkKernel()
        try:
            await client.create(core_v1.Namespace(metadata=meta_v1.ObjectMeta(name="ns")))
            await register(client)
            server = ProxyServer(
                client,
                from_tree({**FAST, **fields}, "FILE"),
                NODE,
                families=FAMILIES,
                writer=writer,
                kernel=kernel,
                clock=SystemClock(),
                randomness=SystemRandomness(),
                registry=Registry(),
            )
            async with server:
                await asyncio.wait_for(server.wait_for_rules(), 20)
                await story(Story(net, client, server))
        finally:
            writer.close()
            kernel.close()
            await cluster.stop()

    loop = net.node.loop()
    try:
        with detect_mutations():
            loop.run(main(), timeout=60)
    finally:
        loop.close()
        remove_tables(net)


async def register(client: Client) -> None:
    """The proxy's node."""
    await client.create(core_v1.Node(metadata=meta_v1.ObjectMeta(name=NODE)))
    addresses = [{"type": "InternalIP", "address": one} for one in NODE_ADDRESSES]
    await client.patch(core_v1.Node, NODE, "", {"status": {"addresses": addresses}}, subresource="status")


def remove_tables(net: Network) -> None:
    for family in ("ip", "ip6"):
        place = f"{family} kube-proxy"
        net.node.command("nft", f"add table {place}; delete table {place}")


def test_packets_follow_services_and_endpoints(net: Network) -> None:
    async def story(it: Story) -> None:
        await it.create(
            service("web", "10.96.0.7", node_ports=(NODE_PORT,)),
            endpoint_slice("web", endpoint(A[0], local=True), ports=PORTS),
        )
        await it.until("a 10.1.0.3", net.b, "10.96.0.7")
        await it.until("a 10.1.0.1", net.client, NODE_ADDRESSES[0], NODE_PORT)
        assert await it.ask(net.node, "10.96.0.99") == "nothing"  # of a ServiceCIDR, and nobody's
        await it.client.delete(discovery_v1.EndpointSlice, "web-ipv4", "ns")
        await it.until("refused", net.b, "10.96.0.7")
        await it.client.delete(core_v1.Service, "web", "ns")
        await it.until("nothing", net.b, "10.96.0.7")
        events = await it.client.list(core_v1.Event, "default")
        assert [
            (one.reason, one.involved_object.name) for one in events.items if one.reporting_component == "kube-proxy"
        ] == [("Starting", NODE)]

    play(net, story)


def test_services_of_other_proxies_and_headless_ones_are_left_alone(net: Network) -> None:
    async def story(it: Story) -> None:
        other = service("other", "10.96.0.8")
        other.metadata.labels["service.kubernetes.io/service-proxy-name"] = "another"
        await it.create(
            other,
            service("headless", "None"),
            service("web", "10.96.0.7"),
            *(endpoint_slice(name, endpoint(A[0], local=True), ports=PORTS) for name in ("other", "headless", "web")),
        )
        await it.until("a 10.1.0.3", net.b, "10.96.0.7")
        listed = net.node.command("nft", "list", "table", "ip", "kube-proxy")
        assert ("ns/web/" in listed, "ns/other/" in listed, "ns/headless/" in listed) == (True, False, False)
        del other.metadata.labels["service.kubernetes.io/service-proxy-name"]
        patch = {"metadata": {"labels": {"service.kubernetes.io/service-proxy-name": None}}}
        await it.client.patch(core_v1.Service, "other", "ns", patch)
        await it.until("a 10.1.0.3", net.b, "10.96.0.8")

    play(net, story)


def test_hints_follow_the_nodes_zone(net: Network) -> None:
    async def story(it: Story) -> None:
        await it.create(
            service("web", "10.96.0.7"),
            endpoint_slice("web", endpoint(A[0], zones=("west",)), endpoint(C[0], zones=("east",)), ports=PORTS),
        )
        for zone, expected in (("west", "a 10.1.0.3"), ("east", "c 10.1.0.3")):
            patch = {"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}}
            await it.client.patch(core_v1.Node, NODE, "", patch)
            await it.until(expected, net.b, "10.96.0.7")
            await asyncio.sleep(0.1)
            assert {await it.ask(net.b, "10.96.0.7") for _ in range(10)} == {expected}

    play(net, story)


def test_what_others_change_is_restored(net: Network) -> None:
    async def story(it: Story) -> None:
        await it.create(service("web", "10.96.0.7"), endpoint_slice("web", endpoint(A[0]), ports=PORTS))
        await it.until("a 10.1.0.3", net.b, "10.96.0.7")
        await asyncio.to_thread(net.node.command, "nft", "flush chain ip kube-proxy services")
        assert (await it.ask(net.b, "10.96.0.7")).startswith(("nothing", "refused"))
        await it.until("a 10.1.0.3", net.b, "10.96.0.7")

    play(net, story)


def test_a_new_endpoint_is_in_the_kernel_within_a_tenth_of_a_second(net: Network) -> None:
    async def story(it: Story) -> None:
        await it.create(service("web", "10.96.0.7"), endpoint_slice("web", endpoint(A[0]), ports=PORTS))
        await it.until("a 10.1.0.3", net.b, "10.96.0.7")
        loop, taken = asyncio.get_running_loop(), []
        for number in range(11):
            address, name = ((B[0], "b"), (A[0], "a"))[number % 2]
            patch = {"endpoints": [{"addresses": [address], "conditions": {"ready": True}}]}
            started = loop.time()
            await it.client.patch(discovery_v1.EndpointSlice, "web-ipv4", "ns", patch)
            async with asyncio.timeout(20):
                while not (await it.ask(net.node, "10.96.0.7")).startswith(name):  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
            taken.append(loop.time() - started)
        assert statistics.median(taken) < 0.1  # the median, as others use the machine, too

    play(net, story)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_rules_outlive_the_command_until_they_are_cleaned_up(
    net: Network, tmp_path: Path, number: signal.Signals
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    place = net.node
    cluster = place.run(lambda: start("--nodes", "0", "--store", "memory:", "--kubeconfig", str(kubeconfig)))
    try:
        config = tmp_path / "config.json"
        fields = {
            **HEAD,
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "bindAddress": NODE_ADDRESSES[0],
            "healthzBindAddress": "127.0.0.1:0",
            "metricsBindAddress": "127.0.0.1:0",
        }
        config.write_text(json.dumps(fields))
        flags = ["--kubeconfig", str(kubeconfig), "--bind-address", NODE_ADDRESSES[0], "--nftables-sync-period=5s"]
        flags += ["--metrics-bind-address=", "--healthz-bind-address=127.0.0.1:0"]
        for options in (["--config", str(config)], flags):
            command = [BAYPLAN, "proxy", "--hostname-override", "Lone-Node", *options]
            with place.run(partial(subprocess.Popen, command, stdout=subprocess.PIPE, text=True)) as process:
                assert process.stdout is not None
                assert process.stdout.readline() == "started: proxy of node lone-node\n"
                assert process.stdout.readline() == "ready\n"
                process.send_signal(number)
                assert (process.wait(10), process.stdout.read()) == (0, "")
        assert "10.96.0.1 . tcp . 443" in place.command("nft", "list", "table", "ip", "kube-proxy")
        assert place.command(BAYPLAN, "proxy", "--cleanup") == "removed: tables kube-proxy of ip and ip6\n"
        assert "kube-proxy" not in place.command("nft", "list", "tables")
        assert place.command(BAYPLAN, "proxy", "--cleanup") == "removed: tables kube-proxy of ip and ip6\n"
    finally:
        stop(cluster)
