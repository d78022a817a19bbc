"""`bayplan demo`: scheduling, seen live on a throw-away cluster that ends by itself."""

from __future__ import annotations

import asyncio
import importlib.resources
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayplan.cli.output import Failure

if TYPE_CHECKING:
    from rich.console import Console

    from bayplan.client import Client
    from bayplan.cluster.cluster import Cluster

_PATIENCE = 20.0
_APPLICATION, _TOO_BIG = "shop.yaml", "too-big.yaml"


@click.command()
def command() -> None:
    """Show scheduling live on a throw-away cluster: zones, a tainted pool, a pending pod and its reason, scaling, a drain."""
    from bayplan.support.logging import set_up_logging
    from bayplan.support.loop import run_loop

    set_up_logging(verbosity=0)
    try:
        run_loop(_demo())
    except TimeoutError as error:
        raise Failure(f"the demo did not get on: {error}") from error


def examples() -> Path:
    """The example manifests: in the checkout, or as installed with the package."""
    checkout = Path(__file__).resolve().parents[4] / "examples"
    return checkout if checkout.is_dir() else Path(str(importlib.resources.files("bayplan"))) / "examples"


async def _demo() -> None:
    from rich.console import Console

    from bayplan.cluster.cluster import Cluster
    from bayplan.cluster.settings import ClusterSettings
    from bayplan.kubelet.simulator.settings import SimulatorSettings

    console = Console(highlight=False)
    nodes = SimulatorSettings(nodes=6, zones=3, start_seconds=0.6)
    cluster = Cluster(ClusterSettings(nodes=nodes))
    await cluster.start()
    try:
        await _Story(cluster, console).tell()
    finally:
        await cluster.stop()
    console.print(
        "\n[bold green]That was it.[/] `bayplan up` starts a cluster that stays; `kubectl` works with it as with any other."
    )


class _Story:
    """The scenes, in order."""

    def __init__(self, cluster: Cluster, console: Console) -> None:
        self.client: Client = cluster.client()
        self.cluster = cluster
        self.console = console
        self.shown: set[str] = set()

    async def tell(self) -> None:
        await self._nodes()
        watching = asyncio.create_task(self._show_placements())
        try:
            await self._application()
            await self._pending()
            await self._scale()
            await self._drain()
        finally:
            watching.cancel()

    def _scene(self, title: str, text: str) -> None:
        self.console.print(f"\n[bold]{title}[/]  [dim]{text}[/]")

    async def _until(self, what: str, condition: Callable[[], Any]) -> None:
        """Wait for a condition. Raises TimeoutError."""
        clock = self.cluster.clock
        deadline = clock.monotonic() + _PATIENCE
        while not await condition():
            if clock.monotonic() > deadline:
                raise TimeoutError(what)
            await clock.sleep(0.05)

    async def _nodes(self) -> None:
        from rich.table import Table

        from bayplan.api.types import core_v1

        async def all_there() -> bool:
            return len((await self.client.list(core_v1.Node)).items) == 6

        self._scene("A cluster", "six simulated nodes in three zones; node-6 is a tainted pool, node-5 is small")
        await self._until("nodes", all_there)
        taint = {
            "metadata": {"labels": {"pool": "heavy"}},
            "spec": {"taints": [{"key": "pool", "value": "heavy", "effect": "NoSchedule"}]},
        }
        await self.client.patch(core_v1.Node, "node-6", "", taint)
        small = {"cpu": "1", "memory": "1Gi", "pods": "8"}
        await self.client.patch(
            core_v1.Node, "node-5", "", {"status": {"capacity": small, "allocatable": small}}, subresource="status"
        )
        table = Table("Node", "Zone", "CPU", "Memory", "Taint", box=None, header_style="dim")
        for node in (await self.client.list(core_v1.Node)).items:
            taints = ", ".join(f"{one.key}={one.value}:{one.effect}" for one in node.spec.taints)
            room = node.status.allocatable
            table.add_row(
                node.metadata.name,
                node.metadata.labels["topology.kubernetes.io/zone"],
                str(room["cpu"]),
                str(room["memory"]),
                taints,
            )
        self.console.print(table)

    async def _show_placements(self) -> None:
        """Print every pod when it gets its node, and when it runs."""
        from bayplan.api.types import core_v1

        stream = await self.client.watch(core_v1.Pod)
        started = self.cluster.clock.monotonic()
        async for event in stream:
            pod = event.object
            moment = f"{self.cluster.clock.monotonic() - started:5.1f}s"
            state = (
                "gone"
                if event.type == "DELETED"
                else "runs"
                if pod.status.phase == "Running"
                else "placed"
                if pod.spec.node_name
                else ""
            )
            key = f"{pod.metadata.name} {state}"
            if state and key not in self.shown and not (state == "runs" and pod.metadata.deletion_timestamp):
                self.shown.add(key)
                colour = {"placed": "yellow", "runs": "green", "gone": "red"}[state]
                self.console.print(
                    f"  [dim]{moment}[/]  {pod.metadata.name:32} [{colour}]{state:6}[/] {pod.spec.node_name}"
                )

    async def _apply(self, name: str) -> None:
        from bayplan.cluster.manifests.apply import apply_manifests, read_manifests

        await apply_manifests(self.client, read_manifests([examples() / name]))

    async def _running(self, wanted: int) -> None:
        from bayplan.api.types import core_v1

        async def enough() -> bool:
            pods = (await self.client.list(core_v1.Pod, "shop")).items
            return sum(pod.status.phase == "Running" and not pod.metadata.deletion_timestamp for pod in pods) >= wanted

        await self._until(f"{wanted} running pods", enough)

    async def _application(self) -> None:
        self._scene(
            "An application",
            f"examples/{_APPLICATION}: spread over zones, checkouts apart, the recommender in its pool",
        )
        await self._apply(_APPLICATION)
        await self._running(7)

    async def _pending(self) -> None:
        from bayplan.api.types import core_v1
        from bayplan.cli.questions.explain import judge
        from bayplan.simulation.readers.live import read_live
        from bayplan.simulation.snapshots.planner import pod_named

        self._scene("A pod that fits nowhere", f"examples/{_TOO_BIG} asks for 6 CPUs")
        await self._apply(_TOO_BIG)

        async def judged() -> bool:
            pod = await self.client.get(core_v1.Pod, "year-end-report", "shop")
            return any(one.type == "PodScheduled" and one.status == "False" for one in pod.status.conditions)

        await self._until("the verdict", judged)
        copy = await read_live(self.client, taken_at="")
        decision, _ = judge(copy, pod_named(copy, "shop/year-end-report"), None)
        self.console.print("  [dim]$ bayplan explain year-end-report -n shop[/]")
        self.console.print("  " + decision.summary().replace("\n", "\n  "), markup=False)
        await self.client.delete(core_v1.Pod, "year-end-report", "shop")

    async def _scale(self) -> None:
        from bayplan.api.types import apps_v1

        self._scene("Scaling", "web from 4 to 8")
        await self.client.patch(apps_v1.Deployment, "web", "shop", {"spec": {"replicas": 8}}, subresource="scale")
        await self._running(11)

    async def _drain(self) -> None:
        from bayplan.api.types import core_v1

        self._scene("A drain", "node-1 is cordoned and its pods are evicted; they come up elsewhere")
        await self.client.patch(core_v1.Node, "node-1", "", {"spec": {"unschedulable": True}})
        pods = await self.client.list(core_v1.Pod, field_selector="spec.nodeName=node-1")
        for pod in pods.items:
            await self.client.evict(pod.metadata.namespace, pod.metadata.name)

        async def empty() -> bool:
            return not (await self.client.list(core_v1.Pod, field_selector="spec.nodeName=node-1")).items

        await self._until("an empty node-1", empty)
        await self._running(11)
