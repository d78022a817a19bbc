"""The descheduler as a component of a cluster, and with no more rights than its role gives it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
import pytest

from bayplan.api.types import core_v1, policy_v1
from bayplan.cli.clusters.up import command, merged_options
from bayplan.cli.clusters.up_options import UpOptions
from bayplan.client import Client
from bayplan.cluster.settings import ClusterSettings
from bayplan.descheduler.policy_reader import load_policy
from bayplan.descheduler.service import DeschedulerService
from bayplan.descheduler.settings import DeschedulerSettings
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.clock import SystemClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SystemRandomness
from bayplan.support.virtual_time import run
from bayplan.testing.builders import deployment
from bayplan.testing.cluster import running_cluster

POLICY = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
metricsProviders: [{source: KubernetesMetrics}]
profiles:
  - name: default
    pluginConfig:
      - {name: PodLifeTime, args: {maxPodLifeTimeSeconds: 600}}
    plugins: {deschedule: {enabled: [PodLifeTime]}}
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    return file


def test_a_cluster_with_a_policy_evicts_by_it_again_and_again(policy: Path) -> None:
    async def main() -> None:
        settings = ClusterSettings(descheduler_policy=policy, descheduling_interval=60.0)
        async with VirtualCluster(seed=1, nodes=2, settings=settings) as cluster:
            await cluster.client.create(deployment("web", 2))
            seen: set[str] = set()
            for _ in range(4):
                await cluster.advance(seconds=720)
                pods = (await cluster.client.list(core_v1.Pod, "default")).items
                seen |= {pod.metadata.uid for pod in pods}
            assert len(seen) >= 6
            await cluster.eventually(lambda: _all_young(cluster))

    async def _all_young(cluster: VirtualCluster) -> bool:
        return len((await cluster.client.list(core_v1.Pod, "default")).items) == 2

    run(main())


def test_its_role_is_enough(policy: Path) -> None:
    policy.write_text(POLICY.replace("{maxPodLifeTimeSeconds: 600}", "{states: [Running]}"))

    async def main() -> None:
        async with running_cluster() as cluster:
            await cluster.client.create(deployment("web", 2))
            await cluster.rolled_out("web", 2)
            client: Client = cluster.cluster.client("system:descheduler", ())
            service = DeschedulerService(
                client,
                load_policy(policy),
                DeschedulerSettings(),
                clock=SystemClock(),
                randomness=SystemRandomness(),
                metrics=Registry(),
            )
            report = await service.run_once()
            assert len(report.evicted) == 2, report
            await cluster.rolled_out("web", 2)
            events = (await cluster.client.list(core_v1.Event, "default")).items
            assert len([one for one in events if one.action == "Descheduled"]) == 2
            assert not (await cluster.client.list(policy_v1.PodDisruptionBudget)).items

    asyncio.run(main())


def settings_of(*arguments: str) -> ClusterSettings:
    with command.make_context("up", ["--store", "memory:", *arguments]) as context:
        return UpOptions(**merged_options(context)).settings()


def test_up_takes_a_policy_and_an_interval(policy: Path) -> None:
    made = settings_of("--descheduler-policy", str(policy), "--descheduling-interval", "90s")
    assert (made.descheduler_policy, made.descheduling_interval) == (policy, 90.0)
    assert settings_of("--descheduler-policy", str(policy)).descheduling_interval == 300.0
    assert settings_of().descheduler_policy is None


def test_up_says_what_is_wrong_with_a_policy(policy: Path) -> None:
    with pytest.raises(click.UsageError, match="--descheduling-interval must be more than 0"):
        settings_of("--descheduler-policy", str(policy), "--descheduling-interval", "0s")
    policy.write_text(POLICY.replace("maxPodLifeTimeSeconds", "maxPodLifetimeSeconds"))
    with pytest.raises(click.UsageError, match="did you mean maxPodLifeTimeSeconds"):
        settings_of("--descheduler-policy", str(policy))


def test_a_cluster_with_a_policy_comes_up_and_stops(policy: Path) -> None:
    async def main() -> None:
        nodes = SimulatorSettings(nodes=2, start_seconds=0.01, stop_seconds=0.01)
        async with running_cluster(settings=ClusterSettings(nodes=nodes, descheduler_policy=policy)) as cluster:

            async def has_made_a_pass() -> bool:
                page = await cluster.client.raw("GET", "/metrics")
                return b"descheduler_loop_duration_seconds_count 1" in page

            await cluster.eventually(has_made_a_pass)

    asyncio.run(main())
