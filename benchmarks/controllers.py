"""Controllers end to end: `bayplan up` with simulated nodes, driven over HTTPS from this process."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import load
from benchmarks.figures import Figure
from benchmarks.processes import running

_NAMESPACE = "/api/v1/namespaces"
_SETS = "/apis/apps/v1/namespaces/{}/deployments"
_PATIENCE = 600.0


def run(quick: bool) -> Iterator[Figure]:
    """One large Deployment, many small ones, and a namespace that goes with all its pods."""
    nodes, pods, many = (100, 1_000, 100) if quick else (1_000, 10_000, 1_000)
    with tempfile.TemporaryDirectory() as directory:
        kubeconfig = Path(directory, "kubeconfig")
        arguments = ("--data-dir", f"{directory}/data", "--port", "0", "--nodes", str(nodes))
        with running("up", *arguments, "--kubeconfig", str(kubeconfig)):
            target = load.Target(kubeconfig)
            asyncio.run(ready_nodes(target, nodes))
            seconds = asyncio.run(_deployments(target, "large", 1, pods))
            yield Figure(
                "controllers", f"one Deployment scaled from 0 to {pods} on {nodes} nodes, all ready", seconds, "s"
            )
            seconds = asyncio.run(_namespace_gone(target, "large"))
            yield Figure("controllers", f"a namespace with {pods} pods deleted", seconds, "s")
            seconds = asyncio.run(_deployments(target, "many", many, 10))
            yield Figure(
                "controllers", f"{many} Deployments of 10 pods, all ready", seconds, "s", "200 (5 Deployments/s)"
            )


async def watch_until(target: load.Target, path: str, is_done: Callable[[bytes], bool]) -> None:
    """Watch until a line says that it is done. Raises TimeoutError."""
    done = asyncio.Event()

    def on_line(line: bytes) -> None:
        if is_done(line):
            done.set()

    watch = await load.watch(target, path, on_line)
    await asyncio.wait_for(done.wait(), _PATIENCE)
    if watch.transport is not None:
        watch.transport.close()


async def ready_nodes(target: load.Target, count: int) -> None:
    """Wait until so many nodes are ready. Raises TimeoutError."""
    ready: set[str] = set()

    def is_done(line: bytes) -> bool:
        node = json.loads(line)["object"]
        conditions = node.get("status", {}).get("conditions", [])
        if any(one["type"] == "Ready" and one["status"] == "True" for one in conditions):
            ready.add(node["metadata"]["name"])
        return len(ready) == count

    await watch_until(target, "/api/v1/nodes?watch=true", is_done)


def _deployment(name: str, replicas: int) -> bytes:
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return json.dumps(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
    ).encode()


async def _deployments(target: load.Target, namespace: str, count: int, replicas: int) -> float:
    """Seconds from the first request until every Deployment has all its pods ready."""
    body = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}).encode()
    await load.run(target, iter([target.request("POST", _NAMESPACE, body)]), 1)
    await asyncio.sleep(1.0)
    path = _SETS.format(namespace)
    ready: set[str] = set()

    def is_done(line: bytes) -> bool:
        one = json.loads(line)["object"]
        if one.get("status", {}).get("readyReplicas") == replicas:
            ready.add(one["metadata"]["name"])
        return len(ready) == count

    watching = asyncio.create_task(watch_until(target, f"{path}?watch=true", is_done))
    await asyncio.sleep(0.2)
    requests = [target.request("POST", path, _deployment(f"d-{index}", replicas)) for index in range(count)]
    started = time.perf_counter()
    await load.run(target, iter(requests), min(count, 16))
    await watching
    return time.perf_counter() - started


async def _namespace_gone(target: load.Target, namespace: str) -> float:
    """Seconds from the deletion until the namespace is gone."""
    gone = asyncio.create_task(
        watch_until(
            target,
            f"{_NAMESPACE}?watch=true&fieldSelector=metadata.name={namespace}",
            lambda line: b'"DELETED"' in line[:20],
        )
    )
    await asyncio.sleep(0.2)
    started = time.perf_counter()
    await load.run(target, iter([target.request("DELETE", f"{_NAMESPACE}/{namespace}")]), 1)
    await gone
    return time.perf_counter() - started
