"""What the plugins in `bayplan.scheduler.plugins.extra` do to a workload, measured in virtual time.

python -m examples.scheduler.weigh fairness|deadlines|locality|interference|slots
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from bayplan.api.types import core_v1
from bayplan.cluster.settings import ClusterSettings
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.timestamps import parse_rfc3339, rfc3339
from bayplan.support.virtual_time import run
from bayplan.testing.builders import pod

Rows = list[tuple[str, str, str]]
"""(figure, without the plugin, with it)"""
Measure = Callable[[VirtualCluster], Awaitable[dict[str, str]]]


def configuration(name: str, weight: int, args: dict[str, Any], *, sorts: bool) -> dict[str, Any]:
    """A KubeSchedulerConfiguration with one plugin more."""
    plugins: dict[str, Any] = {"multiPoint": {"enabled": [{"name": name, "weight": weight}]}}
    if sorts:
        plugins["queueSort"] = {"disabled": [{"name": "PrioritySort"}]}
    profile = {"schedulerName": "default-scheduler", "plugins": plugins, "pluginConfig": [{"name": name, "args": args}]}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }


def job(name: str, seconds: float, cpu: str = "1", **more: Any) -> core_v1.Pod:
    """A pod that runs for so long."""
    annotations = {"bayplan.dev/run-seconds": f"{seconds:g}", **more.pop("annotations", {})}
    return pod(
        name, cpu=cpu, restart_policy="Never", meta={"labels": more.pop("labels", {}), "annotations": annotations}
    )


async def label(cluster: VirtualCluster, node: str, **labels: str) -> None:
    """Set labels of a node; `__` stands for what no name can have."""
    changed = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    await cluster.client.patch(core_v1.Node, node, "", {"metadata": {"labels": changed}})


async def submit(cluster: VirtualCluster, pods: Sequence[core_v1.Pod]) -> None:
    """Create pods, in order."""
    for one in pods:
        await cluster.client.create(one)


async def pods_of(cluster: VirtualCluster) -> list[core_v1.Pod]:
    """All pods."""
    return list((await cluster.client.list(core_v1.Pod, "default")).items)


def ended(one: core_v1.Pod) -> float | None:
    """When a pod was done; Unix seconds."""
    times = [status.state.terminated.finished_at for status in one.status.container_statuses if status.state.terminated]
    return max((parse_rfc3339(time) for time in times if time), default=None)


# Workloads


async def fairness(cluster: VirtualCluster) -> dict[str, str]:
    """Team a submits 200 jobs of ten minutes at once, teams b and c ten each a minute later."""
    jobs = [job(f"a-{number}", 600, labels={"bayplan.dev/queue": "a"}) for number in range(200)]
    await submit(cluster, jobs)
    await cluster.advance(minutes=1)
    small = [
        job(f"{team}-{number}", 600, labels={"bayplan.dev/queue": team}) for number in range(10) for team in ("b", "c")
    ]
    await submit(cluster, small)
    began = cluster.clock.now()
    await cluster.advance(hours=4)
    done: dict[str, list[float]] = {"a": [], "b": [], "c": []}
    for one in await pods_of(cluster):
        done[one.metadata.name[0]].append((ended(one) or cluster.clock.now()) - began)
    figures = {f"team {team} is done after": minutes(max(times)) for team, times in done.items()}
    return {**figures, "mean of all jobs": minutes(sum(map(sum, done.values())) / 220)}


async def deadlines(cluster: VirtualCluster) -> dict[str, str]:
    """120 jobs of ten minutes that come in no order of their deadlines, for 24 at a time."""
    now = cluster.clock.now()
    jobs = []
    for number in range(120):
        due = rfc3339(now + 700 + (number * 37 % 120) * 25)
        stated = {"bayplan.dev/deadline": due, "bayplan.dev/expected-run-time": "10m"}
        jobs.append(job(f"job-{number}", 600, annotations=stated))
    await submit(cluster, jobs)
    await cluster.advance(hours=3)
    met = missed = refused = 0
    for one in await pods_of(cluster):
        time = ended(one)
        in_time = time is not None and time <= parse_rfc3339(one.metadata.annotations["bayplan.dev/deadline"])
        met += in_time
        missed += time is not None and not in_time
        refused += time is None
    return {"done in time": str(met), "done too late": str(missed), "kept out": str(refused)}


async def locality(cluster: VirtualCluster) -> dict[str, str]:
    """Twelve data sets on twelve nodes of three zones, and 120 jobs that read one of them each."""
    for number, node in enumerate(
        sorted((await cluster.client.list(core_v1.Node)).items, key=lambda one: one.metadata.name)
    ):
        await label(
            cluster,
            node.metadata.name,
            **{"topology_kubernetes_io__zone": f"z{number % 3}", f"data_bayplan_dev__set-{number}": "100"},
        )
    jobs = [
        job(f"job-{number}", 60, "200m", labels={f"data.bayplan.dev/set-{number % 12}": ""}) for number in range(120)
    ]
    await submit(cluster, jobs)
    await cluster.advance(minutes=1)
    nodes = {one.metadata.name: one.metadata.labels for one in (await cluster.client.list(core_v1.Node)).items}
    here = near = 0
    for one in await pods_of(cluster):
        wanted = next(key for key in one.metadata.labels if key.startswith("data."))
        there = nodes[one.spec.node_name]
        zones = {labels["topology.kubernetes.io/zone"] for labels in nodes.values() if wanted in labels}
        here += wanted in there
        near += wanted not in there and there["topology.kubernetes.io/zone"] in zones
    return {
        "read on their node": percent(here, 120),
        "in their zone": percent(near, 120),
        "from afar": percent(120 - here - near, 120),
    }


async def interference(cluster: VirtualCluster) -> dict[str, str]:
    """60 batch pods and 60 of a web server, in turn, on ten nodes."""
    kinds = ("batch", "web")
    pods = [
        job(f"{kind}-{number}", 3600, "200m", labels={"bayplan.dev/interference-class": kind})
        for number in range(60)
        for kind in kinds
    ]
    await submit(cluster, pods)
    await cluster.advance(minutes=1)
    batch: dict[str, int] = {}
    web: dict[str, int] = {}
    for one in await pods_of(cluster):
        count = batch if one.metadata.name.startswith("batch") else web
        count[one.spec.node_name] = count.get(one.spec.node_name, 0) + 1
    pairs = sum(number * batch.get(node, 0) for node, number in web.items())
    beside = sum(number for node, number in web.items() if batch.get(node))
    return {"web pods beside batch pods": percent(beside, 60), "pairs on one node": str(pairs)}


async def slots(cluster: VirtualCluster) -> dict[str, str]:
    """40 jobs of an hour submitted at noon that may run from 22:00 to 06:00, beside services that need the nodes by day."""
    await cluster.advance(seconds=(12 * 3600 - cluster.clock.now()) % 86400)
    stated = {"bayplan.dev/expected-run-time": "1h"}
    await submit(
        cluster,
        [
            job(f"job-{number}", 3600, "4", labels={"bayplan.dev/time-slot": "night"}, annotations=stated)
            for number in range(40)
        ],
    )
    by_day = night = 0
    await cluster.advance(minutes=15)
    for _ in range(48):
        await cluster.advance(minutes=30)
        busy = sum(4 for one in await pods_of(cluster) if one.status.phase == "Running")
        if cluster.clock.now() % 86400 >= 22 * 3600 or cluster.clock.now() % 86400 < 6 * 3600:
            night += busy
        else:
            by_day += busy
    done = sum(1 for one in await pods_of(cluster) if one.status.phase == "Succeeded")
    return {
        "cpu hours by day": f"{by_day / 2:.0f}",
        "cpu hours at night": f"{night / 2:.0f}",
        "done by the next noon": str(done),
    }


def minutes(seconds: float) -> str:
    """Whole minutes."""
    return f"{seconds / 60:.0f} min"


def percent(part: int, whole: int) -> str:
    """Whole percent."""
    return f"{100 * part / whole:.0f} %"


_NIGHT = {"slots": [{"name": "night", "start": "22:00", "end": "06:00"}]}
_CLASSES = {"classes": [{"name": "batch", "noise": 80}, {"name": "web", "noise": 5, "sensitivity": 80}]}
WORKLOADS: dict[str, tuple[Measure, int, dict[str, Any]]] = {
    "fairness": (fairness, 3, configuration("TenantFairness", 0, {}, sorts=True)),
    "deadlines": (deadlines, 3, configuration("EarliestDeadline", 0, {}, sorts=True)),
    "locality": (locality, 12, configuration("DataLocality", 10, {}, sorts=False)),
    "interference": (interference, 10, configuration("Interference", 10, _CLASSES, sorts=False)),
    "slots": (slots, 3, configuration("TimeSlots", 0, _NIGHT, sorts=False)),
}
"""Name -> what is measured, on how many nodes of 8 cpu, with which configuration."""


def measured(name: str) -> Rows:
    """The figures of a workload, without and with the plugin."""
    measure, nodes, config = WORKLOADS[name]

    async def once(path: Path | None) -> dict[str, str]:
        async with VirtualCluster(nodes=nodes, seed=1, settings=ClusterSettings(scheduler_config=path)) as cluster:
            return await measure(cluster)

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "config.yaml"
        path.write_text(yaml.safe_dump(config))
        before, after = run(once(None)), run(once(path))
    return [(figure, before[figure], after[figure]) for figure in before]


def main() -> int:
    """Print a table. Returns 2 for a workload that is not known."""
    name = sys.argv[1] if len(sys.argv) == 2 else ""
    if name not in WORKLOADS:
        print(f"usage: python -m examples.scheduler.weigh {'|'.join(WORKLOADS)}", file=sys.stderr)
        return 2
    plugin = WORKLOADS[name][2]["profiles"][0]["pluginConfig"][0]["name"]
    print(f"{'':30}{'without':>12}{plugin:>20}")
    for figure, before, after in measured(name):
        print(f"{figure:30}{before:>12}{after:>20}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
