"""A real node: how soon containers run, how many at once, and what its kubelet costs. Needs root, containerd and what docs/real-nodes.md names besides."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from pathlib import Path

from bayplan.api.types import core_v1, meta_v1
from bayplan.client import Client
from bayplan.client.http import HttpTransport
from bayplan.client.kubeconfig import load
from bayplan.cluster.real_nodes.settings import RealNodeSettings
from bayplan.kubelet.runtime.pause_image import PAUSE_IMAGE
from benchmarks.figures import Figure
from benchmarks.processes import running
from benchmarks.runtime_alone import measure

_NAMESPACE = "default"
_LIMIT = 300.0
"""Seconds within which anything is to have happened."""
_TICKS = os.sysconf("SC_CLK_TCK")


def is_possible() -> bool:
    """Whether this machine can have real nodes."""
    if not shutil.which("runc") and not shutil.which("crun"):
        return False
    return os.geteuid() == 0 and all(shutil.which(name) for name in ("containerd", "ip", "nsenter"))


def run(quick: bool) -> Iterator[Figure]:
    """One node, one pod after the other, then as many as it takes."""
    if not is_possible():
        return
    with tempfile.TemporaryDirectory(prefix="bp") as directory:
        data, kubeconfig = Path(directory, "data"), Path(directory, "kubeconfig")
        flags = ("--nodes", "0", "--real-nodes", "1", "--no-real-node-outbound", "--port", "0")
        directories = ("--data-dir", str(data), "--kubeconfig", str(kubeconfig))
        with running("up", *flags, *directories, patience=90.0) as (_, ready):
            came = time.perf_counter()
            asyncio.run(_until_ready(kubeconfig))
            ready += time.perf_counter() - came
            yield Figure("real node", "bayplan up until the node is ready", ready, "s")
            place = RealNodeSettings(1, data / "real-nodes").nodes()[0]
            kubelet = int((place.state / "kubelet.pid").read_text().split()[0])
            yield from asyncio.run(_measure(kubeconfig, kubelet, quick=quick))
            yield from asyncio.run(measure(place, kubelet, _pod("alone"), 5 if quick else 15, 20 if quick else 60))


async def _measure(kubeconfig: Path, kubelet: int, *, quick: bool) -> list[Figure]:
    async with _client(kubeconfig) as client, _following(client) as phases:
        return [
            *await _one_by_one(client, phases, 5 if quick else 30),
            *await _resting(client, phases, kubelet, 5.0 if quick else 30.0),
            *await _at_once(client, phases, 20 if quick else 110),
        ]


@contextlib.asynccontextmanager
async def _client(kubeconfig: Path) -> AsyncIterator[Client]:
    client = Client(HttpTransport(load(kubeconfig)))
    try:
        yield client
    finally:
        await client.close()


async def _one_by_one(client: Client, phases: _Phases, count: int) -> list[Figure]:
    """How long single pods take, when nothing else happens."""
    names = [f"single-{number}" for number in range(count)]
    starts = [await _timed(client.create(_pod(name)), phases.until_running(name)) for name in names]
    await asyncio.sleep(2)
    ends = [await _timed(client.delete(core_v1.Pod, name, _NAMESPACE), phases.until_gone(name)) for name in names]
    return [
        Figure("real node", f"create to Running, median of {count}", statistics.median(starts) * 1000, "ms"),
        Figure("real node", f"delete to gone, median of {count}", statistics.median(ends) * 1000, "ms"),
    ]


async def _resting(client: Client, phases: _Phases, kubelet: int, seconds: float) -> list[Figure]:
    """What the kubelet costs when it has 30 pods and nothing to do."""
    names = [f"resting-{number}" for number in range(30)]
    await _create(client, names)
    await phases.until_running(*names)
    await asyncio.sleep(2)
    before, began = _cpu_seconds(kubelet), time.perf_counter()
    await asyncio.sleep(seconds)
    share = (_cpu_seconds(kubelet) - before) / (time.perf_counter() - began)
    found = [
        Figure("real node", "kubelet with 30 pods, idle", share * 100, "% of a core"),
        Figure("real node", "kubelet with 30 pods, resident", _resident_mib(kubelet), "MiB"),
    ]
    await _delete(client, names)
    await phases.until(lambda: not phases.of)
    return found


async def _at_once(client: Client, phases: _Phases, count: int) -> list[Figure]:
    """A node full of pods that come, and go, at the same time."""
    names = [f"burst-{number}" for number in range(count)]
    came = await _timed(_create(client, names), phases.until_running(*names))
    went = await _timed(_delete(client, names), phases.until(lambda: not phases.of))
    return [
        Figure("real node", f"{count} pods at once, started", count / came, "pods/s"),
        Figure("real node", f"{count} pods at once, ended", count / went, "pods/s"),
    ]


class _Phases:
    """Phases of all pods, as a watch tells them."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}
        self._changed = asyncio.Event()

    def runs(self, name: str) -> bool:
        """Whether a pod runs."""
        return self.of.get(name) == "Running"

    def see(self, kind: str, pod: core_v1.Pod) -> None:
        """A change."""
        if kind == "DELETED":
            self.of.pop(pod.metadata.name, None)
        else:
            self.of[pod.metadata.name] = pod.status.phase
        self._changed.set()

    async def until_running(self, *names: str) -> None:
        """Return when all of these pods run. Raises TimeoutError."""
        await self.until(lambda: all(map(self.runs, names)))

    async def until_gone(self, name: str) -> None:
        """Return when a pod is gone. Raises TimeoutError."""
        await self.until(lambda: name not in self.of)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when a condition holds. Raises TimeoutError."""
        async with asyncio.timeout(_LIMIT):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


@contextlib.asynccontextmanager
async def _following(client: Client) -> AsyncIterator[_Phases]:
    phases = _Phases()
    stream = await client.watch(core_v1.Pod, _NAMESPACE)

    async def follow() -> None:
        async for event in stream:
            phases.see(event.type, event.object)

    task = asyncio.create_task(follow())
    try:
        yield phases
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _until_ready(kubeconfig: Path) -> None:
    """Return when the node takes pods, and pods may be created. Raises TimeoutError."""
    async with _client(kubeconfig) as client, asyncio.timeout(_LIMIT):
        while True:
            nodes = (await client.list(core_v1.Node)).items
            accounts = (await client.list(core_v1.ServiceAccount, _NAMESPACE)).items
            ready = [each for node in nodes for each in node.status.conditions if each.type == "Ready"]
            if accounts and ready and all(each.status == "True" for each in ready):
                return
            await asyncio.sleep(0.05)


def _pod(name: str) -> core_v1.Pod:
    """A server of which one container runs, whose image the node has."""
    container = core_v1.Container(name="main", image=PAUSE_IMAGE)
    return core_v1.Pod(
        metadata=meta_v1.ObjectMeta(name=name, namespace=_NAMESPACE), spec=core_v1.PodSpec(containers=(container,))
    )


async def _create(client: Client, names: Iterable[str]) -> None:
    await asyncio.gather(*(client.create(_pod(name)) for name in names))


async def _delete(client: Client, names: Iterable[str]) -> None:
    await asyncio.gather(*(client.delete(core_v1.Pod, name, _NAMESPACE) for name in names))


async def _timed(request: Awaitable[object], outcome: Awaitable[None]) -> float:
    """Seconds from a request to what comes of it."""
    began = time.perf_counter()
    await request
    await outcome
    return time.perf_counter() - began


def _cpu_seconds(pid: int) -> float:
    """CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _resident_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS:"))
