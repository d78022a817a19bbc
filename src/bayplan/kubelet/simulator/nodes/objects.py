"""Simulated nodes as objects: what a kubelet would register and report."""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Container, Mapping
from typing import Any

from msgspec.structs import replace

from bayplan import KUBERNETES_VERSION
from bayplan.api.declared_features import DECLARED
from bayplan.api.nodes import SIMULATED
from bayplan.api.types import coordination_v1, core_v1, meta_v1
from bayplan.api.types.scalars import Quantity
from bayplan.api.validation.resources import is_extended
from bayplan.kubelet.simulator.settings import USUAL_LEASE, SimulatorSettings
from bayplan.support.timestamps import rfc3339, rfc3339_micro

LEASE_NAMESPACE = "kube-node-lease"
"""Annotation of nodes that the simulator plays."""
MANAGED_ATTACH = "volumes.kubernetes.io/controller-managed-attach-detach"
"""Annotation of nodes whose kubelet leaves attaching volumes to the controllers, as it does unless told otherwise."""
SILENT = "bayplan.dev/silent"
"""Annotation of nodes that have lost contact: while it says `true`, the node renews no lease and its pods do not move."""
MACHINE_LABELS: Mapping[str, str] = {
    "kubernetes.io/arch": "amd64",
    "kubernetes.io/os": "linux",
    "beta.kubernetes.io/arch": "amd64",
    "beta.kubernetes.io/os": "linux",
    "node.kubernetes.io/instance-type": "simulated",
    "beta.kubernetes.io/instance-type": "simulated",
    "topology.kubernetes.io/region": "local",
    "failure-domain.beta.kubernetes.io/region": "local",
}
"""What all simulated nodes say about their machine, unless told otherwise."""
ZONE = "topology.kubernetes.io/zone"
_NETWORKS = 128 * 256
"""Networks for nodes: 10.128.0.0/9 in parts of 256 addresses."""
HEALTHY = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


def node_name(settings: SimulatorSettings, index: int) -> str:
    """Name of the node with this index (from 0)."""
    width = max(len(str(settings.nodes)), 1)
    return f"{settings.name_prefix}-{index + 1:0{width}d}"


def node_address(index: int) -> str:
    """InternalIP of a node."""
    return f"172.{18 + (index >> 16)}.{(index >> 8) & 255}.{index & 255}"


def pod_network(index: int) -> str:
    """First three bytes of the addresses of a node's pods."""
    return f"10.{128 + (index >> 8)}.{index & 255}"


def free_network(used: Container[str], first: int) -> str:
    """A network that no node has, that of the index `first` if possible: others may play nodes in this cluster too. Raises LookupError."""
    for index in itertools.chain(range(first, _NETWORKS), range(first)):
        network = f"{pod_network(index)}.0/24"
        if network not in used:
            return network
    raise LookupError("no network is left for another node")


def hosts_of(network: str) -> tuple[str, range]:
    """(first three bytes, range of the last) of the addresses for pods in a node's IPv4 network; of a large network the first 256 addresses. Raises ValueError."""
    found = ipaddress.IPv4Network(network)
    first = int(found.network_address) & 255
    last = min(first + found.num_addresses, 256)
    return str(found.network_address).rpartition(".")[0], range(first + 2, last - 1)


def zone_labels(zone: str) -> dict[str, str]:
    """The zone of a node, by the label of today and by that of before Kubernetes 1.17, which old manifests choose by."""
    return {ZONE: zone, "failure-domain.beta.kubernetes.io/zone": zone}


def make_node(settings: SimulatorSettings, index: int, now: float, network: str = "") -> core_v1.Node:
    """A node as its kubelet registers it, with a network for its pods that is its own by its index, if none is given."""
    name = node_name(settings, index)
    zone = f"zone-{'abcdefghijklmnopqrstuvwxyz'[index % max(settings.zones, 1) % 26]}"
    labels = {
        "kubernetes.io/hostname": name,
        **MACHINE_LABELS,
        **zone_labels(settings.labels.get(ZONE, zone)),
        **settings.labels,
    }
    network = network or f"{pod_network(index)}.0/24"
    return core_v1.Node(
        metadata=meta_v1.ObjectMeta(name=name, labels=labels, annotations={SIMULATED: "true", MANAGED_ATTACH: "true"}),
        spec=core_v1.NodeSpec(pod_cidr=network, pod_cidrs=(network,), provider_id=f"bayplan://{name}"),
        status=node_status(settings, name, index, now),
    )


def node_status(
    settings: SimulatorSettings, name: str, index: int, now: float, capacity: Mapping[str, Any] | None = None
) -> core_v1.NodeStatus:
    """The status of a healthy node; `capacity` of one that is of another shape than most. Where nodes have stages it has the phase by which kwok's know a node
    that runs, which kubelets write no more."""
    offered = dict(capacity or settings.capacity)
    stamp = rfc3339(now)
    conditions = tuple(
        core_v1.NodeCondition(
            type=kind,
            status=status,
            reason=reason,
            message=message,
            last_heartbeat_time=stamp,
            last_transition_time=stamp,
        )
        for kind, status, reason, message in HEALTHY
    )
    return core_v1.NodeStatus(
        capacity=offered,
        allocatable=dict(offered),
        conditions=conditions,
        phase="Running" if settings.has_node_stages else "",
        addresses=(
            core_v1.NodeAddress(type="InternalIP", address=node_address(index)),
            core_v1.NodeAddress(type="Hostname", address=name),
        ),
        declared_features=DECLARED,
        node_info=core_v1.NodeSystemInfo(
            machine_id=name,
            system_uuid=name,
            boot_id=name,
            kernel_version="0.0.0-simulated",
            os_image="Bayplan simulated node",
            container_runtime_version="bayplan://simulated",
            kubelet_version=f"v{KUBERNETES_VERSION}",
            kube_proxy_version="",
            operating_system="linux",
            architecture="amd64",
        ),
    )


def make_lease(node: core_v1.Node, now: float, seconds: int = USUAL_LEASE) -> coordination_v1.Lease:
    """The lease that shows that a node lives, and says that it will for so many seconds."""
    name = node.metadata.name
    owner = meta_v1.OwnerReference(api_version="v1", kind="Node", name=name, uid=node.metadata.uid)
    return coordination_v1.Lease(
        metadata=meta_v1.ObjectMeta(name=name, namespace=LEASE_NAMESPACE, owner_references=(owner,)),
        spec=coordination_v1.LeaseSpec(
            holder_identity=name, lease_duration_seconds=seconds, renew_time=rfc3339_micro(now)
        ),
    )


def renewed(lease: coordination_v1.Lease, now: float, seconds: int = USUAL_LEASE) -> coordination_v1.Lease:
    """The lease of a node that lives now, and says that it will for so many seconds."""
    spec = replace(lease.spec, lease_duration_seconds=seconds, renew_time=rfc3339_micro(now))
    changed: coordination_v1.Lease = replace(lease, spec=spec)
    return changed


def is_silent(node: core_v1.Node) -> bool:
    """Whether a node is to be without contact."""
    return node.metadata.annotations.get(SILENT, "").lower() == "true"


def offer(old: core_v1.Node, new: core_v1.Node) -> dict[str, Quantity | None]:
    """What a kubelet makes allocatable after somebody gave its node extended resources, or took them away (None): all of their capacity, unless the
    same change said how much."""
    before, after = old.status, new.status
    if before.capacity == after.capacity:
        return {}
    touched = {name for name in (*before.capacity, *after.capacity) if is_extended(name)}
    return {
        name: after.capacity.get(name)
        for name in sorted(touched)
        if before.capacity.get(name) != after.capacity.get(name)
        and before.allocatable.get(name) == after.allocatable.get(name) != after.capacity.get(name)
    }


def is_lost(node: core_v1.Node) -> bool:
    """Whether somebody gave the node up for want of a heartbeat."""
    return any(one.type == "Ready" and one.status == "Unknown" for one in node.status.conditions)


def is_erased(node: core_v1.Node) -> bool:
    """Whether somebody erased what the node told about itself, as clients of types do that patch a node's status with one of theirs."""
    return not node.status.node_info.kubelet_version
