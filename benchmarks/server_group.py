"""`bayplan apiserver --processes N`: what further processes give, and what a request costs them.

The load takes a core of its own, so that on two cores rates say little of what more cores would give. The CPU time of the server's processes per request does:
rates with enough cores are bounded by the busiest process.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import uvloop

from benchmarks import load
from benchmarks.api_server import fan_out, timed
from benchmarks.figures import Figure
from benchmarks.processes import running
from benchmarks.workloads import pod

_PODS = "/api/v1/namespaces/default/pods"
_TICKS = os.sysconf("SC_CLK_TCK")
_STORE = "bayplan-store"


def run(quick: bool) -> Iterator[Figure]:
    """One process, then two and three with an owner of the store beside them."""
    count, watchers = (1_000, 100) if quick else (10_000, 500)
    for processes in (1, 2, 3):
        with _group(processes) as (process, target):
            yield from uvloop.run(_measure(processes, process, target, count, watchers))


@contextlib.contextmanager
def _group(processes: int) -> Iterator[tuple[subprocess.Popen[bytes], load.Target]]:
    with tempfile.TemporaryDirectory() as directory:
        kubeconfig = Path(directory, "kubeconfig")
        with running(
            "apiserver", f"--store=sqlite:{directory}/store.db", f"--cert-dir={directory}/pki", "--secure-port=0",
            f"--kubeconfig={kubeconfig}", f"--processes={processes}",
        ) as (process, _):  # fmt: skip
            yield process, load.Target(kubeconfig)


class _Usage:
    """CPU seconds of the processes of a server, by name."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._before = self._now()

    def _now(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for pid in _with_descendants(self._process.pid):
            name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
            fields = rest.split()
            found[f"{name} {pid}"] = (int(fields[11]) + int(fields[12])) / _TICKS
        return found

    def spent(self) -> dict[str, float]:
        """Since this was made."""
        return {name: seconds - self._before.get(name, 0.0) for name, seconds in self._now().items()}


def _with_descendants(pid: int) -> Iterator[int]:
    yield pid
    for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield from _with_descendants(int(one))


async def _measure(
    processes: int, process: subprocess.Popen[bytes], target: load.Target, count: int, watchers: int
) -> list[Figure]:
    area = f"API server, --processes {processes}"
    figures: list[Figure] = []

    async def measure(what: str, requests: int, work: Callable[[], Awaitable[float]]) -> None:
        usage = _Usage(process)
        seconds = await work()
        spent = usage.spent()
        figures.append(Figure(area, what, requests / seconds, "/s"))
        figures.append(Figure(area, f"{what}: CPU of all processes", sum(spent.values()) / requests * 1e6, "µs"))
        figures.append(Figure(area, f"{what}: CPU of the busiest", max(spent.values()) / requests * 1e6, "µs"))
        owner = sum(seconds for name, seconds in spent.items() if name.startswith(_STORE))
        if owner:
            figures.append(Figure(area, f"{what}: CPU of the owner of the store", owner / requests * 1e6, "µs"))

    account = json.dumps({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}).encode()
    await load.run(target, iter([target.request("POST", "/api/v1/namespaces/default/serviceaccounts", account)]), 1)
    creates = [target.request("POST", _PODS, json.dumps(pod(index)).encode()) for index in range(count)]
    await measure("durable pod creates, 64 connections", count, lambda: timed(target, iter(creates), 64))
    pages = itertools.cycle([target.request("GET", f"{_PODS}/pod-{index}") for index in range(100)])
    gets = count * 3
    await measure("gets of one pod, 32 connections", gets, lambda: timed(target, itertools.islice(pages, gets), 32))
    lists = [target.request("GET", f"{_PODS}?limit=500")] * 200
    await measure("lists of 500 pods, 8 connections", len(lists), lambda: timed(target, iter(lists), 8))
    seconds = await fan_out(target, watchers)
    figures.append(Figure(area, f"one write to {watchers} watchers, last one served", seconds * 1000, "ms"))
    return figures
