"""The status of a node, from facts (pkg/kubelet/nodestatus/setters.go). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from bayplan.api.declared_features import DECLARED
from bayplan.api.quantity import Quantity, binary, parse
from bayplan.api.types import core_v1
from bayplan.api.types.scalars import Quantity as WireQuantity
from bayplan.kubelet.node.machine import Machine
from bayplan.kubelet.runtime.types import Image, RuntimeStatus, RuntimeVersion
from bayplan.support.timestamps import parse_rfc3339

KUBELET_VERSION: Final = "v1.36.2"
MOST_NAMES = 5
"""Names of an image that a status has room for."""
_PRESSURES: Final = {
    "MemoryPressure": ("Memory", "memory available"),
    "DiskPressure": ("Disk", "disk pressure"),
    "PIDPressure": ("PID", "PID available"),
}


@dataclass(frozen=True, slots=True)
class DeviceCapacity:
    """Numbers of devices that plugins offer, by resource; those that are not healthy are not allocatable. `removed` resources are offered no longer."""

    capacity: Mapping[str, int] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a node's status is made of. `disk` and `reserved` are amounts as the API has them."""

    machine: Machine
    hostname: str
    addresses: tuple[str, ...]
    port: int
    most_pods: int
    pods_per_core: int = 0
    disk: int | None = None
    """Bytes of the file system for pods; None where it does not count."""
    reserved: Mapping[str, WireQuantity] = field(default_factory=dict)
    version: RuntimeVersion = RuntimeVersion("containerd", "")  # noqa: RUF009 - frozen
    runtime: RuntimeStatus = RuntimeStatus()  # noqa: RUF009 - frozen
    images: Sequence[Image] = ()
    most_images: int = 50
    errors: tuple[str, ...] = ()
    """Why the node is not ready."""
    pressures: tuple[str, ...] = ()
    volumes_in_use: tuple[str, ...] = ()
    devices: DeviceCapacity = DeviceCapacity()
    features: tuple[str, ...] = DECLARED
    """What the kubelet can do that pods or their changes may need, sorted."""


@dataclass(frozen=True, slots=True)
class StatusChange:
    """A node's new status, and events about it: (type, reason, message)."""

    status: core_v1.NodeStatus
    events: tuple[tuple[str, str, str], ...] = ()


def node_status(node: core_v1.Node, facts: NodeFacts, now: str) -> StatusChange:
    """The status of now. node: as the API shows it; what others wrote there stays. now: RFC 3339."""
    old = node.status
    events: list[tuple[str, str, str]] = []
    capacity = {**old.capacity, **capacity_of(facts)}
    boot = old.node_info.boot_id
    name = node.metadata.name
    if boot and boot != facts.machine.boot_id:
        text = f"Node {name} has been rebooted, boot id: {facts.machine.boot_id}"
        events.append(("Warning", "Rebooted", text))
    conditions, changes = _conditions(old.conditions, facts, capacity, now)
    events += [("Normal", reason, f"Node {name} status is now: {reason}") for reason in changes]
    status: core_v1.NodeStatus = msgspec.structs.replace(
        old,
        capacity=capacity,
        allocatable=allocatable_of(capacity, facts),
        conditions=conditions,
        addresses=addresses_of(facts),
        daemon_endpoints=core_v1.NodeDaemonEndpoints(kubelet_endpoint=core_v1.DaemonEndpoint(port=facts.port)),
        node_info=_info(facts),
        images=_images(facts),
        volumes_in_use=tuple(sorted(facts.volumes_in_use)),
        runtime_handlers=_handlers(facts.runtime),
        declared_features=facts.features,
        features=core_v1.NodeFeatures(supplemental_groups_policy=facts.runtime.supplemental_groups_policy),
    )
    return StatusChange(status, tuple(events))


def capacity_of(facts: NodeFacts) -> dict[str, WireQuantity]:
    """What the machine has."""
    machine = facts.machine
    pods = facts.most_pods
    if facts.pods_per_core:
        pods = min(pods, facts.pods_per_core * machine.processors)
    capacity: dict[str, WireQuantity] = {
        "cpu": str(machine.processors),
        "memory": binary(machine.memory),
        "pods": str(pods),
    }
    if facts.disk is not None:
        capacity["ephemeral-storage"] = binary(facts.disk)
    for size, number in machine.hugepages.items():
        capacity[f"hugepages-{page_size(size)}"] = binary(size * number)
    capacity.update(dict.fromkeys(facts.devices.removed, "0"))
    capacity.update({name: str(number) for name, number in facts.devices.capacity.items()})
    return capacity


def page_size(size: int) -> str:
    """The size of a huge page as resources are named by it: 2Mi, 1Gi."""
    return f"{size >> 30}Gi" if size >= 1 << 30 else f"{size >> 20}Mi" if size >= 1 << 20 else f"{size >> 10}Ki"


def allocatable_of(capacity: Mapping[str, WireQuantity], facts: NodeFacts) -> dict[str, WireQuantity]:
    """What pods may have: all but what is reserved, for the system and for evictions; huge pages are no memory for others."""
    result: dict[str, WireQuantity] = {}
    for name, amount in capacity.items():
        left = parse(amount)
        if name in facts.reserved:
            left = left.sub(parse(facts.reserved[name]))
        result[name] = amount if name not in facts.reserved else _shown(name, left)
    pages = [parse(amount) for name, amount in capacity.items() if name.startswith("hugepages-")]
    taken = sum(each.value() for each in pages)
    if taken:
        result["memory"] = _shown("memory", parse(result["memory"]).sub(Quantity(taken)))
    result.update({name: str(number) for name, number in facts.devices.allocatable.items()})
    return result


def _shown(name: str, amount: Quantity) -> str:
    """An amount that is left, in the units that kubelet uses; never negative."""
    if amount.sign() <= 0:
        return "0"
    return str(amount) if name == "cpu" else binary(amount.value())


def addresses_of(facts: NodeFacts) -> tuple[core_v1.NodeAddress, ...]:
    """Addresses, then the host name."""
    ips = tuple(core_v1.NodeAddress(type="InternalIP", address=each) for each in facts.addresses)
    return (*ips, core_v1.NodeAddress(type="Hostname", address=facts.hostname))


def _info(facts: NodeFacts) -> core_v1.NodeSystemInfo:
    machine = facts.machine
    return core_v1.NodeSystemInfo(
        machine_id=machine.machine_id,
        system_uuid=machine.system_uuid,
        boot_id=machine.boot_id,
        kernel_version=machine.kernel_version,
        os_image=machine.os_image,
        container_runtime_version=f"{facts.version.name}://{facts.version.version}",
        kubelet_version=KUBELET_VERSION,
        kube_proxy_version="",
        operating_system="linux",
        architecture=machine.architecture,
        swap=core_v1.NodeSwapStatus(capacity=machine.swap) if machine.swap else None,
    )


def _images(facts: NodeFacts) -> tuple[core_v1.ContainerImage, ...]:
    """The largest images."""
    ordered = sorted(facts.images, key=lambda each: each.size, reverse=True)
    if facts.most_images >= 0:
        ordered = ordered[: facts.most_images]
    return tuple(
        core_v1.ContainerImage(names=(*each.digests, *each.tags)[:MOST_NAMES], size_bytes=each.size)
        for each in ordered
        if each.digests or each.tags
    )


def _handlers(runtime: RuntimeStatus) -> tuple[core_v1.NodeRuntimeHandler, ...]:
    return tuple(
        core_v1.NodeRuntimeHandler(
            name=each.name,
            features=core_v1.NodeRuntimeHandlerFeatures(
                recursive_read_only_mounts=each.recursive_read_only_mounts, user_namespaces=each.user_namespaces
            ),
        )
        for each in sorted(runtime.handlers, key=lambda handler: handler.name)
    )


def _conditions(
    old: Iterable[core_v1.NodeCondition], facts: NodeFacts, capacity: Mapping[str, WireQuantity], now: str
) -> tuple[tuple[core_v1.NodeCondition, ...], list[str]]:
    """The conditions with those that others wrote, and the words for those that changed."""
    known = {each.type: each for each in old}
    changes: list[str] = []
    for name in _PRESSURES:
        value = name in facts.pressures
        reason, message = pressure_words(name, value)
        changed = _changed(known, name, "True" if value else "False", reason, message, now)
        if changed:
            changes.append(f"NodeHas{reason.removeprefix('KubeletHas')}")
    errors = list(facts.errors)
    missing = [each for each in ("cpu", "memory", "pods") if each not in capacity]
    if missing:
        errors.append(f"missing node capacity for resources: {', '.join(missing)}")
    text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]" if errors else ""
    before = known.get("Ready")
    ready = (
        _changed(known, "Ready", "False", "KubeletNotReady", text, now)
        if errors
        else _changed(known, "Ready", "True", "KubeletReady", "kubelet is posting ready status", now)
    )
    if ready and before is not None:
        changes.append("NodeNotReady" if errors else "NodeReady")
    last = known.pop("Ready")  # Ready is the last one, which old clients expect
    return (*known.values(), last), changes


def pressure_words(name: str, value: bool) -> tuple[str, str]:
    """(reason, message) of a condition such as MemoryPressure."""
    word, what = _PRESSURES[name]
    if name == "DiskPressure":
        reason = "KubeletHasDiskPressure" if value else "KubeletHasNoDiskPressure"
        return reason, f"kubelet has {'' if value else 'no '}{what}"
    amount = "insufficient" if value else "sufficient"
    return f"KubeletHas{amount.capitalize()}{word}", f"kubelet has {amount} {what}"


def _changed(
    known: dict[str, core_v1.NodeCondition], name: str, status: str, reason: str, message: str, now: str
) -> bool:
    """Set a condition; whether its status is another one than before."""
    old = known.get(name)
    same = old is not None and old.status == status
    since = old.last_transition_time if old is not None and same else now
    known[name] = core_v1.NodeCondition(
        type=name,
        status=status,
        reason=reason,
        message=message,
        last_heartbeat_time=now,
        last_transition_time=since,
    )
    return not same


def has_changed(old: core_v1.NodeStatus, new: core_v1.NodeStatus) -> bool:
    """Whether a status differs in more than the times of its heartbeats."""
    return _without_heartbeats(old) != _without_heartbeats(new)


def _without_heartbeats(status: core_v1.NodeStatus) -> core_v1.NodeStatus:
    conditions = sorted(
        (msgspec.structs.replace(each, last_heartbeat_time=None) for each in status.conditions),
        key=lambda each: each.type,
    )
    plain: core_v1.NodeStatus = msgspec.structs.replace(status, conditions=tuple(conditions))
    return plain


def seconds_since_heartbeat(status: core_v1.NodeStatus, now: float) -> float:
    """Seconds since the status was written last; infinite if it never was."""
    ready = next((each for each in status.conditions if each.type == "Ready"), None)
    if ready is None or not ready.last_heartbeat_time:
        return float("inf")
    return now - parse_rfc3339(ready.last_heartbeat_time)
