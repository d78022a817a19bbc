"""Network policies of one node: the CPU time of a start and of one change, in the pure core and in the kernel.

The kernel's part runs in a network namespace of the benchmark's own and is left out without root or nft.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from typing import Final

from bayplan.api.types import core_v1, meta_v1, networking_v1
from bayplan.network.policy.addresses import Family
from bayplan.network.policy.objects import pod_entry, policy_entry
from bayplan.network.policy.state import PolicyState
from bayplan.network.policy.table import partial, whole
from benchmarks.figures import Figure

PODS: Final = 5_000
POLICIES: Final = 1_000
LOCAL: Final = 110
"""Pods of the node, as many as a kubelet takes by default."""
_NEW_NETWORK: Final = 0x40000000


def run(quick: bool) -> Iterator[Figure]:
    """A cluster of many namespaces, and one where all is in one namespace."""
    changes = 20 if quick else 200
    for title, namespaces in (("100 namespaces", 100), ("1 namespace", 1)):
        size = f"{POLICIES:,} policies, {PODS:,} pods, {title}"
        pods = [pod(index, namespaces) for index in range(PODS)]
        policies = [policy(index, namespaces) for index in range(POLICIES)]
        started = time.process_time()
        state = loaded(namespaces, pods, policies)
        transaction = "".join(whole(table) for table in state.tables)
        yield Figure("network-policy", f"a start: {size}", time.process_time() - started, "s CPU")
        in_kernel = kernel_seconds(transaction)
        seconds, transactions = changed(state, namespaces, changes)
        yield Figure("network-policy", f"one pod changes: {size}", seconds * 1e3, "ms CPU")
        if in_kernel is not None:
            yield Figure("network-policy", f"the kernel takes a start: {size}", in_kernel, "s")
            each = [kernel_seconds(one) or 0.0 for one in transactions]
            yield Figure("network-policy", f"the kernel takes one change: {size}", sum(each) / len(each) * 1e3, "ms")


def loaded(namespaces: int, pods: list[core_v1.Pod], policies: list[networking_v1.NetworkPolicy]) -> PolicyState:
    """The state of a node when all objects have come."""
    state = PolicyState(Family)
    for index in range(namespaces):
        state.put_namespace(f"space-{index}", {"team": f"team-{index % 10}"})
    for one in pods:
        entry = pod_entry(one, "here")
        if entry is not None:
            state.put_pod(entry)
    for each in policies:
        rules = policy_entry(each)
        if rules is not None:
            state.put_policy(rules)
    state.set_pod_networks(("10.0.0.0/24",))
    state.update()
    for table in state.tables:
        table.take_changes()
    return state


def changed(state: PolicyState, namespaces: int, count: int) -> tuple[float, list[str]]:
    """Seconds of CPU for one pod with other labels, of this node or another, and the transactions."""
    transactions = []
    pods = [pod(index * (PODS // count), namespaces, shift=1) for index in range(count)]
    started = time.process_time()
    for one in pods:
        entry = pod_entry(one, "here")
        if entry is not None:
            state.put_pod(entry)
        state.update()
        changes = [(table.family, table.take_changes()) for table in state.tables]
        transactions.append("".join(partial(*change) for change in changes))
    return (time.process_time() - started) / count, transactions


def kernel_seconds(transaction: str) -> float | None:
    """Seconds that `nft` takes for a transaction; None if it cannot be run."""
    if os.geteuid() != 0 or shutil.which("nft") is None:
        return None
    if not _in_namespace():
        return None
    started = time.perf_counter()
    subprocess.run(["nft", "-f", "-"], input=transaction.encode(), check=True)
    return time.perf_counter() - started


def _in_namespace() -> bool:
    """Give this process a network namespace of its own, once; the benchmark's process ends with it."""
    global _entered
    if not _entered:
        _entered = ctypes.CDLL(None).unshare(_NEW_NETWORK) == 0
    return _entered


_entered = False


def pod(index: int, namespaces: int, shift: int = 0) -> core_v1.Pod:
    """A pod with an address of each family; the first ones are of the node."""
    high, low = divmod(index, 250)
    addresses = f"10.0.{high}.{low + 1}", f"fd00::{high:x}:{low + 1:x}"
    ports = (core_v1.ContainerPort(name="http", container_port=8080, protocol="TCP"),)
    return core_v1.Pod(
        metadata=meta_v1.ObjectMeta(
            name=f"pod-{index}",
            namespace=f"space-{index % namespaces}",
            labels={"app": f"app-{(index // namespaces + shift) % 10}", "tier": f"tier-{index % 3}"},
        ),
        spec=core_v1.PodSpec(
            node_name="here" if index < LOCAL else f"node-{index // LOCAL}",
            containers=(core_v1.Container(name="main", image="app:1", ports=ports),),
        ),
        status=core_v1.PodStatus(phase="Running", pod_ips=tuple(core_v1.PodIP(ip=one) for one in addresses)),
    )


def policy(index: int, namespaces: int) -> networking_v1.NetworkPolicy:
    """One of five kinds of policies: by pods, by namespaces, by both, by addresses, a denial."""
    number = index // namespaces
    app = meta_v1.LabelSelector(match_labels={"app": f"app-{number % 10}"})
    other = meta_v1.LabelSelector(match_labels={"app": f"app-{(number + 1) % 10}", "tier": f"tier-{number % 3}"})
    team = meta_v1.LabelSelector(match_labels={"team": f"team-{index % 10}"})
    block = networking_v1.IPBlock(cidr=f"172.16.{index % 256}.0/24", except_=(f"172.16.{index % 256}.128/25",))
    peers = (
        networking_v1.NetworkPolicyPeer(pod_selector=other),
        networking_v1.NetworkPolicyPeer(namespace_selector=team),
        networking_v1.NetworkPolicyPeer(namespace_selector=team, pod_selector=other),
        networking_v1.NetworkPolicyPeer(ip_block=block),
    )
    ports = (networking_v1.NetworkPolicyPort(port="http"), networking_v1.NetworkPolicyPort(port=1000 + index))
    rules = (networking_v1.NetworkPolicyIngressRule(from_=(peers[index % 5],), ports=ports),) if index % 5 < 4 else ()
    return networking_v1.NetworkPolicy(
        metadata=meta_v1.ObjectMeta(name=f"policy-{index}", namespace=f"space-{index % namespaces}"),
        spec=networking_v1.NetworkPolicySpec(
            pod_selector=app if index % 5 < 4 else meta_v1.LabelSelector(), policy_types=("Ingress",), ingress=rules
        ),
    )
