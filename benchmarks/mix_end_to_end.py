"""Pods as real clusters have them, end to end, each next to equal pods of the same run: bound on nodes that only exist as objects, and running on live ones."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import load
from benchmarks.controllers import ready_nodes
from benchmarks.end_to_end import PODS, bound_rate, create_nodes, up_cluster
from benchmarks.figures import Figure
from benchmarks.mix import LIVE_ZONES, ZONES, different, mix
from benchmarks.processes import running
from benchmarks.workloads import pod

_NODES = 5_000
_LIVE_NODES = 500
_PATIENCE = 120.0


def run(quick: bool) -> Iterator[Figure]:
    """Equal pods, the mix of 1,000 applications, and pods that have nothing in common."""
    share = 10 if quick else 1
    count, nodes, live = 5_000 // share, _NODES // share, _LIVE_NODES // share
    kinds = {
        "equal pods": [pod(index) for index in range(count)],
        "mix of 1,000 applications": mix(count, applications=1_000 // share),
        "pods that all differ": different(count),
    }
    for name, pods in kinds.items():
        with up_cluster() as target:
            yield Figure(
                "up", f"{name}, {nodes} nodes, {count} pods bound", asyncio.run(_bound(target, nodes, pods)), "pods/s"
            )
    kinds["mix of 1,000 applications"] = mix(count, applications=1_000 // share, zones=LIVE_ZONES)
    for name, pods in kinds.items():
        rate = _running(live, pods)
        yield Figure("up", f"{name}, {live} live simulated nodes, {count} pods until they run", rate, "pods/s")


async def _bound(target: load.Target, nodes: int, pods: list[dict[str, Any]]) -> float:
    await create_nodes(target, nodes, len(ZONES))
    return await bound_rate(target, pods)


def _running(nodes: int, pods: list[dict[str, Any]]) -> float:
    """Pods per second from the first create until the last one runs, with nodes that heartbeat, start containers and report."""
    with tempfile.TemporaryDirectory() as directory:
        kubeconfig = Path(directory, "kubeconfig")
        arguments = ("--data-dir", f"{directory}/data", "--port", "0", "--nodes", str(nodes))
        with running("up", *arguments, "--kubeconfig", str(kubeconfig)):
            target = load.Target(kubeconfig)
            asyncio.run(ready_nodes(target, nodes))
            return asyncio.run(_running_rate(target, pods))


async def _running_rate(target: load.Target, pods: list[dict[str, Any]]) -> float:
    seen: set[bytes] = set()
    finished = asyncio.Event()

    def on_line(line: bytes) -> None:
        if line.startswith(b'{"type":"ADDED"'):
            at = line.index(b'"name":"') + 8
            seen.add(line[at : line.index(b'"', at)])
            if len(seen) == len(pods):
                finished.set()

    watch = await load.watch(target, f"{PODS}?watch=true&fieldSelector=status.phase%3DRunning", on_line)
    await asyncio.sleep(0.5)
    requests = [target.request("POST", PODS, json.dumps(one).encode()) for one in pods]
    connections = await load.connect(target, 64)
    started = time.perf_counter()
    await connections.send(iter(requests))
    await asyncio.wait_for(finished.wait(), _PATIENCE)
    seconds = time.perf_counter() - started
    if watch.transport is not None:
        watch.transport.close()
    return len(pods) / seconds
