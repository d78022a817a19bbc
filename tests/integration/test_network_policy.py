"""Network policies of a live cluster: what the API is told, the kernel of a node does."""

from __future__ import annotations

import asyncio
import logging
import statistics
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from bayplan.api.types import core_v1, meta_v1, networking_v1
from bayplan.client import Client
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.settings import ClusterSettings
from bayplan.informers import InformerFactory
from bayplan.kubelet.simulator import SimulatorSettings
from bayplan.network.policy.enforcer import PolicyEnforcer, remove_policies
from bayplan.network.policy.errors import PolicyError
from bayplan.network.policy.table import NAME
from bayplan.support.clock import SystemClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SystemRandomness
from bayplan.testing.mutations import detect_mutations
from tests.namespaces import Namespace, needs_namespaces
from tests.network.policy import objects as make
from tests.network.policy.namespaces import Network, connects, denied, network
from tests.network.policy.objects import apps, from_pods, port, selector

pytestmark = needs_namespaces


@dataclass
class Live:
    """A cluster's client, an enforcer that runs in the namespace of the node `here`, and the network it judges."""

    client: Client
    enforcer: PolicyEnforcer
    network: Network
    registry: Registry

    async def add_pod(self, name: str, node: str = "here") -> None:
        """Create a pod that runs on a node and listens on port 80."""
        await self.client.create(make.pod(name, node=node))
        await self.start_pod(name, node)

    async def start_pod(self, name: str, node: str = "here") -> None:
        """Attach a pod that has been created, and tell its address as its kubelet does."""
        addresses = self.network.add_pod(name, node)
        for one in addresses:
            self.network.listen(self.network.pods[name], one, 80)
        await self.tell_addresses(name, *addresses)

    async def tell_addresses(self, name: str, *addresses: str) -> None:
        """Write a pod's addresses into its status."""
        status = {"phase": "Running", "podIP": addresses[0], "podIPs": [{"ip": one} for one in addresses]}
        await self.client.patch(core_v1.Pod, name, "shop", {"status": status}, subresource="status")

    async def until(self, judge: Callable[[Namespace, str, int], bool], source: str, target: str) -> float:
        """Try until a connection is what it should be; the seconds that it took."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        async with asyncio.timeout(20):
            while not await asyncio.to_thread(  # noqa: ASYNC110  (what is awaited is the kernel's)
                judge, self.network.pods[source], self.network.addresses[target][0], 80
            ):
                await asyncio.sleep(0.01)
        return loop.time() - started

    async def until_listed(self, what: str, text: str) -> float:
        """Wait until a map or chain of the node has a text; the seconds that it took."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        async with asyncio.timeout(20):
            while text not in self.network.here.command("nft", "list", *what.split()):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        return loop.time() - started

    async def until_metric(self, line: str) -> None:
        """Wait until the metrics have a line."""
        async with asyncio.timeout(20):
            while f"\n{line}\n" not in self.registry.render().decode():  # noqa: ASYNC110
                await asyncio.sleep(0.01)


def play(story: Callable[[Live], Awaitable[None]], *, attachment: str = "ptp", check_seconds: float = 60.0) -> None:
    """Run a story with a cluster and an enforcer in the namespace of a node; nobody may change what is shared."""

    async def main(made: Network) -> None:
        cluster = Cluster(ClusterSettings(nodes=SimulatorSettings(nodes=0)))
        await cluster.start()
        client, clock, registry = cluster.client(), SystemClock(), Registry()
        try:
            await client.create(make.namespace("shop"))
            spec = core_v1.NodeSpec(pod_cidr="10.9.1.0/24", pod_cidrs=("10.9.1.0/24",))
            await client.create(core_v1.Node(metadata=meta_v1.ObjectMeta(name="here"), spec=spec))
            await client.create(core_v1.Node(metadata=meta_v1.ObjectMeta(name="there")))
            factory = InformerFactory(client, clock, SystemRandomness())
            enforcer = PolicyEnforcer(factory, "here", clock=clock, registry=registry, check_seconds=check_seconds)
            factory.start()
            running = asyncio.create_task(enforcer.run())
            try:
                async with asyncio.timeout(20):
                    while not enforcer.has_synced():  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                await story(Live(client, enforcer, made, registry))
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                await factory.stop()
        finally:
            await cluster.stop()

    with network(attachment) as made, detect_mutations():
        made.here.run(lambda: asyncio.run(main(made)))


async def web_and_clients(live: Live) -> None:
    for name, node in (("web", "here"), ("api", "here"), ("db", "there")):
        await live.add_pod(name, node)


def test_policies_take_effect_change_and_end() -> None:
    async def story(live: Live) -> None:
        await web_and_clients(live)
        await live.until(connects, "db", "web")
        await live.client.create(make.policy("web", apps("web"), ingress=[([from_pods("api")], [port(80)])]))
        await live.until(denied, "db", "web")
        await live.until(connects, "api", "web")
        labels = {"metadata": {"labels": {"app": "api"}}}
        await live.client.patch(core_v1.Pod, "db", "shop", labels)
        await live.until(connects, "db", "web")
        only = [{"from": [{"namespaceSelector": {"matchLabels": {"team": "red"}}}]}]
        await live.client.patch(networking_v1.NetworkPolicy, "web", "shop", {"spec": {"ingress": only}})
        await live.until(denied, "db", "web")
        red = {"metadata": {"labels": {"team": "red"}}}
        await live.client.patch(core_v1.Namespace, "shop", "", red)
        await live.until(connects, "db", "web")
        await live.client.patch(networking_v1.NetworkPolicy, "web", "shop", {"spec": {"ingress": []}})
        await live.until(denied, "db", "web")
        await live.client.delete(networking_v1.NetworkPolicy, "web", "shop")
        await live.until(connects, "db", "web")

    play(story)


def test_a_new_pod_is_never_open_and_reached_by_its_peers_within_a_tenth_of_a_second() -> None:
    async def story(live: Live) -> None:
        await web_and_clients(live)
        await live.client.create(make.policy("new", selector({"kind": "new"}), ingress=[([from_pods("api")], [])]))
        taken = []
        for number in range(5):
            name = f"new-{number}"
            await live.client.create(make.pod(name, labels={"kind": "new"}))
            await live.until_listed(f"chain ip {NAME} starting-ingress", "drop")
            addresses = live.network.add_pod(name)
            live.network.listen(live.network.pods[name], addresses[0], 80)
            assert await asyncio.to_thread(denied, live.network.pods["db"], addresses[0], 80)
            await live.tell_addresses(name, *addresses)
            taken.append(await live.until_listed(f"map ip {NAME} ingress", addresses[0]))
            assert await asyncio.to_thread(denied, live.network.pods["db"], addresses[0], 80)
            assert await asyncio.to_thread(connects, live.network.pods["api"], addresses[0], 80)
        assert statistics.median(taken) < 0.1, taken  # the median, as others use the machine, too

    play(story)


def test_tables_that_others_have_changed_are_put_right() -> None:
    async def story(live: Live) -> None:
        await web_and_clients(live)
        await live.client.create(make.policy("web", apps("web"), ingress=[]))
        await live.until(denied, "db", "web")
        for index, command in enumerate(
            (
                "delete table ip bayplan-network-policy",
                f"delete element ip bayplan-network-policy ingress {{ {live.network.addresses['web'][0]} }}",
                "flush chain ip bayplan-network-policy forward",
            )
        ):
            live.network.here.nft(command)
            assert await asyncio.to_thread(connects, live.network.pods["db"], live.network.addresses["web"][0], 80)
            await live.until_metric(f"bayplan_network_policy_repairs_total {index + 1}")
            await live.until(denied, "db", "web")

    play(story, check_seconds=0.5)


def test_a_transaction_that_fails_is_followed_by_a_whole_one(caplog: pytest.LogCaptureFixture) -> None:
    async def story(live: Live) -> None:
        await web_and_clients(live)
        live.network.here.nft("delete table ip bayplan-network-policy")
        await live.client.create(make.policy("web", apps("web"), ingress=[]))
        await live.until(denied, "db", "web")
        await live.until_metric("bayplan_network_policy_transaction_failures_total 1")
        assert any("next attempt in 0.2 s: nft -f - failed:" in one.message for one in caplog.records)

    play(story)


def test_what_cannot_be_enforced_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def story(live: Live) -> None:
        await web_and_clients(live)
        await live.client.create(make.policy("web", apps("web"), ingress=[([], [port("nobody")])]))
        await live.until(denied, "db", "web")
        await live.add_pod("other")
        await live.client.create(make.policy("other", apps("other"), ingress=[]))
        await live.until(denied, "db", "other")
        await live.until_metric("bayplan_network_policy_problems 1")
        await live.until_metric("bayplan_network_policy_policies 2")
        await live.until_metric("bayplan_network_policy_isolated_addresses 4")
        sentence = "NetworkPolicy shop/web: no pod has a TCP port named 'nobody', so its ingress rule allows nothing until one has"
        assert [one.message for one in caplog.records if "nobody" in one.message] == [sentence]

    with caplog.at_level(logging.WARNING):
        play(story)


def test_policies_stay_until_they_are_removed() -> None:
    async def story(live: Live) -> None:
        await web_and_clients(live)
        await live.client.create(make.policy("web", apps("web"), ingress=[]))
        await live.until(denied, "db", "web")
        await remove_policies()
        assert live.network.here.command("nft", "list", "tables") == ""
        await live.until(connects, "db", "web")
        await remove_policies()

    play(story)


def test_a_machine_without_nft_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        client: Any = None
        factory = InformerFactory(client, SystemClock(), SystemRandomness())
        await PolicyEnforcer(factory, "here", clock=SystemClock(), registry=Registry()).run()

    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(PolicyError, match="apt-get install nftables"):
        asyncio.run(main())


def test_pods_at_a_bridge_are_judged_also_where_that_was_switched_off(caplog: pytest.LogCaptureFixture) -> None:
    async def story(live: Live) -> None:
        live.network.here.write("bridge/bridge-nf-call-iptables", "0")
        await live.client.create(make.policy("web", apps("web"), ingress=[]))
        await web_and_clients(live)
        await live.until(denied, "api", "web")
        assert [one.message for one in caplog.records if "bridge" in one.message] == [
            "net.bridge.bridge-nf-call-iptables has been set to 1, so that policies apply between pods at the bridge cni0"
        ]

    with caplog.at_level(logging.WARNING):
        play(story, attachment="bridge")
