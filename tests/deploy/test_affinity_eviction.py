"""The manifest of the controller for rules during execution: it is accepted, its flags exist, and its account may do what the controller does."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import yaml

import bayplan
from bayplan.api.pods.execution_rules import ANNOTATION
from bayplan.api.types import apps_v1, core_v1
from bayplan.cli.components.controller_manager import command
from bayplan.client.leader_election import ElectionSettings, LeaderElector, LeaseLock
from bayplan.cluster.manifests.apply import apply_manifests
from bayplan.controllers.manager import ControllerManager
from bayplan.support.clock import SystemClock
from bayplan.support.randomness import SystemRandomness
from bayplan.testing.builders import deployment
from bayplan.testing.cluster import running_cluster

FILE = Path(__file__).parents[2] / "deploy" / "affinity-eviction.yaml"
ACCOUNT = "system:serviceaccount:kube-system:affinity-eviction"
MARKED = {"matchExpressions": [{"key": "marked", "operator": "Exists"}]}


def objects() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(FILE.read_text()))


def test_its_image_is_of_this_version_and_its_flags_exist() -> None:
    (one,) = [each for each in objects() if each["kind"] == "Deployment"]
    (container,) = one["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"bayplan:{bayplan.__version__}"
    known = {name for parameter in command.params for name in parameter.opts}
    assert container["args"][0] == "controller-manager"
    assert {flag.partition("=")[0] for flag in container["args"][1:]} <= known


def test_its_account_may_do_what_it_has_to() -> None:
    async def main() -> None:
        async with running_cluster() as cluster:
            await apply_manifests(cluster.client, [(FILE, each) for each in objects()])

            async def is_ready() -> bool:
                found = await cluster.client.get(apps_v1.Deployment, "affinity-eviction", "kube-system")
                return found.status.ready_replicas == 2

            await cluster.eventually(is_ready)
            names = [one.metadata.name for one in (await cluster.client.list(core_v1.Node)).items]
            for name in names:
                await cluster.client.patch(core_v1.Node, name, "", {"metadata": {"labels": {"marked": ""}}})
            rules = {
                "nodeAffinity": {"requiredDuringSchedulingRequiredDuringExecution": {"nodeSelectorTerms": [MARKED]}}
            }
            web = deployment("web", 2)
            web.spec.template.metadata.annotations = {ANNOTATION: json.dumps(rules)}
            await cluster.client.create(web)
            await cluster.rolled_out("web", 2)
            client = cluster.cluster.client(ACCOUNT, ("system:serviceaccounts", "system:serviceaccounts:kube-system"))
            clock, randomness = SystemClock(), SystemRandomness()
            manager = ControllerManager(
                client,
                clock=clock,
                randomness=randomness,
                root_ca="",
                enabled=lambda name: name == "affinity-eviction-controller",
            )
            lock = LeaseLock(client, "kube-system", "bayplan-affinity-eviction")
            elector = LeaderElector(lock, "me", clock=clock, randomness=randomness, settings=ElectionSettings())
            task = asyncio.create_task(elector.run(manager.run))
            for name in names:
                await cluster.client.patch(core_v1.Node, name, "", {"metadata": {"labels": {"marked": None}}})

            async def is_told() -> bool:
                events = (await cluster.client.list(core_v1.Event, "default")).items
                return any(one.reason == "NodeAffinityEviction" for one in events)

            await cluster.eventually(is_told)
            task.cancel()
            await asyncio.wait([task])

    asyncio.run(main())
