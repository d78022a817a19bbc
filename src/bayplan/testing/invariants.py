"""What must always hold in a cluster, checked from outside through the API."""

from __future__ import annotations

from collections import Counter, defaultdict

from bayplan.api.quantity import Quantity, parse
from bayplan.api.types import apps_v1, core_v1
from bayplan.client import Client
from bayplan.scheduler.snapshot.resources import pod_requests


async def violations(client: Client) -> list[str]:
    """What is wrong, one sentence each; empty if all holds: no node over-committed, no pod on a node that does not exist, no address given twice, no
    owner missing, and ReplicaSets count their pods right."""
    nodes = {one.metadata.name: one for one in (await client.list(core_v1.Node)).items}
    pods = (await client.list(core_v1.Pod)).items
    sets = (await client.list(apps_v1.ReplicaSet)).items
    return [*_placement(nodes, pods), *_addresses(pods), *_owners(sets, pods)]


def _placement(nodes: dict[str, core_v1.Node], pods: list[core_v1.Pod]) -> list[str]:
    found = []
    used: dict[str, dict[str, Quantity]] = defaultdict(dict)
    for pod in pods:
        name = pod.spec.node_name
        if not name or pod.status.phase in ("Succeeded", "Failed"):
            continue
        if name not in nodes:
            found.append(f"pod {pod.metadata.namespace}/{pod.metadata.name} is on node {name}, which does not exist")
            continue
        for resource, amount in {**pod_requests(pod.spec, pod.status), "pods": parse(1)}.items():
            used[name][resource] = used[name].get(resource, parse(0)).add(amount)
    for name, amounts in used.items():
        for resource, amount in amounts.items():
            room = parse(nodes[name].status.allocatable.get(resource, "0"))
            if amount.compare(room) > 0:
                found.append(f"node {name} is over-committed: {resource} {amount} of {room}")
    return found


def _addresses(pods: list[core_v1.Pod]) -> list[str]:
    counts = Counter(
        pod.status.pod_ip
        for pod in pods
        if pod.status.pod_ip and not pod.spec.host_network and pod.status.phase == "Running"
    )
    return [f"address {address} is given to {count} pods" for address, count in counts.items() if count > 1]


def _owners(sets: list[apps_v1.ReplicaSet], pods: list[core_v1.Pod]) -> list[str]:
    found = []
    known = {one.metadata.uid: one for one in sets}
    counts: Counter[str] = Counter()
    for pod in pods:
        for owner in pod.metadata.owner_references:
            if owner.kind == "ReplicaSet" and owner.controller:
                counts[owner.uid] += (
                    pod.status.phase not in ("Succeeded", "Failed") and not pod.metadata.deletion_timestamp
                )
                if owner.uid not in known and not pod.metadata.deletion_timestamp:
                    found.append(
                        f"pod {pod.metadata.namespace}/{pod.metadata.name} belongs to a ReplicaSet that does not exist"
                    )
    for uid, one in known.items():
        if one.status.replicas != counts[uid]:
            found.append(
                f"ReplicaSet {one.metadata.namespace}/{one.metadata.name} counts {one.status.replicas} pods, there are {counts[uid]}"
            )
    return found
