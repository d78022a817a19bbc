"""Groups of simulated nodes that come and go with demand: what a user says of them, and the nodes that they make.

    name=web,min=1,max=10,cpu=4,memory=16Gi,label=disk=ssd,taint=dedicated=web:NoSchedule,provision=30s

A node of a group is an object like any other: it is there at once, becomes ready when `bayplan.dev/ready-at` has come, and the simulator plays it from then on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bayplan.api.declared_features import DECLARED
from bayplan.api.nodes import GROUP_LABEL, SIMULATED
from bayplan.api.quantity import parse
from bayplan.api.types import core_v1, meta_v1
from bayplan.kubelet.simulator.durations import parse_seconds
from bayplan.kubelet.simulator.nodes.objects import MACHINE_LABELS, MANAGED_ATTACH, ZONE, zone_labels
from bayplan.support.timestamps import parse_rfc3339, rfc3339

READY_AT = "bayplan.dev/ready-at"
"""Annotation of nodes that are being made: when they will be ready."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_DEFAULTS = {"cpu": "4", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
_FORM = "name=web,min=0,max=10,cpu=4,memory=16Gi[,label=key=value][,taint=key=value:Effect][,provision=SECONDS]"
_ZONES = 3
_NOT_READY = "KubeletNotReady"
"""Reason of a node that has just registered, as a kubelet gives it: without a condition the node would count as fine."""


class NodeGroupSettingError(ValueError):
    """A group is not described as it should be; the message says what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroupSettings:
    """Nodes of one shape."""

    name: str
    """Also the beginning of the names of its nodes."""
    minimum: int = 0
    """Nodes that are always there."""
    maximum: int
    capacity: Mapping[str, str] = field(default_factory=lambda: dict(_DEFAULTS))
    """Capacity of each node; all of it is allocatable."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[core_v1.Taint, ...] = ()
    provision_seconds: float = 1.0
    """From the moment a node is asked for until it is ready."""


def parse_groups(texts: Iterable[str]) -> tuple[NodeGroupSettings, ...]:
    """Groups as users write them, all with names of their own. Raises NodeGroupSettingError."""
    found: dict[str, NodeGroupSettings] = {}
    for text in texts:
        group = parse_group(text)
        if group.name in found:
            raise NodeGroupSettingError(f"there are two groups of the name {group.name}")
        found[group.name] = group
    return tuple(found.values())


def parse_group(text: str) -> NodeGroupSettings:
    """A group as users write it. Raises NodeGroupSettingError."""
    values: dict[str, str] = {}
    labels: dict[str, str] = {}
    taints: list[core_v1.Taint] = []
    for part in filter(None, (one.strip() for one in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals:
            raise NodeGroupSettingError(f"{part!r} is not of the form key=value; expected {_FORM}")
        if key == "label":
            name, _, content = value.partition("=")
            labels[name] = content
        elif key == "taint":
            taints.append(_taint(value))
        elif key in values:
            raise NodeGroupSettingError(f"{key} is given twice")
        else:
            values[key] = value
    name = values.pop("name", "")
    if not _NAME.fullmatch(name):
        raise NodeGroupSettingError(f"name: {name!r} is no name for nodes; expected {_FORM}")
    minimum, maximum = _count(values, "min", 0), _count(values, "max", -1)
    if maximum < 0 or maximum < minimum:
        raise NodeGroupSettingError(f"group {name}: max must be given and not be less than min")
    provision = _seconds(values.pop("provision", "1"))
    return NodeGroupSettings(
        name=name,
        minimum=minimum,
        maximum=maximum,
        capacity={**_DEFAULTS, **_amounts(values)},
        labels=labels,
        taints=tuple(taints),
        provision_seconds=provision,
    )


def _count(values: dict[str, str], key: str, default: int) -> int:
    text = values.pop(key, str(default))
    try:
        return int(text)
    except ValueError as error:
        raise NodeGroupSettingError(f"{key}: {text!r} is no number") from error


def _seconds(text: str) -> float:
    try:
        return parse_seconds(text)
    except ValueError as error:
        raise NodeGroupSettingError(f"provision: {error}") from error


def _taint(text: str) -> core_v1.Taint:
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    if not key or effect not in _EFFECTS:
        raise NodeGroupSettingError(f"taint: {text!r} is not of the form key=value:Effect, with {', '.join(_EFFECTS)}")
    return core_v1.Taint(key=key, value=value, effect=effect)


def _amounts(values: Mapping[str, str]) -> dict[str, str]:
    for resource, amount in values.items():
        if resource not in _DEFAULTS and "/" not in resource:
            raise NodeGroupSettingError(f"{resource} is not known; expected {_FORM}")
        try:
            parse(amount)
        except ValueError as error:
            raise NodeGroupSettingError(f"{resource}: {error}") from error
    return dict(values)


def template_node(group: NodeGroupSettings) -> core_v1.Node:
    """A node of the group as it will be when it is ready."""
    labels = {**MACHINE_LABELS, **group.labels, GROUP_LABEL: group.name}
    return core_v1.Node(
        metadata=meta_v1.ObjectMeta(name=group.name, labels=labels),
        spec=core_v1.NodeSpec(taints=group.taints),
        status=core_v1.NodeStatus(
            capacity=dict(group.capacity),
            allocatable=dict(group.capacity),
            conditions=(core_v1.NodeCondition(type="Ready", status="True"),),
            declared_features=DECLARED,
        ),
    )


def make_group_node(group: NodeGroupSettings, name: str, number: int, network: str, now: float) -> core_v1.Node:
    """A node that is being made. `number`: of which its zone follows, if the group names none."""
    node = template_node(group)
    zone = f"zone-{'abcdefghijklmnopqrstuvwxyz'[number % _ZONES]}"
    node.metadata.name = name
    node.metadata.labels = {
        **zone_labels(node.metadata.labels.get(ZONE, zone)),
        **node.metadata.labels,
        "kubernetes.io/hostname": name,
    }
    ready_at = rfc3339(now + group.provision_seconds)
    node.metadata.annotations = {SIMULATED: "true", MANAGED_ATTACH: "true", READY_AT: ready_at}
    node.spec.provider_id = f"bayplan://{name}"
    node.spec.pod_cidr, node.spec.pod_cidrs = network, (network,)
    stamp = rfc3339(now)
    node.status.conditions = (
        core_v1.NodeCondition(
            type="Ready",
            status="False",
            reason=_NOT_READY,
            message="the machine is being made",
            last_heartbeat_time=stamp,
            last_transition_time=stamp,
        ),
    )
    return node


def is_new(node: core_v1.Node) -> bool:
    """Whether a node has not reported itself since it was created."""
    ready = next((one for one in node.status.conditions if one.type == "Ready"), None)
    return ready is None or (ready.status == "False" and ready.reason == _NOT_READY)


def seconds_to_ready(node: core_v1.Node, now: float) -> float:
    """How long a node is still being made; not above 0 if it is not. A time that cannot be read counts as past."""
    try:
        return parse_rfc3339(node.metadata.annotations[READY_AT]) - now
    except (KeyError, ValueError):
        return 0.0
