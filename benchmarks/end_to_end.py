"""Scheduling throughput end to end: pods created over HTTPS by this process, everything durable, events on.

up: one `bayplan up` process as users start it.
split: API server and scheduler in processes of their own. Nobody takes the not-ready taint off the nodes there, so it is
not put on, as in scheduler_perf.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import load
from benchmarks.figures import Figure
from benchmarks.processes import running
from benchmarks.workloads import node, pod, sized

_PODS = "/api/v1/namespaces/default/pods"
_PEER = {("SchedulingBasic", 5_000): "298-330", ("SchedulingNodeAffinity", 5_000): "280"}


def run_up(quick: bool) -> Iterator[Figure]:
    """`up` mode."""
    for nodes, count in ((500, 2_000), (5_000, 2_000 if quick else 10_000)):
        for name, affinity in (("SchedulingBasic", False), ("SchedulingNodeAffinity", True)):
            with tempfile.TemporaryDirectory() as directory:
                kubeconfig = Path(directory, "kubeconfig")
                with running(
                    "up", "--data-dir", directory, "--port", "0", "--nodes", "0", "--kubeconfig", str(kubeconfig)
                ):
                    rate = asyncio.run(_rate(load.Target(kubeconfig), nodes, count, affinity))
            yield Figure("up", f"{name}, {nodes} nodes, {count} pods", rate, "pods/s", _PEER.get((name, nodes), ""))
    nodes = 100 if quick else 500
    with tempfile.TemporaryDirectory() as directory:
        kubeconfig = Path(directory, "kubeconfig")
        with running("up", "--data-dir", directory, "--port", "0", "--nodes", "0", "--kubeconfig", str(kubeconfig)):
            rate = asyncio.run(_preemption_rate(load.Target(kubeconfig), nodes))
    yield Figure("up", f"PreemptionAsync, {nodes} nodes, {4 * nodes} victims to choose from", rate, "pods/s")


def run_split(quick: bool) -> Iterator[Figure]:
    """Split mode."""
    for nodes, count in ((500, 2_000), (5_000, 2_000 if quick else 10_000)):
        for name, affinity in (("SchedulingBasic", False), ("SchedulingNodeAffinity", True)):
            with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
                kubeconfig = Path(directory, "kubeconfig")
                stack.enter_context(
                    running(
                        "apiserver", "--store", f"sqlite:{directory}/store.db", "--cert-dir", f"{directory}/pki", "--secure-port", "0",
                        "--kubeconfig", str(kubeconfig), "--disable-admission-plugins", "TaintNodesByCondition",
                    )
                )  # fmt: skip
                stack.enter_context(
                    running(
                        "scheduler",
                        "--kubeconfig",
                        str(kubeconfig),
                        "--leader-elect=false",
                        "--secure-port",
                        "0",
                        until="started",
                    )
                )
                target = load.Target(kubeconfig)
                account = json.dumps(
                    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
                ).encode()
                asyncio.run(
                    load.run(
                        target, iter([target.request("POST", "/api/v1/namespaces/default/serviceaccounts", account)]), 1
                    )
                )
                rate = asyncio.run(_rate(target, nodes, count, affinity))
            yield Figure("split", f"{name}, {nodes} nodes, {count} pods", rate, "pods/s", _PEER.get((name, nodes), ""))


async def _rate(target: load.Target, nodes: int, count: int, affinity: bool) -> float:
    """Pods bound per second, from the first create to the last binding."""
    await _nodes(target, nodes)
    return await _bound_rate(target, [pod(index, affinity=affinity) for index in range(count)])


async def _preemption_rate(target: load.Target, nodes: int) -> float:
    """Four pods of 900m fill each node; one pod of 3,000m and higher priority per node evicts three of them.

    Pods of the higher priority bound per second, from the first create to the last binding.
    """
    await _nodes(target, nodes)
    above = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "above"},
        "value": 10,
    }
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await load.run(target, iter([target.request("POST", path, json.dumps(above).encode())]), 1)
    low, high = [], []
    for index in range(4 * nodes):
        one = sized(index, "low", "900m", node_name=f"node-{index // 4:05d}")
        one["spec"]["terminationGracePeriodSeconds"] = 0
        low.append(target.request("POST", _PODS, json.dumps(one).encode()))
    await load.run(target, iter(low), 32)
    await asyncio.sleep(1.0)
    for index in range(nodes):
        one = sized(index, "high", "3")
        del one["spec"]["priority"]
        one["spec"]["priorityClassName"] = "above"
        high.append(one)
    return await _bound_rate(target, high)


async def _nodes(target: load.Target, count: int) -> None:
    """Create nodes with their capacity, and wait until the controllers have done with them."""
    made = [node(index) for index in range(count)]
    await load.run(
        target, iter([target.request("POST", "/api/v1/nodes", json.dumps(one).encode()) for one in made]), 32
    )
    patches = [
        target.request(
            "PATCH",
            f"/api/v1/nodes/{one['metadata']['name']}/status",
            json.dumps({"status": one["status"]}).encode(),
            "application/merge-patch+json",
        )
        for one in made
    ]
    await load.run(target, iter(patches), 32)
    await _quiet(target)


async def _bound_rate(target: load.Target, pods: list[dict[str, Any]]) -> float:
    """Pods bound per second, from the first create to the last binding."""
    names = {one["metadata"]["name"].encode() for one in pods}
    count = len(pods)
    bound: set[bytes] = set()
    finished = asyncio.Event()

    def on_line(line: bytes) -> None:
        if b'"nodeName":"' in line:
            at = line.index(b'"name":"') + 8
            name = line[at : line.index(b'"', at)]
            if name in names:
                bound.add(name)
                if len(bound) == count:
                    finished.set()

    watch = await load.watch(target, f"{_PODS}?watch=true", on_line)
    await asyncio.sleep(0.5)
    requests = [target.request("POST", _PODS, json.dumps(one).encode()) for one in pods]
    started = time.perf_counter()
    await load.run(target, iter(requests), 64)
    await asyncio.wait_for(finished.wait(), 300)
    seconds = time.perf_counter() - started
    if watch.transport is not None:
        watch.transport.close()
    return count / seconds


async def _quiet(target: load.Target) -> None:
    """Wait until the controllers have done with the new nodes: nobody has changed one or told about one for a second."""
    changed = asyncio.Event()
    watches = [
        await load.watch(target, f"/api/v1/{kind}?watch=true", lambda _: changed.set()) for kind in ("nodes", "events")
    ]
    with contextlib.suppress(TimeoutError):
        while True:
            changed.clear()
            await asyncio.wait_for(changed.wait(), 1.0)
    for watch in watches:
        if watch.transport is not None:
            watch.transport.close()
