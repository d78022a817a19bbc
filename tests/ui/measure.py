"""Measures what docs/ui.md says of speed: `python -m tests.ui.measure [paint|frames|binds|memory|server]...`, by default all.

paint   first contentful paint of a small copy and of 5,000 nodes with 50,000 pods
frames  frames per second while that is zoomed and moved, one step per frame
binds   how late 3,000 binds per second are painted
memory  the page's heap with that cluster, after garbage collection
server  what `bayplan ui` uses of a core at 1,000 pods per second of churn, without and with an open page
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import aiohttp
from msgspec.structs import replace

from bayplan.api.types import core_v1, meta_v1
from bayplan.client import Client
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.settings import ClusterSettings
from bayplan.informers.cache import key_of
from bayplan.support.timestamps import rfc3339_micro
from bayplan.testing.builders import container, pod
from bayplan.ui.settings import UiSettings
from tests.ui.browser import Watched, browser_on
from tests.ui.large import large_copy
from tests.ui.page import Page, page_of, small_copy

NODES: Final = 5000
PODS: Final = 50_000
_ALL_THERE: Final = f"() => bayplan.store.tables.pods.size >= {PODS}"
_PAINT: Final = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"

_FRAMES: Final = """async (kind) => {
  const canvas = document.querySelector('.map canvas'), box = canvas.getBoundingClientRect(), times = [];
  const at = { clientX: box.left + 500, clientY: box.top + 300, bubbles: true, cancelable: true, pointerId: 1, button: 0, buttons: 1, isPrimary: true };
  if (kind === 'move') canvas.dispatchEvent(new PointerEvent('pointerdown', at));
  await new Promise((done) => {
    const step = (now) => {
      times.push(now);
      if (times.length > 240) { done(); return; }
      const turn = times.length % 60;
      if (kind === 'zoom') canvas.dispatchEvent(new WheelEvent('wheel', { ...at, deltaY: turn < 30 ? -60 : 60 }));
      else canvas.dispatchEvent(new PointerEvent('pointermove', { ...at, clientX: at.clientX + (turn < 30 ? turn : 60 - turn) * 8, clientY: at.clientY + turn }));
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  });
  if (kind === 'move') canvas.dispatchEvent(new PointerEvent('pointerup', { ...at, buttons: 0 }));
  return times.slice(1).map((one, number) => one - times[number]);
}"""

_LATE: Final = """() => {
  const { store } = bayplan, apply = store.apply.bind(store);
  globalThis.late = [];
  store.apply = (frame, all) => {
    apply(frame, all);
    const created = frame.tables.pods?.columns.created;
    if (!created) return;
    const oldest = Math.min(...new Set((created.of || created).map((one) => Date.parse(one))));
    requestAnimationFrame(() => requestAnimationFrame(() => globalThis.late.push([Date.now() - oldest, frame.tables.pods.keys.length])));
  };
}"""


@contextlib.asynccontextmanager
async def large_page() -> AsyncIterator[tuple[Page, Watched]]:
    async with page_of(large_copy(NODES, PODS), interval=UiSettings().interval) as page, browser_on(page.url) as tab:
        await tab.open("#/map")
        await tab.until(_ALL_THERE)
        yield page, tab


async def paint() -> None:
    for name, copy in (("small", small_copy()), (f"{NODES} nodes", large_copy(NODES, PODS))):
        times = []
        async with page_of(copy) as page:
            for _ in range(5):
                async with browser_on(page.url) as tab:
                    await tab.open()
                    times.append(float(await tab.tab.evaluate(_PAINT)))
        print(f"first paint, {name}: median {statistics.median(times):.0f} ms, slowest of 5 {max(times):.0f} ms")


async def frames() -> None:
    async with large_page() as (_, tab):
        for kind in ("zoom", "move", "zoom"):
            took = sorted(await tab.tab.evaluate(_FRAMES, kind))
            median, slow = statistics.median(took), took[int(len(took) * 0.95)]
            print(
                f"{kind}: {1000 / statistics.mean(took):.0f} frames/s, median {median:.1f} ms, 95 of 100 within {slow:.1f} ms"
            )


async def memory() -> None:
    print(f"page's heap: {await heap() / 1e6:.0f} MB")


async def heap() -> float:
    """Bytes of the page's objects."""
    async with large_page() as (_, tab):
        session = await tab.tab.context.new_cdp_session(tab.tab)
        await session.send("HeapProfiler.collectGarbage")
        used = await session.send("Runtime.getHeapUsage")
        return float(used["usedSize"])


async def binds(rate: int = 3000, seconds: int = 10) -> None:
    late = await lateness(rate, seconds)
    print(f"{rate} binds/s: painted {statistics.median(late):.0f} ms late (median), {max(late):.0f} ms at most")


async def lateness(rate: int, seconds: float) -> list[float]:
    """How late, in milliseconds, the oldest bind of each frame is painted. Pods of a large copy are bound by turns to other nodes; their creation
    time is set to the moment of the bind, by which the page tells how late it is."""
    async with large_page() as (page, tab):
        cache, feed = page.server.source.caches[core_v1.Pod], page.server.feed
        nodes = list(page.server.source.caches[core_v1.Node].keys())
        pods = list(cache)
        await tab.tab.evaluate(_LATE)
        loop = asyncio.get_running_loop()
        began, done = loop.time(), 0
        while (passed := loop.time() - began) < seconds:
            while done < rate * passed:
                one = pods[done % len(pods)]
                metadata = replace(one.metadata, creation_timestamp=rfc3339_micro(time.time()))
                cache.put(replace(one, metadata=metadata, spec=replace(one.spec, node_name=nodes[done % len(nodes)])))
                feed.mark("pods", key_of(one))
                done += 1
            await asyncio.sleep(0.01)
        await asyncio.sleep(1.0)
        painted = await tab.tab.evaluate("late")
        assert sum(one[1] for one in painted) >= 0.9 * done, "binds are missing"
        return [float(one[0]) for one in painted]


async def server(rate: int = 1000, seconds: float = 8.0) -> None:
    cluster = Cluster(ClusterSettings(run_scheduler=False, run_controllers=False))
    await cluster.start()
    await cluster.client().create(
        core_v1.ServiceAccount(metadata=meta_v1.ObjectMeta(name="default", namespace="default"))
    )
    with tempfile.TemporaryDirectory() as name:
        kubeconfig = Path(name) / "kubeconfig"
        kubeconfig.write_text(cluster.kubeconfig())
        command = (str(Path(sys.executable).parent / "bayplan"), "ui", f"--kubeconfig={kubeconfig}")
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        gone: list[str] = []
        churning = asyncio.create_task(churn(cluster.client(), rate, gone))
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+", (await process.stdout.readline()).decode())
            assert found is not None
            await asyncio.sleep(4)
            alone, both, began, before = [], [], time.monotonic(), len(gone)
            for _ in range(3):
                alone.append(await share_of(process.pid, seconds))
                async with following(found[0]):
                    both.append(await share_of(process.pid, seconds))
            assert not churning.done(), churning.result()
            achieved = (len(gone) - before) / (time.monotonic() - began)
            print(
                f"server at {achieved:.0f} pods/s of churn: {100 * statistics.mean(alone):.1f} % of a core without a page, "
                f"{100 * statistics.mean(both):.1f} % with one"
            )
        finally:
            churning.cancel()
            process.terminate()
            await process.wait()
            await cluster.stop()


async def churn(client: Client, rate: int, gone: list[str]) -> None:
    """So many pods per second come, run and go: four events each. gone: gets the names of those that have gone."""
    made: core_v1.Pod = pod("x", containers=(container(cpu="100m"),), node_name="node-1")
    loop = asyncio.get_running_loop()
    began, number = loop.time(), 0

    async def one(name: str) -> None:
        created = await client.create(replace(made, metadata=replace(made.metadata, name=name)))
        running = core_v1.PodStatus(phase="Running", start_time=created.metadata.creation_timestamp)
        await client.update_status(replace(created, status=running))
        await client.delete(core_v1.Pod, name, made.metadata.namespace, grace_period_seconds=0)
        gone.append(name)

    while True:
        due = int(rate * (loop.time() - began))
        await asyncio.gather(*(one(f"pod-{number + at}") for at in range(min(due - number, 500))))
        number = max(number, min(due, number + 500))
        await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def following(url: str) -> AsyncIterator[None]:
    """A page without a browser: reads the snapshot and the frames."""
    async with aiohttp.ClientSession(url.partition("/?")[0], cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        await (await session.get(url)).read()
        snapshot = await (await session.get("/api/snapshot")).json()

        async def read() -> None:
            async with session.get(f"/api/changes?after={snapshot['frame']}") as response:
                async for _ in response.content.iter_any():
                    pass

        task = asyncio.create_task(read())
        try:
            yield
        finally:
            task.cancel()


async def share_of(pid: int, seconds: float) -> float:
    """What a process uses of a core."""
    ticks = os.sysconf("SC_CLK_TCK")

    def used() -> float:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / ticks

    before, began = used(), time.monotonic()
    await asyncio.sleep(seconds)
    return (used() - before) / (time.monotonic() - began)


MEASURES: Final[dict[str, Callable[[], Awaitable[Any]]]] = {
    "paint": paint,
    "frames": frames,
    "binds": binds,
    "memory": memory,
    "server": server,
}


async def main() -> None:
    for name in sys.argv[1:] or MEASURES:
        await MEASURES[name]()


if __name__ == "__main__":
    asyncio.run(main())
