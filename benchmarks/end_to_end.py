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

from benchmarks import load
from benchmarks.figures import Figure
from benchmarks.processes import running
from benchmarks.workloads import node, pod

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
    made = [node(index) for index in range(nodes)]
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
    bound: set[bytes] = set()
    finished = asyncio.Event()

    def on_line(line: bytes) -> None:
        if b'"nodeName":"' in line:
            at = line.index(b'"name":"') + 8
            bound.add(line[at : line.index(b'"', at)])
            if len(bound) == count:
                finished.set()

    watch = await load.watch(target, f"{_PODS}?watch=true", on_line)
    await asyncio.sleep(0.5)
    requests = [
        target.request("POST", _PODS, json.dumps(pod(index, affinity=affinity)).encode()) for index in range(count)
    ]
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
