"""The API server over HTTPS with a durable store: creates, gets, lists, watch fan-out, memory."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvloop

from benchmarks import load
from benchmarks.figures import Figure
from benchmarks.processes import resident_mib, running
from benchmarks.workloads import pod

_PODS = "/api/v1/namespaces/default/pods"


def run(quick: bool) -> Iterator[Figure]:
    """One server, growing from 0 to 25,000 pods; another one for pods that have little in common."""
    count, watchers = (2_500, 100) if quick else (25_000, 1_000)
    with api_server() as (process, target):
        yield Figure("API server", "resident memory, empty", resident_mib(process), "MiB", "275 + etcd 41")
        yield from uvloop.run(_measure(target, count, watchers))
        yield Figure(
            "API server", f"resident memory, {count} pods", resident_mib(process), "MiB", "1,066-1,100 + etcd 82-95"
        )
    with api_server() as (_, target):
        name = "durable creates of pods that all differ in labels and environment, 64 connections"
        yield Figure("API server", name, uvloop.run(_creates(target, [_different(i) for i in range(count // 2)])), "/s")
    if shutil.which("etcd") is None:
        return
    with etcd() as url, api_server(url) as (_, target):
        name = "durable pod creates in etcd, 64 connections"
        rate = uvloop.run(_creates(target, [pod(index) for index in range(count // 5)]))
        yield Figure("API server", name, rate, "/s", "1,430-1,710")


@contextlib.contextmanager
def etcd() -> Iterator[str]:
    """A member of its own on loopback, as the URL of a store."""
    with tempfile.TemporaryDirectory() as directory, socket.socket() as first, socket.socket() as second:
        for one in (first, second):
            one.bind(("127.0.0.1", 0))
        port, peer = first.getsockname()[1], second.getsockname()[1]
        first.close()
        second.close()
        urls = (f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer}")
        command = [
            "etcd", f"--data-dir={directory}", f"--listen-client-urls={urls[0]}", f"--advertise-client-urls={urls[0]}",
            f"--listen-peer-urls={urls[1]}", f"--initial-advertise-peer-urls={urls[1]}", f"--initial-cluster=default={urls[1]}",
        ]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield f"etcd://127.0.0.1:{port}"  # the server waits for it
        finally:
            process.kill()
            process.wait()


@contextlib.contextmanager
def api_server(store: str = "") -> Iterator[tuple[subprocess.Popen[bytes], load.Target]]:
    """A server over HTTPS with a durable store, alone. store: its URL; "" for a file of its own."""
    with tempfile.TemporaryDirectory() as directory:
        kubeconfig = Path(directory, "kubeconfig")
        arguments = (
            "apiserver",
            "--store",
            store or f"sqlite:{directory}/store.db",
            "--cert-dir",
            f"{directory}/pki",
            "--secure-port",
            "0",
            "--kubeconfig",
            str(kubeconfig),
        )
        with running(*arguments) as (process, _):
            yield process, load.Target(kubeconfig)


def _different(index: int) -> dict[str, Any]:
    """A pod that is like no other."""
    one = pod(index)
    one["metadata"]["labels"] = {"app": "different", "index": str(index)}
    one["spec"]["containers"][0]["env"] = [{"name": "INDEX", "value": str(index)}]
    return one


async def _creates(target: load.Target, pods: list[dict[str, Any]]) -> float:
    """Pods created per second in a namespace that has a service account from then on."""
    account = json.dumps({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}).encode()
    await load.run(target, iter([target.request("POST", "/api/v1/namespaces/default/serviceaccounts", account)]), 1)
    requests = [target.request("POST", _PODS, json.dumps(one).encode()) for one in pods]
    return len(pods) / await timed(target, iter(requests), 64)


async def _measure(target: load.Target, count: int, watchers: int) -> list[Figure]:
    rate = await _creates(target, [pod(index) for index in range(count)])
    figures = [Figure("API server", "durable pod creates, 64 connections", rate, "/s", "1,430-1,710")]
    gets = count * 2
    seconds = await timed(
        target,
        itertools.islice(
            itertools.cycle([target.request("GET", f"{_PODS}/pod-{index}") for index in range(100)]), gets
        ),
        32,
    )
    figures.append(Figure("API server", "gets of one pod, 32 connections", gets / seconds, "/s", "4,800-5,200"))
    best = min([await timed(target, iter([target.request("GET", _PODS)]), 1) for _ in range(5)])
    figures.append(Figure("API server", f"list of {count} pods", best, "s", "0.9-1.1"))
    figures.append(
        Figure(
            "API server",
            f"one write to {watchers} watchers, last one served",
            await fan_out(target, watchers) * 1000,
            "ms",
        )
    )
    return figures


async def timed(target: load.Target, requests: Iterator[bytes], connections: int) -> float:
    """Seconds from the first request, over open connections, to the last answer."""
    opened = await load.connect(target, connections)
    started = time.perf_counter()
    await opened.send(requests)
    return time.perf_counter() - started


async def fan_out(target: load.Target, watchers: int) -> float:
    """Seconds from a write's request to the last watcher's line, the best of five writes."""
    seen = 0
    everybody = asyncio.Event()

    def on_line(line: bytes) -> None:
        nonlocal seen
        seen += 1
        if seen == watchers:
            everybody.set()

    listing = "/api/v1/namespaces/default/configmaps?watch=true"
    watches = [await load.watch(target, listing, on_line) for _ in range(watchers)]
    await asyncio.sleep(0.5)
    times = []
    for number in range(5):
        seen = 0
        everybody.clear()
        body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"fan-out-{number}"}}).encode()
        started = time.perf_counter()
        await load.run(target, iter([target.request("POST", "/api/v1/namespaces/default/configmaps", body)]), 1)
        await asyncio.wait_for(everybody.wait(), 10)
        times.append(time.perf_counter() - started)
    for one in watches:
        if one.transport is not None:
            one.transport.close()
    return min(times)
