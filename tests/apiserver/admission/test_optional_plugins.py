"""Plugins that run only where they are asked for."""

from __future__ import annotations

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.admission.chain import TABLE, build_chain
from bayplan.client import Client
from tests.apiserver.admission.running import container, label_namespace, named, pod, run

REQUIRED_ELSEWHERE = core_v1.Affinity(
    pod_anti_affinity=core_v1.PodAntiAffinity(
        required_during_scheduling_ignored_during_execution=(core_v1.PodAffinityTerm(topology_key="zone"),)
    )
)


def test_every_plugin_of_the_table_can_be_made_and_has_its_name() -> None:
    webhook = {"imagePolicy": {"kubeConfigFile": "unused"}}
    chain = build_chain([row.name for row in TABLE], [], {"ImagePolicyWebhook": webhook})
    names = {row.name for row in TABLE}
    assert [plugin.name for plugin in chain.plugins if plugin.name in names] == [row.name for row in TABLE]


def test_images_are_always_pulled() -> None:
    async def case(client: Client) -> None:
        made = await client.create(pod(containers=(container(image="x:1", image_pull_policy="Never"),)))
        assert made.spec.containers[0].image_pull_policy == "Always"

    run(case, enabled=("AlwaysPullImages",))


def test_anti_affinity_is_for_nodes_only() -> None:
    async def case(client: Client) -> None:
        with pytest.raises(ApiError, match=r"has TopologyKey zone but only key kubernetes.io/hostname is allowed"):
            await client.create(pod(affinity=REQUIRED_ELSEWHERE))

    run(case, enabled=("LimitPodHardAntiAffinityTopology",))


def test_a_missing_namespace_is_made() -> None:
    async def case(client: Client) -> None:
        await client.create(core_v1.ConfigMap(metadata=meta_v1.ObjectMeta(name="a", namespace="fresh")))
        assert (await client.get(core_v1.Namespace, "fresh")).status.phase == "Active"

    run(case, enabled=("NamespaceAutoProvision",))


def test_the_namespace_chooses_the_nodes() -> None:
    async def case(client: Client) -> None:
        await label_namespace(client, {}, {"scheduler.alpha.kubernetes.io/node-selector": "disk=ssd"})
        made = await client.create(pod(node_selector={"a": "b"}))
        assert made.spec.node_selector == {"a": "b", "disk": "ssd"}
        with pytest.raises(ApiError, match="conflicts with its namespace node label selector"):
            await client.create(pod("q", node_selector={"disk": "slow"}))

    run(case, enabled=("PodNodeSelector",))


def test_the_namespace_gives_and_bounds_tolerations() -> None:
    async def case(client: Client) -> None:
        text = '[{"key": "a", "operator": "Exists"}]'
        prefix = "scheduler.alpha.kubernetes.io/"
        await label_namespace(client, {}, {f"{prefix}defaultTolerations": text, f"{prefix}tolerationsWhitelist": text})
        made = await client.create(pod())
        assert [one.key for one in made.spec.tolerations] == ["a"]
        other = core_v1.Toleration(key="b", operator="Exists")
        with pytest.raises(ApiError, match="conflict with its namespace whitelist"):
            await client.create(pod("q", tolerations=(other,)))

    run(case, enabled=("PodTolerationRestriction",), disabled=("DefaultTolerationSeconds",))


def test_pods_tolerate_the_taints_of_their_devices() -> None:
    async def case(client: Client) -> None:
        asking = container(resources={"limits": {"example.com/gpu": "1"}})
        made = await client.create(pod(containers=(asking,)))
        assert (
            core_v1.Toleration(key="example.com/gpu", operator="Exists", effect="NoSchedule") in made.spec.tolerations
        )

    run(case, enabled=("ExtendedResourceToleration",))


def test_services_get_no_external_addresses() -> None:
    async def case(client: Client) -> None:
        spec = core_v1.ServiceSpec(ports=(core_v1.ServicePort(port=80),), external_ips=("1.2.3.4",))
        with pytest.raises(ApiError, match="Use of external IPs is denied by admission control"):
            await client.create(core_v1.Service(metadata=named("s"), spec=spec))

    run(case, enabled=("DenyServiceExternalIPs",))


def test_events_beyond_the_limit_are_refused() -> None:
    async def case(client: Client) -> None:
        def event(index: int) -> core_v1.Event:
            about = core_v1.ObjectReference(namespace="default", name="x")
            return core_v1.Event(metadata=named(f"e{index}"), involved_object=about)

        for index in range(3):
            await client.create(event(index))
        with pytest.raises(ApiError, match="limit reached on type Namespace for key default") as caught:
            await client.create(event(3))
        assert caught.value.code == 429

    limits = {"limits": [{"type": "Namespace", "qps": 1, "burst": 3}]}
    run(case, enabled=("EventRateLimit",), configuration={"EventRateLimit": limits})


@pytest.mark.parametrize("plugin", ["LimitRanger", "DefaultTolerationSeconds"])
def test_a_configuration_for_a_plugin_without_one_is_refused(plugin: str) -> None:
    async def case(client: Client) -> None:
        raise AssertionError("the server has started")

    with pytest.raises(ValueError, match=f"{plugin} takes no configuration"):
        run(case, configuration={plugin: {}})
