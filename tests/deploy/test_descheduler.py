"""The manifest of the descheduler: it is accepted, its policy parses, and its account may do what a descheduler does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import yaml

import bayplan
from bayplan.api.types import apps_v1, core_v1
from bayplan.cli.components.descheduler import command
from bayplan.client.leader_election import ElectionSettings, LeaderElector, LeaseLock
from bayplan.cluster.manifests.apply import apply_manifests
from bayplan.descheduler.policy_reader import parse_policy
from bayplan.descheduler.service import DeschedulerService
from bayplan.descheduler.settings import DeschedulerSettings
from bayplan.support.clock import SystemClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SystemRandomness
from bayplan.testing.builders import deployment
from bayplan.testing.cluster import running_cluster
from tests.descheduler.scenario import policy

FILE = Path(__file__).parents[2] / "deploy" / "descheduler.yaml"
ACCOUNT = "system:serviceaccount:kube-system:descheduler"


def objects() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(FILE.read_text()))


def one(kind: str) -> dict[str, Any]:
    (found,) = [each for each in objects() if each["kind"] == kind]
    return found


def test_its_image_is_of_this_version_and_its_flags_exist() -> None:
    (container,) = one("Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"bayplan:{bayplan.__version__}"
    known = {name for parameter in command.params for name in parameter.opts}
    assert container["args"][0] == "descheduler"
    assert {flag.partition("=")[0] for flag in container["args"][1:]} <= known


def test_its_policy_parses() -> None:
    found = parse_policy(yaml.safe_load(one("ConfigMap")["data"]["policy.yaml"]))
    (profile,) = found.profiles
    assert profile.evictor.require_better_node
    assert found.max_total == 20


def test_its_account_may_do_what_it_has_to() -> None:
    async def main() -> None:
        async with running_cluster() as cluster:
            await apply_manifests(cluster.client, [(FILE, each) for each in objects()])
            await cluster.client.create(deployment("web", 2))
            await cluster.rolled_out("web", 2)

            async def is_ready() -> bool:
                found = await cluster.client.get(apps_v1.Deployment, "descheduler", "kube-system")
                return found.status.ready_replicas == 1

            await cluster.eventually(is_ready)
            client = cluster.cluster.client(ACCOUNT, ("system:serviceaccounts", "system:serviceaccounts:kube-system"))
            clock, randomness = SystemClock(), SystemRandomness()
            service = DeschedulerService(
                client,
                policy("PodLifeTime", {"states": ["Running"]}, metricsProviders=[{"source": "KubernetesMetrics"}]),
                DeschedulerSettings(),
                clock=clock,
                randomness=randomness,
                metrics=Registry(),
            )
            lock = LeaseLock(client, "kube-system", "descheduler")
            elector = LeaderElector(lock, "me", clock=clock, randomness=randomness, settings=ElectionSettings())
            await elector.run(service.run)
            assert "default" in {event.metadata.namespace for event in await descheduled(cluster)}
            await cluster.rolled_out("web", 2)

    async def descheduled(cluster: Any) -> list[core_v1.Event]:
        return [event for event in (await cluster.client.list(core_v1.Event)).items if event.action == "Descheduled"]

    asyncio.run(main())
