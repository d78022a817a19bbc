"""How long it takes until there is something to work with."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import load
from benchmarks.figures import Figure
from benchmarks.processes import running
from benchmarks.workloads import pod


def run(quick: bool) -> Iterator[Figure]:
    """Import, ready, first pod."""
    tries = 1 if quick else 3
    yield Figure("start-up", "import bayplan", min(_import() for _ in range(tries)) * 1000, "ms")
    ready, first = zip(*(_first_pod() for _ in range(tries)), strict=True)
    yield Figure("start-up", "bayplan up until ready", min(ready), "s", "2.0-3.0 (kube-apiserver and etcd alone)")
    yield Figure("start-up", "bayplan up until the first pod runs", min(first), "s")


def _import() -> float:
    code = "import time; t = time.perf_counter(); import bayplan; print(time.perf_counter() - t)"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)


def _first_pod() -> tuple[float, float]:
    """Seconds until ready, and until a pod that was applied at start runs."""
    import asyncio

    with tempfile.TemporaryDirectory() as directory:
        manifest, kubeconfig = Path(directory, "pod.json"), Path(directory, "kubeconfig")
        manifest.write_text(json.dumps(pod(0)))
        started = time.perf_counter()
        with running(
            "up",
            "--data-dir",
            f"{directory}/data",
            "--port",
            "0",
            "--apply",
            str(manifest),
            "--kubeconfig",
            str(kubeconfig),
        ) as (_, ready):
            asyncio.run(_until_running(load.Target(kubeconfig)))
            return ready, time.perf_counter() - started


async def _until_running(target: load.Target) -> None:
    import asyncio

    runs = asyncio.Event()

    def on_line(line: bytes) -> None:
        if b'"phase":"Running"' in line:
            runs.set()

    watch = await load.watch(target, "/api/v1/namespaces/default/pods?watch=true", on_line)
    await asyncio.wait_for(runs.wait(), 30)
    if watch.transport is not None:
        watch.transport.close()
