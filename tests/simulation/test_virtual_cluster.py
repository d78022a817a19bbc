"""Whole clusters in virtual time."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from bayplan.api.types import apps_v1, core_v1
from bayplan.kubelet.simulator.nodes.objects import SILENT
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.virtual_time import run
from bayplan.testing.builders import deployment
from bayplan.testing.cluster import InvariantBroken
from bayplan.testing.invariants import violations

T = TypeVar("T")


def in_cluster(act: Callable[[VirtualCluster], Awaitable[T]], *, seed: int = 0, nodes: int = 3) -> T:
    async def main() -> T:
        async with VirtualCluster(seed=seed, nodes=nodes) as cluster:
            return await act(cluster)

    return run(main())


async def running_pods(cluster: VirtualCluster) -> list[core_v1.Pod]:
    pods = (await cluster.client.list(core_v1.Pod)).items
    return [pod for pod in pods if pod.status.phase == "Running" and not pod.metadata.deletion_timestamp]


def test_a_deployment_comes_up() -> None:
    async def act(cluster: VirtualCluster) -> None:
        await cluster.client.create(deployment("web", 5))

        async def ready() -> bool:
            return (await cluster.client.get(apps_v1.Deployment, "web", "default")).status.ready_replicas == 5

        await cluster.eventually(ready, within=30)
        assert len(await running_pods(cluster)) == 5
        assert await violations(cluster.client) == []

    in_cluster(act)


def test_pods_of_a_silent_node_move_after_five_minutes_and_the_grace_period() -> None:
    async def act(cluster: VirtualCluster) -> None:
        await cluster.client.create(deployment("web", 6))
        await cluster.advance(minutes=2)
        victim = (await running_pods(cluster))[0].spec.node_name
        on_it = [pod for pod in await running_pods(cluster) if pod.spec.node_name == victim]
        began = cluster.now()
        await cluster.client.patch(
            core_v1.Node,
            victim,
            "",
            {"metadata": {"annotations": {SILENT: "true"}}},
            patch_type="application/merge-patch+json",
        )

        async def moved() -> bool:
            return len([pod for pod in await running_pods(cluster) if pod.spec.node_name != victim]) == 6

        await cluster.eventually(moved, within=600)
        assert on_it
        assert 340 < cluster.now() - began < 375  # 40 to 50 s until it is noticed, 300 s of toleration

    in_cluster(act)


def test_manifests_are_files_texts_or_objects(tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}")
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: two\n"
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "three"}}

    async def act(cluster: VirtualCluster) -> set[str]:
        assert await cluster.apply(file, text, obj) == 3
        found = (await cluster.client.list(core_v1.ConfigMap, "default")).items
        return {one.metadata.name for one in found} - {"kube-root-ca.crt"}

    assert in_cluster(act) == {"one", "two", "three"}


def test_what_never_comes_true_is_told_after_its_time() -> None:
    async def act(cluster: VirtualCluster) -> None:
        async def never() -> bool:
            return False

        with pytest.raises(AssertionError, match="within 60 virtual seconds"):
            await cluster.eventually(never, within=60)

    in_cluster(act)


def test_a_cluster_is_looked_at_as_a_whole() -> None:
    async def act(cluster: VirtualCluster) -> None:
        await cluster.client.create(deployment("web", 2))
        await cluster.advance(minutes=1)
        await cluster.validate()
        await cluster.client.delete(core_v1.Node, (await running_pods(cluster))[0].spec.node_name)
        with pytest.raises(InvariantBroken, match="does not exist"):
            await cluster.validate()

    in_cluster(act)


def test_a_virtual_cluster_needs_virtual_time() -> None:
    with pytest.raises(RuntimeError, match="virtual loop"):
        asyncio.run(VirtualCluster().start())


_CHURN = """
import sys
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.virtual_time import run
from bayplan.testing.builders import deployment
from bayplan.testing.cluster import InvariantBroken
from bayplan.api.types import apps_v1

async def main(seed):
    lines = []
    async with VirtualCluster(seed=seed, nodes=5, trace=lines.append) as cluster:
        await cluster.client.create(deployment("web", 12))
        for size in (20, 4, 16):
            await cluster.advance(minutes=10)
            await cluster.client.patch(apps_v1.Deployment, "web", "default", {"spec": {"replicas": size}})
        await cluster.advance(minutes=10)
        sys.stdout.write("".join(lines) + cluster.trace.digest())

run(main(int(sys.argv[1])))
"""


def _trace(seed: int, hash_seed: int) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(
        [sys.executable, "-c", _CHURN, str(seed)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


def test_equal_seeds_give_equal_traces_in_other_processes() -> None:
    first = _trace(1, 1)
    assert first.count("\n") > 300
    assert _trace(1, 2) == first
    assert _trace(2, 1) != first
