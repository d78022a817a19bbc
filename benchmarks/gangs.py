"""Pod groups in library mode: the workloads of Kubernetes' scheduler_perf (`podgroup`, `cpg`, `batching`), groups in racks, and room made for a whole group."""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from bayplan.api.codec import encode, from_tree
from bayplan.api.feature_gates import GANG_SCHEDULING, GENERIC_WORKLOAD, TOPOLOGY_AWARE, WORKLOAD_GATES
from bayplan.api.types import core_v1, meta_v1, scheduling_v1alpha2
from bayplan.scheduler import Planner
from bayplan.scheduler.configuration.settings import load
from bayplan.scheduler.core import SchedulerCore
from bayplan.scheduler.queueing.queued_pod import QueuedPod
from bayplan.scheduler.snapshot.group_trees import CompositeGroup, NewerPodGroup
from bayplan.support.clock import SystemClock
from benchmarks import end_to_end, workloads
from benchmarks import load as requests
from benchmarks.figures import Figure

NODES: Final = 5_000
RACK: Final = "example.com/rack"
RACK_SIZE: Final = 20
ZONE: Final = "example.com/zone"
ZONE_SIZE: Final = 100
BATCHING_NODES: Final = 20_000


@dataclass(frozen=True, slots=True)
class GroupWorkload:
    """One of scheduler_perf's workloads of pod groups: pods of 100m, in so many groups of one size."""

    name: str
    groups: int
    size: int
    topology: str = ""
    is_gang: bool = True
    peer: str = ""


GROUP_WORKLOADS: Final = (
    GroupWorkload("BasicScheduling, 3,000 groups of 3", 3_000, 3, is_gang=False),
    GroupWorkload("BasicScheduling, 9 groups of 1,000", 9, 1_000, is_gang=False),
    GroupWorkload("GangScheduling, 3,000 gangs of 3", 3_000, 3),
    GroupWorkload("GangScheduling, 9 gangs of 1,000", 9, 1_000),
    GroupWorkload("TopologyAwareScheduling, 2,250 gangs of 4", 2_250, 4, ZONE),
    GroupWorkload("TopologyAwareScheduling, 9 gangs of 1,000", 9, 1_000, ZONE),
)


def run(quick: bool) -> Iterator[Figure]:
    """scheduler_perf's workloads; groups of 4 in racks at 5,000 nodes; 50,000 pods in 10 gangs; a gang of 100 that evicts."""
    share = 10 if quick else 1
    nodes = NODES // share
    for one in GROUP_WORKLOADS:
        yield Figure("gangs", f"{one.name}, {nodes:,} nodes", group_workload(one, nodes, share), "pods/s", one.peer)
    for groups, size in ((1_500 // share, 3), (3, 1_500 // share)):
        name = f"CPGGangScheduling, {groups:,} trees of two gangs of {size:,}, {nodes:,} nodes"
        yield Figure("gangs", name, trees(nodes, groups, size), "pods/s")
    for name, cpu, port in (("HostPortConflict", "100m", 80), ("ResourceSaturation", "3", 0)):
        count = BATCHING_NODES // share
        yield Figure("gangs", f"{name}, {count:,} pods on as many nodes", batching(count, cpu, port), "pods/s")
    for name, topology, peer in (("in racks of 20", RACK, "104-630"), ("anywhere", "", "")):
        rate = groups_of_four(nodes, 4 * nodes // 10, topology)
        yield Figure("gangs", f"groups of 4 {name}, {nodes:,} nodes", rate, "pods/s", peer)
    pods = 50_000 // share
    yield Figure("gangs", f"{pods:,} pods in 10 gangs, {nodes:,} nodes", large(nodes, pods, 10), "s")
    yield Figure("gangs", f"room for a gang of {nodes // 50}, {nodes:,} nodes full", room(nodes, nodes // 50), "s")


def run_up(quick: bool) -> Iterator[Figure]:
    """Groups of 4 end to end, within one zone of 20 nodes and anywhere: `bayplan up`, as users start it."""
    share = 10 if quick else 1
    nodes, groups = NODES // share, 2_000 // share
    for name, key, differ in (
        ("in zones of 20", workloads.ZONE, False),
        ("in zones of 20, each with labels and requests of its own", workloads.ZONE, True),
        ("anywhere", "", False),
    ):
        gates = ",".join(f"{gate}=true" for gate in (GENERIC_WORKLOAD, GANG_SCHEDULING, TOPOLOGY_AWARE))
        runtime = "--apiserver-flag=--runtime-config=scheduling.k8s.io/v1alpha2=true"
        with end_to_end.up_cluster(runtime, "--feature-gates", gates) as target:
            rate = asyncio.run(_bound_rate(target, nodes, groups, key, differ=differ))
        yield Figure("gangs-up", f"groups of 4 {name}, {nodes:,} nodes", rate, "pods/s", "104-630" if key else "")


async def _bound_rate(target: requests.Target, nodes: int, groups: int, key: str, *, differ: bool) -> float:
    """Pods bound per second, from the first create to the last binding; their groups are there before."""
    await end_to_end.create_nodes(target, nodes, nodes // RACK_SIZE)
    path = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
    made = [target.request("POST", path, encode(_group(index, 4, key))) for index in range(groups)]
    await requests.run(target, iter(made), 32)
    pods = []
    for index in range(4 * groups):
        tree = workloads.sized(index, "gang", "900m")
        del tree["spec"]["priority"]
        tree["spec"]["schedulingGroup"] = {"podGroupName": f"gang-{index // 4}"}
        if differ:
            tree["metadata"]["labels"] = {"app": f"job-{index // 4}", "index": str(index)}
            tree["spec"]["containers"][0]["resources"]["requests"]["cpu"] = f"{500 + index // 4 % 400}m"
        pods.append(tree)
    return await end_to_end.bound_rate(target, pods)


def group_workload(workload: GroupWorkload, nodes: int, share: int = 1) -> float:
    """Pods per second of one of scheduler_perf's workloads; `share` divides the groups, or the pods of few groups."""
    groups, size = (
        (workload.groups, workload.size // share) if workload.size > 100 else (workload.groups // share, workload.size)
    )
    planner = _planner(nodes)
    least = size if workload.is_gang else 0
    made = [(_group(index, least, workload.topology), _pods(index, size, "100m")) for index in range(groups)]
    gc.collect()
    started = time.perf_counter()
    for group, pods in made:
        _place(planner, group, pods)
    return groups * size / (time.perf_counter() - started)


def trees(nodes: int, count: int, size: int) -> float:
    """Pods of 100m per second in trees of two gangs, both of which are needed."""
    core = SchedulerCore(load(None, frozenset(WORKLOAD_GATES)), SystemClock(), random.Random(1))
    for index in range(nodes):
        core.handle("Node", None, _node(index))
    pods = [pod for index in range(2 * count) for pod in _pods(index, size, "100m")]
    for index in range(count):
        metadata = meta_v1.ObjectMeta(name=f"tree-{index}", namespace="default")
        core.put_composite(
            f"default/tree-{index}", CompositeGroup(scheduling_v1alpha2.PodGroup(metadata=metadata), "", 2)
        )
    for index in range(2 * count):
        made = _group(index, size)
        core.handle(
            "PodGroup", None, NewerPodGroup(metadata=made.metadata, spec=made.spec, parent=f"default/tree-{index // 2}")
        )
    gc.collect()
    started = time.perf_counter()
    for pod in pods:
        core.handle("Pod", None, pod)
    placed = 0
    while (outcome := core.schedule_one()) is not None:
        if outcome.binding_cycle is not None:
            placed += 1
            outcome.binding_cycle.settle()
            outcome.binding_cycle.conclude()
    seconds = time.perf_counter() - started
    if placed != len(pods):
        raise RuntimeError(f"{placed} of {len(pods)} pods were placed")
    return placed / seconds


def batching(count: int, cpu: str, port: int) -> float:
    """Pods per second without groups, each of which takes a node for itself: by a host port, or by its cpu."""
    planner = _planner(count)
    pods = []
    for index in range(count):
        tree = workloads.sized(index, "pod", cpu)
        if port:
            tree["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]
        pods.append(from_tree(core_v1.Pod, tree))
    gc.collect()
    started = time.perf_counter()
    for pod in pods:
        if planner.schedule(pod).row < 0:
            raise RuntimeError(f"pod {pod.metadata.name} found no node")
    return count / (time.perf_counter() - started)


def groups_of_four(nodes: int, groups: int, topology: str) -> float:
    """Pods per second in groups of 4 of 900m, each within one domain of a topology key if there is one."""
    planner = _planner(nodes)
    made = [(_group(index, 4, topology), _pods(index, 4, "900m")) for index in range(groups)]
    gc.collect()
    started = time.perf_counter()
    for group, pods in made:
        _place(planner, group, pods)
    return 4 * groups / (time.perf_counter() - started)


def large(nodes: int, pods: int, gangs: int) -> float:
    """Seconds for so many basic pods in a few gangs, each of which is placed as a whole."""
    planner = _planner(nodes)
    size = pods // gangs
    made = [(_group(index, size), _pods(index, size, "100m")) for index in range(gangs)]
    gc.collect()
    started = time.perf_counter()
    for group, members in made:
        _place(planner, group, members)
    return time.perf_counter() - started


def room(nodes: int, size: int) -> float:
    """Seconds to find out who has to go for a gang of pods of 3,000m, on nodes that are full of pods of 900m and lower priority."""
    planner = _planner(nodes)
    for index in range(4 * nodes):
        low = workloads.sized(index, "low", "900m", node_name=f"node-{index // 4:05d}")
        planner.add("Pod", from_tree(core_v1.Pod, low))
    planner.add("PodGroup", _group(0, size, priority=10))
    members = _queued(planner, _pods(0, size, "3", priority=10))
    gc.collect()
    started = time.perf_counter()
    _, result = planner.decide_gang(members)
    seconds = time.perf_counter() - started
    victims = len(result.preemption.victims) if result.preemption is not None else 0
    if victims != 3 * size:
        raise RuntimeError(f"{victims} victims for {size} pods: {result.message}")
    return seconds


def _planner(nodes: int) -> Planner:
    return Planner([_node(index) for index in range(nodes)], load(None, frozenset(WORKLOAD_GATES)))


def _node(index: int) -> core_v1.Node:
    tree = workloads.node(index)
    tree["metadata"]["labels"] |= {RACK: f"rack-{index // RACK_SIZE:04d}", ZONE: f"zone-{index // ZONE_SIZE:03d}"}
    return from_tree(core_v1.Node, tree)


def _group(index: int, count: int, topology: str = "", *, priority: int = 0) -> scheduling_v1alpha2.PodGroup:
    policy = {"gang": {"minCount": count}} if count else {"basic": {}}
    spec: dict[str, Any] = {"schedulingPolicy": policy, "priority": priority}
    if topology:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    return from_tree(
        scheduling_v1alpha2.PodGroup, {"metadata": {"name": f"gang-{index}", "namespace": "default"}, "spec": spec}
    )


def _pods(gang: int, count: int, cpu: str, *, priority: int = 0) -> list[core_v1.Pod]:
    pods = []
    for index in range(count):
        tree = workloads.sized(index, f"gang-{gang}", cpu, priority=priority)
        tree["metadata"]["uid"] = f"{gang}-{index}"
        tree["spec"]["schedulingGroup"] = {"podGroupName": f"gang-{gang}"}
        pods.append(from_tree(core_v1.Pod, tree))
    return pods


def _queued(planner: Planner, pods: list[core_v1.Pod]) -> list[QueuedPod]:
    for pod in pods:
        planner.add("Pod", pod)
    return [QueuedPod(planner.pod(pod), (), 0.0) for pod in pods]


def _place(planner: Planner, group: scheduling_v1alpha2.PodGroup, pods: list[core_v1.Pod]) -> None:
    planner.add("PodGroup", group)
    members, result = planner.decide_gang(_queued(planner, pods))
    if not result.scheduled:
        raise RuntimeError(f"group {result.key}: {result.message}")
    for member in members:
        assert member.binding_cycle is not None
        member.binding_cycle.settle()
        member.binding_cycle.conclude()
