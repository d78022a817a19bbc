"""Takes the pictures of docs/ui.md: `python -m tests.ui.pictures [DIRECTORY]`, by default into docs/images.

A live cluster with the shop of the examples, a node that is tainted, one that is cordoned and a deployment that fits nowhere; and a large copy for the map.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from bayplan.api.types import apps_v1, core_v1
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.manifests.apply import apply_manifests
from bayplan.cluster.manifests.reading import read_manifests
from bayplan.cluster.settings import ClusterSettings
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.testing.builders import deployment
from bayplan.testing.cluster import eventually
from bayplan.ui import metrics_routes
from tests.ui.browser import Watched, browser_on
from tests.ui.large import large_copy
from tests.ui.page import page_of, small_copy
from tests.ui.shells import page_with_shells
from tests.ui.test_question_routes import PACKING

ROOT: Final = Path(__file__).parents[2]


async def take(directory: Path) -> None:
    """Take all pictures."""
    async with page_of(large_copy(5000, 50_000)) as page, browser_on(page.url) as tab:
        await tab.open("#/map")
        await tab.until("() => bayplan.store.tables.pods.size === 50000")
        await picture(tab, directory / "ui-map.png")
    async with page_of(small_copy(), learn=True) as page, browser_on(page.url) as tab:
        await tab.open("#/learn/preemption")
        await tab.tab.click("text=The victim is deleted")
        await tab.see("metadata.deletionTimestamp")
        await picture(tab, directory / "ui-learn.png")
    await _of_a_terminal(directory)
    cluster = Cluster(ClusterSettings(nodes=SimulatorSettings(nodes=12, start_seconds=0.02)))
    await cluster.start()
    try:
        await _of_a_shop(cluster, directory)
        await _of_charts(cluster, directory)
    finally:
        await cluster.stop()


_COMMANDS: Final = (
    "PS1='web:/etc/nginx $ '; clear; mkdir -p conf.d sites-enabled; touch nginx.conf mime.types; chmod +x nginx.conf",
    "ls --color=always -l --time-style=+ -go conf.d nginx.conf mime.types sites-enabled",
    "printf '\\033[32mconfiguration file nginx.conf test is successful\\033[0m\\n'",
)


async def _of_charts(cluster: Cluster, directory: Path) -> None:
    """Deployments of different sizes come one after the other; samples are taken more often than usual."""
    metrics_routes.FIGURES_SECONDS = 0.25
    client = cluster.client()
    async with page_of(client, (), cluster.scheduler_state) as page, browser_on(page.url, height=620) as tab:
        await tab.open("#/charts")
        for number in range(12):
            await client.create(deployment(f"web-{number}", 3 + number * 5 % 17, cpu="20m"))
            await client.create(deployment(f"big-{number}", number % 2, cpu="90"))
            await asyncio.sleep(0.5)
        await picture(tab, directory / "ui-charts.png")


async def _of_a_terminal(directory: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        async with page_with_shells(Path(name)) as (page, _), browser_on(page.url, height=520) as tab:
            await tab.open("#/pod/default/web/terminal")
            shows = "text => (globalThis.bayplan.screen?.text() || '').includes(text)"
            await tab.until(shows, Path(name).name)
            for command in _COMMANDS:
                await tab.tab.keyboard.type(f"{command}\r")
            await tab.until(shows, "\nconfiguration file")
            await picture(tab, directory / "ui-terminal.png")


async def _of_a_shop(cluster: Cluster, directory: Path) -> None:
    client = cluster.client()
    await apply_manifests(client, read_manifests([ROOT / "examples" / "shop.yaml"]))
    await prepared(client)
    with tempfile.TemporaryDirectory() as name:
        kubeconfig = Path(name) / "kubeconfig"
        kubeconfig.write_text(cluster.kubeconfig())
        source = [f"--kubeconfig={kubeconfig}"]
        async with page_of(client, source, cluster.scheduler_state) as page, browser_on(page.url) as tab:
            await _views(tab, directory, *await pods_of(client))
        async with page_of(client, source) as page, browser_on(page.url, dark=True) as tab:
            await tab.open("#/what-if")
            await tab.see("Drain nodes")
            await tab.tab.fill("[aria-label='Fail zones']", "zone-b")
            await tab.tab.keyboard.press("Tab")
            await tab.tab.click("text=See what happens")
            await tab.see("until all is at rest")
            await picture(tab, directory / "ui-what-if.png")
            await tab.open("#/map")
            await tab.open("#/what-if")
            await tab.tab.fill(".configuration textarea", PACKING.strip())
            await tab.tab.click("text=See what happens")
            await tab.see("most pods on one node")
            await tab.tab.evaluate("document.querySelector('.replay').scrollIntoView()")
            await picture(tab, directory / "ui-configurations.png")


async def _views(tab: Watched, directory: Path, waiting: str, running: str) -> None:
    await tab.open("#/pods")
    await tab.see("recommender")
    await picture(tab, directory / "ui-pods.png")
    await tab.open(f"#/pod/shop/{waiting}/why")
    await tab.tab.click("text=Find the smallest changes")
    await tab.see("states of the cluster were tried")
    await picture(tab, directory / "ui-why.png")
    await tab.open(f"#/pod/shop/{running}/why")
    await tab.see("Points, plugin by plugin")
    await picture(tab, directory / "ui-scores.png")
    await tab.open(f"#/pod/shop/{running}/steps")
    await tab.see("From first to last")
    await picture(tab, directory / "ui-steps.png")
    await tab.open("#/decisions")
    await tab.see("most points")
    await picture(tab, directory / "ui-decisions.png")


async def prepared(client: Any) -> None:
    """Taint a node, cordon another one, and want what fits nowhere."""
    node = await eventually(lambda: client.get(core_v1.Node, "node-05"))
    node.spec.taints = (core_v1.Taint(key="pool", value="heavy", effect="NoSchedule"),)
    await client.update(node)
    node = await client.get(core_v1.Node, "node-03")
    node.spec.unschedulable = True
    await client.update(node)
    made: apps_v1.Deployment = deployment("reports", 1, namespace="shop", cpu="6")
    await client.create(made)


async def pods_of(client: Any) -> tuple[str, str]:
    """The names of the pod that waits and of one that runs."""

    async def found() -> tuple[str, str] | None:
        pods = (await client.list(core_v1.Pod, "shop")).items
        waiting = [one.metadata.name for one in pods if one.status.conditions and not one.spec.node_name]
        running = [one.metadata.name for one in pods if one.status.phase == "Running" and "web" in one.metadata.name]
        return (waiting[0], running[0]) if waiting and len(running) == 4 else None

    return await eventually(found)


async def picture(tab: Watched, file: Path) -> None:
    """What the tab shows now."""
    await tab.tab.mouse.move(0, 0)
    await tab.tab.screenshot(path=file)
    print(file)


if __name__ == "__main__":
    asyncio.run(take(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"))
