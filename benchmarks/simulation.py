"""Virtual time and questions: a day of a churning cluster, months of a workload, room in a large cluster, seeds of faults."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bayplan.api.types import apps_v1, core_v1
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support import virtual_time
from benchmarks.figures import Figure

_DEPLOYMENTS = 20


def run(quick: bool) -> Iterator[Figure]:
    """All of them."""
    hours, nodes, pods = (2, 20, 200) if quick else (24, 100, 2_000)
    seconds, writes = _timed_day(hours, nodes, pods)
    yield Figure("Virtual time", f"{hours} h of {nodes} nodes, {pods:,} pods churning", seconds, "s")
    yield Figure("Virtual time", "writes in that time", writes / seconds, "/s")
    yield from _memory(*(1, 20, 200) if quick else (5, 100, 2_000))
    yield Figure("Virtual time", "149 days, 1,213 nodes, 8,152 pods replayed", _replayed(quick), "s")
    seeds = 20 if quick else 200
    yield Figure("Virtual time", f"{seeds} seeds of faults on both cores", _faults(seeds), "s")
    size = (500, 10_000) if quick else (5_000, 100_000)
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory, "copy.gz")
        write_copy(copy, *size, cpu="32", memory="128Gi")
        seconds, mebibytes = _measured("capacity", "--cluster", str(copy), "--cpu", "500m", "--memory", "1Gi")
        yield Figure("Questions", f"capacity, {size[0]:,} nodes and {size[1]:,} pods, from the file", seconds, "s")
        yield Figure("Questions", f"memory of that copy with {size[1]:,} pods", mebibytes, "MiB")
        write_copy(copy, size[0], 0, cpu="4", memory="32Gi")
        seconds, mebibytes = _measured("capacity", "--cluster", str(copy), "--cpu", "1", "--memory", "1Gi")
        name = f"capacity, {size[0]:,} empty nodes of 4 cpu until they are full"
        yield Figure("Questions", name, seconds, "s", "" if quick else "35.4 (cluster-capacity)")
        yield Figure("Questions", "memory of that", mebibytes, "MiB", "" if quick else "1160 (cluster-capacity)")


def _timed_day(hours: int, nodes: int, pods: int) -> tuple[float, int]:
    """Seconds and writes."""
    started = time.perf_counter()
    writes = virtual_time.run(churn(hours, nodes, pods))[1]
    return time.perf_counter() - started, writes


_MEMORY = """
import sys
from benchmarks.simulation import churn
from bayplan.support import virtual_time

def resident():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024

virtual_time.run(churn(*map(int, sys.argv[1:]), hourly=lambda: print(resident())))
"""


def _memory(hours: int, nodes: int, pods: int) -> Iterator[Figure]:
    """Resident memory of a churning cluster, in a process of its own, after each of the last two hours."""
    arguments = [sys.executable, "-c", _MEMORY, *map(str, (hours + 1, nodes, pods))]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    sizes = [float(line) for line in done.stdout.split()]
    for hour, size in ((hours, sizes[-2]), (hours + 1, sizes[-1])):
        yield Figure("Virtual time", f"memory after {hour} h of {nodes} nodes, {pods:,} pods churning", size, "MiB")


async def churn(
    hours: int, nodes: int, pods: int, seed: int = 0, hourly: Callable[[], object] = lambda: None
) -> tuple[str, int]:
    """A cluster with so many pods; each hour one of its deployments is rolled out anew and one scaled, jobs run all the time.

    `hourly` is called at the end of each hour. Returns the digest of the trace and the number of writes.
    """
    async with VirtualCluster(seed=seed, nodes=nodes) as cluster:
        each = pods // _DEPLOYMENTS
        await cluster.apply(*(_deployment(f"app-{number}", each) for number in range(_DEPLOYMENTS)), _cron_job())
        for hour in range(hours):
            name = f"app-{hour % _DEPLOYMENTS}"
            images = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": f"app:{hour}"}]}}}}
            await cluster.client.patch(apps_v1.Deployment, name, "default", images)
            await cluster.advance(minutes=30)
            scaled = {"spec": {"replicas": each + (each // 4 if hour % 2 else 0)}}
            await cluster.client.patch(apps_v1.Deployment, f"app-{(hour + 7) % _DEPLOYMENTS}", "default", scaled)
            await cluster.advance(minutes=30)
            hourly()
        running = [pod for pod in (await cluster.client.list(core_v1.Pod)).items if pod.status.phase == "Running"]
        if len(running) < pods:
            raise RuntimeError(f"{len(running)} of {pods} pods run after {hours} hours")
        return cluster.trace.digest(), cluster.trace.writes


def _template(name: str, restart: str) -> dict[str, Any]:
    requests = {"cpu": "100m", "memory": "128Mi"}
    container = {"name": "main", "image": f"{name}:0", "resources": {"requests": requests}}
    return {"metadata": {"labels": {"app": name}}, "spec": {"restartPolicy": restart, "containers": [container]}}


def _deployment(name: str, replicas: int) -> dict[str, Any]:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": _template(name, "Always")}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def _cron_job() -> dict[str, Any]:
    job = {"completions": 4, "parallelism": 2, "template": _template("tick", "Never")}
    spec = {"schedule": "*/10 * * * *", "jobTemplate": {"spec": job}}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"}, "spec": spec}


def _replayed(quick: bool) -> float:
    """Seconds for a workload of the size of the published GPU trace, made from a seed."""
    from bayplan.simulation.replay.run import Arrival, Workload, replay
    from bayplan.simulation.replay.traces import arrival_of, node_of

    chance = random.Random(1)
    nodes = tuple(
        node_of({"sn": f"node-{number:04d}", "cpu_milli": "96000", "memory_mib": "393216", "gpu": "8", "model": "T4"})
        for number in range(121 if quick else 1_213)
    )
    count, days = (815 if quick else 8_152), 149
    arrivals: list[Arrival] = []
    for number in range(count):
        at = chance.random() * days * 86400
        row = {
            "name": f"pod-{number:05d}",
            "cpu_milli": str(chance.choice((2000, 4000, 8000, 12000))),
            "memory_mib": str(chance.choice((8192, 16384, 32768))),
            "num_gpu": str(chance.choice((0, 1, 1, 1, 2, 8))),
            "gpu_milli": str(chance.choice((500, 1000, 1000))),
            "creation_time": f"{at:.0f}",
            "duration": f"{chance.expovariate(1 / 86400):.0f}",
        }
        arrivals.append(arrival_of(row))
    started = time.perf_counter()
    replay(Workload(nodes, tuple(arrivals)))
    return time.perf_counter() - started


def _faults(seeds: int) -> float:
    started = time.perf_counter()
    command = [str(Path(sys.executable).parent / "bayplan"), "faults", "--seeds", str(seeds), "-j", "2"]
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


_MEASURE = """
import os, subprocess, sys, time

started = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(time.perf_counter() - started, usage.ru_maxrss / 1024)
sys.exit(status != 0)
"""


def _measured(*arguments: str) -> tuple[float, float]:
    """Seconds and peak MiB of a `bayplan` process. It is begun by a small process: what begins one counts as its memory."""
    command = [str(Path(sys.executable).parent / "bayplan"), *arguments]
    done = subprocess.run([sys.executable, "-c", _MEASURE, *command], check=True, capture_output=True, text=True)
    seconds, mebibytes = map(float, done.stdout.split())
    return seconds, mebibytes


def write_copy(path: Path, nodes: int, pods: int, *, cpu: str, memory: str) -> None:
    """A copy of a made-up cluster of such nodes."""
    from bayplan.api.types import meta_v1
    from bayplan.simulation.snapshots.snapshot import ClusterSnapshot, to_bytes

    amounts: dict[str, Any] = {"cpu": cpu, "memory": memory, "pods": "110"}
    made_nodes = [
        core_v1.Node(
            metadata=meta_v1.ObjectMeta(
                name=f"node-{number:05d}",
                labels={
                    "kubernetes.io/hostname": f"node-{number:05d}",
                    "topology.kubernetes.io/zone": f"zone-{number % 3}",
                },
            ),
            status=core_v1.NodeStatus(capacity=amounts, allocatable=amounts),
        )
        for number in range(nodes)
    ]
    requests = core_v1.ResourceRequirements(requests={"cpu": "1", "memory": "2Gi"})
    made_pods = [
        core_v1.Pod(
            metadata=meta_v1.ObjectMeta(
                name=f"pod-{number:06d}", namespace=f"team-{number % 50}", labels={"app": f"app-{number % 500}"}
            ),
            spec=core_v1.PodSpec(
                containers=(core_v1.Container(name="main", image="app", resources=requests),),
                node_name=f"node-{number % nodes:05d}",
            ),
            status=core_v1.PodStatus(phase="Running"),
        )
        for number in range(pods)
    ]
    path.write_bytes(to_bytes(ClusterSnapshot({"Node": made_nodes, "Pod": made_pods})))
