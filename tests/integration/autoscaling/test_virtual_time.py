"""Autoscaling over hours, in virtual time and with all settings as they are by default: it follows the load, and equal seeds give equal traces."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from bayplan.api.errors import ApiError
from bayplan.api.nodes import GROUP_LABEL
from bayplan.api.types import apps_v1, autoscaling_v2, core_v1, meta_v1
from bayplan.cluster.settings import CLUSTER_CONTROLLERS, ClusterSettings
from bayplan.controllers.autoscaling.cluster_autoscaler_expanders import PRIORITY_MAP
from bayplan.controllers.autoscaling.vpa_annotations import RECOMMENDATION
from bayplan.kubelet.simulator.nodes.groups import parse_groups
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support import virtual_time
from bayplan.testing.builders import deployment, metadata
from tests.client.transports import Spoiler
from tests.integration.conftest import EXAMPLES

_HOUR = 3600.0
_USAGE = {"bayplan.dev/cpu-usage": "10%@0s 100%@30m 10%@1h", "bayplan.dev/start-seconds": "lognormal(5,0.5)"}
_GROUP = "name=web,min=1,max=6,cpu=2,memory=8Gi,provision=45s"


@dataclass(slots=True)
class Day:
    """What was seen of a run."""

    replicas: list[int] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)


def autoscaler() -> autoscaling_v2.HorizontalPodAutoscaler:
    wanted = autoscaling_v2.MetricTarget(type="Utilization", average_utilization=50)
    cpu = autoscaling_v2.MetricSpec(
        type="Resource", resource=autoscaling_v2.ResourceMetricSource(name="cpu", target=wanted)
    )
    reference = autoscaling_v2.CrossVersionObjectReference(api_version="apps/v1", kind="Deployment", name="web")
    spec = autoscaling_v2.HorizontalPodAutoscalerSpec(
        min_replicas=2, max_replicas=10, metrics=(cpu,), scale_target_ref=reference
    )
    return autoscaling_v2.HorizontalPodAutoscaler(metadata=metadata("web", "default"), spec=spec)


def play(seed: int, hours: int) -> Day:
    """A deployment whose pods are busier and busier for half an hour and then less and less, on nodes that come and go."""
    seen = Day()

    async def main() -> None:
        nodes = SimulatorSettings(nodes=0, groups=parse_groups([_GROUP]))
        async with VirtualCluster(seed=seed, nodes=nodes, trace=seen.trace.append) as cluster:
            web = deployment("web", 2, cpu="500m", pod_meta={"annotations": _USAGE})
            await cluster.client.create(web)
            await cluster.client.create(autoscaler())
            for _ in range(hours * 4):
                await cluster.advance(seconds=_HOUR / 4)
                found = await cluster.client.get(apps_v1.Deployment, "web", "default")
                seen.replicas.append(found.spec.replicas or 0)
                listed = await cluster.client.list(core_v1.Node, label_selector=f"{GROUP_LABEL}=web")
                seen.nodes.append(len(listed.items))

    virtual_time.run(main())
    return seen


def test_replicas_and_nodes_follow_the_load_up_and_down() -> None:
    seen = play(1, 3)
    assert max(seen.replicas) > 2
    assert max(seen.nodes) > 1
    peak = seen.replicas.index(max(seen.replicas))
    assert min(seen.replicas[peak:]) < max(seen.replicas), "it shrinks again"
    peak = seen.nodes.index(max(seen.nodes))
    assert min(seen.nodes[peak:]) < max(seen.nodes), "and nodes go"


def test_a_node_that_stays_away_is_removed_and_replaced_if_it_is_needed() -> None:
    async def main() -> None:
        nodes = SimulatorSettings(nodes=0, groups=parse_groups(["name=web,min=0,max=3,cpu=2,memory=8Gi"]))
        async with VirtualCluster(seed=3, nodes=nodes) as cluster:
            await cluster.client.create(deployment("web", 1, cpu="1500m"))
            await cluster.advance(minutes=2)
            [first] = (await cluster.client.list(core_v1.Node)).items
            silent = {"metadata": {"annotations": {"bayplan.dev/silent": "true"}}}
            await cluster.client.patch(core_v1.Node, first.metadata.name, "", silent)
            await cluster.advance(minutes=40)
            [second] = (await cluster.client.list(core_v1.Node)).items
            assert second.metadata.name != first.metadata.name
            found = await cluster.client.get(apps_v1.Deployment, "web", "default")
            assert found.status.available_replicas == 1

    virtual_time.run(main())


def test_the_example_grows_with_its_load() -> None:
    async def main() -> None:
        nodes = SimulatorSettings(nodes=1, groups=parse_groups(["name=web,max=5,cpu=4,memory=16Gi"]))
        async with VirtualCluster(seed=1, nodes=nodes) as cluster:
            await cluster.apply(EXAMPLES / "autoscaling.yaml")
            await cluster.advance(minutes=40)
            found = await cluster.client.get(apps_v1.Deployment, "busy", "default")
            assert (found.spec.replicas or 0) > 4
            assert found.status.ready_replicas == found.spec.replicas
            assert len((await cluster.client.list(core_v1.Node)).items) > 1
            assert "containerRecommendations" in found.metadata.annotations[RECOMMENDATION]

    virtual_time.run(main())


def test_equal_seeds_give_equal_traces() -> None:
    first, again, other = play(7, 1), play(7, 1), play(8, 1)
    assert first.trace == again.trace
    assert len(first.trace) > 20
    assert first.trace != other.trace


def test_a_group_that_grows_by_less_than_it_was_asked_for_is_told_of_as_it_is() -> None:
    refusal = ApiError(meta_v1.Status(status="Failure", code=403, reason="Forbidden", message="no more machines"))
    spoiler = Spoiler("POST", "/api/v1/nodes", refusal, times=100, after=1)

    async def main() -> None:
        nodes = SimulatorSettings(nodes=0, groups=parse_groups(["name=web,min=0,max=6,cpu=2,memory=8Gi"]))
        async with VirtualCluster(nodes=nodes, transport=spoiler.over) as cluster:
            await cluster.client.create(deployment("web", 3, cpu="1500m"))
            await cluster.advance(seconds=30)
            events = (await cluster.client.list(core_v1.Event, "kube-system")).items
            told = [one.message for one in events if one.reason == "ScaledUpGroup"]
            assert told == ["Scale-up: group web size set to 1 instead of 0 (max: 6)"]

    virtual_time.run(main())


def test_the_group_with_the_highest_priority_grows_and_what_is_wrong_with_priorities_is_told() -> None:
    async def main() -> None:
        groups = parse_groups([f"name={name},min=0,max=3,cpu=2,memory=8Gi" for name in ("costly", "spot")])
        settings = ClusterSettings(controller=replace(CLUSTER_CONTROLLERS, autoscaler_expanders=("priority",)))
        nodes = SimulatorSettings(nodes=0, groups=groups)
        async with VirtualCluster(seed=3, nodes=nodes, settings=settings) as cluster:
            client = cluster.client
            await client.create(core_v1.ConfigMap(metadata=metadata(PRIORITY_MAP, "kube-system")))
            await client.create(deployment("web", 1, cpu="1500m"))

            async def told() -> bool:
                events = (await client.list(core_v1.Event, "kube-system")).items
                about = {(one.reason, one.involved_object.name) for one in events}
                return ("PriorityConfigMapInvalid", PRIORITY_MAP) in about

            await cluster.eventually(told)
            assert (await client.list(core_v1.Node)).items == []
            data = {"priorities": "10: [costly]\n20: [spot]"}
            await client.patch(core_v1.ConfigMap, PRIORITY_MAP, "kube-system", {"data": data})

            async def grown() -> list[str]:
                return [one.metadata.labels[GROUP_LABEL] for one in (await client.list(core_v1.Node)).items]

            assert await cluster.eventually(grown) == ["spot"]

    virtual_time.run(main())
