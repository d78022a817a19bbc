"""Scheduling throughput end to end: pods created over HTTPS by this process, everything durable, events on.

up: `bayplan up` as users start it, which takes two processes where there are two CPUs.
split: `bayplan apiserver` and `bayplan scheduler`, which talk over HTTPS. Nobody takes the not-ready taint off the nodes there, so it is
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
from urllib.parse import urlencode

from benchmarks import load
from benchmarks.figures import Figure
from benchmarks.processes import running
from benchmarks.workloads import WORKLOADS, Workload, node, sized

PODS = "/api/v1/namespaces/default/pods"
_NODES = 5_000
_PATIENT = "--controller-manager-flag=--node-monitor-grace-period=24h"
"""Nobody renews the leases of these nodes, and it may take longer than 40 s to create them."""
_IN_SPLIT = ("SchedulingBasic", "SchedulingNodeAffinity", "SchedulingPodAffinity")


def run_up(quick: bool) -> Iterator[Figure]:
    """`up` mode."""
    share = 10 if quick else 1
    for one in WORKLOADS:
        with up_cluster() as target:
            yield _figure("up", one, share, asyncio.run(_rate(target, one, share)))
    nodes = _NODES // share
    with up_cluster() as target:
        rate = asyncio.run(_preemption_rate(target, nodes))
    name = f"PreemptionAsync, {nodes} nodes, {nodes} pods, {4 * nodes} victims to choose from"
    yield Figure("up", name, rate, "pods/s", "269" if share == 1 else "")


def run_split(quick: bool) -> Iterator[Figure]:
    """Split mode."""
    share = 10 if quick else 1
    for one in WORKLOADS:
        if one.name in _IN_SPLIT:
            with _split() as target:
                yield _figure("split", one, share, asyncio.run(_rate(target, one, share)))


def _figure(mode: str, workload: Workload, share: int, rate: float) -> Figure:
    nodes, existing, measured = (_NODES // share, workload.existing // share, workload.end_to_end // share)
    name = f"{workload.name}, {nodes} nodes, {measured} pods after {existing}"
    return Figure(mode, name, rate, "pods/s", workload.peer if share == 1 else "")


@contextlib.contextmanager
def up_cluster(*options: str) -> Iterator[load.Target]:
    """`bayplan up` without nodes, with more options."""
    with tempfile.TemporaryDirectory() as directory:
        kubeconfig = Path(directory, "kubeconfig")
        with running(
            "up",
            "--data-dir",
            directory,
            "--port",
            "0",
            "--nodes",
            "0",
            "--kubeconfig",
            str(kubeconfig),
            _PATIENT,
            *options,
        ):
            yield load.Target(kubeconfig)


@contextlib.contextmanager
def _split() -> Iterator[load.Target]:
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
                "scheduler", "--kubeconfig", str(kubeconfig), "--leader-elect=false", "--secure-port", "0", until="started",
            )
        )  # fmt: skip
        target = load.Target(kubeconfig)
        account = json.dumps({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}).encode()
        path = "/api/v1/namespaces/default/serviceaccounts"
        asyncio.run(load.run(target, iter([target.request("POST", path, account)]), 1))
        yield target


async def _rate(target: load.Target, workload: Workload, share: int) -> float:
    """Pods of a workload bound per second, from the first create to the last binding."""
    await create_nodes(target, _NODES // share, workload.zones)
    existing, measured = workload.existing // share, workload.end_to_end // share
    await bound_rate(target, [workload.pod(index) for index in range(existing)])
    return await bound_rate(target, [workload.pod(existing + index) for index in range(measured)])


async def _preemption_rate(target: load.Target, nodes: int) -> float:
    """Four pods of 900m fill each node; one pod of 3,000m and higher priority per node evicts three of them.

    Pods of the higher priority bound per second, from the first create to the last binding.
    """
    await create_nodes(target, nodes)
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
        low.append(target.request("POST", PODS, json.dumps(one).encode()))
    await load.run(target, iter(low), 32)
    await asyncio.sleep(1.0)
    for index in range(nodes):
        one = sized(index, "high", "3")
        del one["spec"]["priority"]
        one["spec"]["priorityClassName"] = "above"
        one["metadata"]["labels"] = {"is": "above"}
        high.append(one)
    return await bound_rate(target, high, labels="is=above")


async def create_nodes(target: load.Target, count: int, zones: int = 1) -> None:
    """Create nodes with their capacity, and wait until the controllers have done with them."""
    made = [node(index, zones=zones) for index in range(count)]
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


async def bound_rate(target: load.Target, pods: list[dict[str, Any]], labels: str = "") -> float:
    """Pods bound per second, from the first create, over open connections, to the last binding. labels: a selector that others do not match.

    Only what is bound is watched: who measures is not to be what is measured.
    """
    names = {one["metadata"]["name"].encode() for one in pods}
    count = len(pods)
    bound: set[bytes] = set()
    finished = asyncio.Event()

    def on_line(line: bytes) -> None:
        if line.startswith(b'{"type":"ADDED"'):
            at = line.index(b'"name":"') + 8
            name = line[at : line.index(b'"', at)]
            if name in names:
                bound.add(name)
                if len(bound) == count:
                    finished.set()

    selectors = urlencode({"fieldSelector": "spec.nodeName!=", "labelSelector": labels})
    watch = await load.watch(target, f"{PODS}?watch=true&{selectors}", on_line)
    await asyncio.sleep(0.5)
    requests = [target.request("POST", PODS, json.dumps(one).encode()) for one in pods]
    connections = await load.connect(target, 64)
    started = time.perf_counter()
    await connections.send(iter(requests))
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
