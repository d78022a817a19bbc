"""What processes of a cluster keep of pods that have come and gone: their memory before, between batches, and after the history is forgotten.

python -m tests.integration.memory_load --pods 200000 --batch 2000
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import load
from tests.fuzz import allocators
from tests.fuzz.target import Cluster

_PODS = "/api/v1/namespaces/default/pods"
_CONNECTIONS = 16
_PATIENCE = 300.0
"""Seconds until pods run, or have gone."""
_PODS_PER_NODE = 100
HISTORY_SECONDS = 300.0
"""How long the store keeps history."""
REST_SECONDS = HISTORY_SECONDS + 120.0
"""Until the store, then the caches forget history and freed memory is released; each looks every 30 s."""


def _pod(number: int) -> bytes:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]
    pod = {"metadata": {"name": f"pod-{number}", "labels": {"app": "memory"}}, "spec": {"containers": containers}}
    return json.dumps(pod).encode()


class Load:
    """Creates and deletes pods of a cluster in batches."""

    def __init__(self, cluster: Cluster) -> None:
        self._target = cluster.address
        self._last = 0

    def batch(self, count: int) -> None:
        """Create pods, wait until they run, delete them, wait until they have gone."""
        numbers = range(self._last, self._last + count)
        self._last += count
        posts = (self._target.request("POST", _PODS, _pod(number)) for number in numbers)
        asyncio.run(load.run(self._target, posts, _CONNECTIONS))
        self._wait_for(lambda: not self._list("fieldSelector=status.phase!%3DRunning&limit=1"), "run")
        body = json.dumps({"gracePeriodSeconds": 0}).encode()
        deletes = (self._target.request("DELETE", f"{_PODS}/pod-{number}", body) for number in numbers)
        asyncio.run(load.run(self._target, deletes, _CONNECTIONS))
        self._wait_for(lambda: not self._list("limit=1"), "go")

    def _list(self, query: str) -> list[Any]:
        url = f"https://{self._target.host}:{self._target.port}{_PODS}?{query}"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self._target.token}"})
        with urllib.request.urlopen(request, context=self._target.tls) as answer:
            items: list[Any] = json.load(answer)["items"]
        return items

    @staticmethod
    def _wait_for(condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise RuntimeError(f"pods do not {what}")
            time.sleep(0.1)


class Report:
    """Prints the memory of the processes, and keeps the first measurement as what others are compared with."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._bases: dict[str, list[float]] = {}

    def base(self, name: str) -> None:
        """Measure what later ones are compared with."""
        self._bases[name] = self._cluster.resident_mib()
        self.show(name)

    def show(self, name: str) -> None:
        """Print RSS and PSS, and RSS by what it was before."""
        resident, proportional = self._cluster.resident_mib(), self._cluster.proportional_mib()
        print(f"{name:>28}: RSS {_shown(resident)}, PSS {_shown(proportional)} MiB{self._ratios(resident)}", flush=True)

    def _ratios(self, resident: list[float]) -> str:
        ratios = [
            f"{' '.join(f'{now / was:.2f}' for now, was in zip(resident, base, strict=True))} of {name}"
            for name, base in self._bases.items()
        ]
        return f" ({'; '.join(ratios)})" if ratios else ""


def _shown(memory: list[float]) -> str:
    return " + ".join(f"{one:.1f}" for one in memory)


def measure(pods: int, batch: int, warm_up: int, rest: float, environment: Mapping[str, str]) -> None:
    """Measure one cluster. The processes are those of API server, fork server and components, in this order."""
    with tempfile.TemporaryDirectory(prefix="bayplan-memory-") as directory:
        cluster = Cluster(Path(directory), nodes=batch // _PODS_PER_NODE + 1, environment=environment)
        try:
            report, churn = Report(cluster), Load(cluster)
            time.sleep(5)  # the nodes come and are ready
            report.base("start")
            for _ in range(warm_up):
                churn.batch(batch)
            report.show("warmed up")
            if warm_up:
                time.sleep(rest)
                report.base("warmed up and rested")
            started = time.monotonic()
            for number in range(1, pods // batch + 1):
                churn.batch(batch)
                if number % max(1, pods // batch // 10) == 0:
                    report.show(f"{number * batch} pods, {time.monotonic() - started:.0f} s")
            time.sleep(rest)
            report.show(f"after a rest of {rest:.0f} s")
        finally:
            cluster.stop()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=2000, help="pods that are there at the same time")
    parser.add_argument("--warm-up", type=int, default=1, help="batches before the second base is measured")
    parser.add_argument("--rest", type=float, default=REST_SECONDS, help="seconds after the warm-up and at the end")
    allocators.add_option(parser)
    options = parser.parse_args()
    environment = allocators.environment(options.allocator)
    measure(options.pods, options.batch, options.warm_up, options.rest, environment)


if __name__ == "__main__":
    main()
