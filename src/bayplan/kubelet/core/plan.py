"""The parts of a plan for a pod: what is to be started and killed, and why."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from bayplan.kubelet.core.resize import ResizePlan
from bayplan.kubelet.core.restarts import AnyContainer
from bayplan.kubelet.runtime.labels import CONTAINER_HASH
from bayplan.kubelet.runtime.types import ContainerStatus

_REMEMBERED = 1024
"""Hashes that are kept: a node has few names of containers and images, and looks at each container at every step."""


class Health(enum.Enum):
    """What a probe says of a container."""

    UNKNOWN = "Unknown"
    SUCCESS = "Success"
    FAILURE = "Failure"


class KillReason(enum.Enum):
    """Why a container is killed, where that changes how."""

    NONE = ""
    LIVENESS = "LivenessProbe"
    STARTUP = "StartupProbe"
    UNKNOWN = "Unknown"
    RESTART_ALL = "RestartAllContainers"


@dataclass(frozen=True, slots=True)
class Kill:
    """A container that is to be stopped."""

    container_id: str
    name: str
    message: str
    reason: KillReason = KillReason.NONE


@dataclass(frozen=True, slots=True)
class Reset:
    """A container that is to be removed, and killed before that where it runs, because all start anew."""

    container_id: str
    name: str
    kill: bool


@dataclass(frozen=True, slots=True)
class ProbeVerdicts:
    """What probes have found so far, by container id; a container that was not probed yet has no entry."""

    liveness: Mapping[str, Health] = field(default_factory=dict)
    startup: Mapping[str, Health] = field(default_factory=dict)


@dataclass(slots=True)
class PodActions:
    """What is to be done, in this order: kill, reset, make a sandbox, resize, start."""

    kill_pod: bool = False
    create_sandbox: bool = False
    sandbox_id: str = ""
    """The sandbox to use; with `create_sandbox`, the one that is replaced."""
    attempt: int = 0
    init_containers: list[int] = field(default_factory=list)
    containers: list[int] = field(default_factory=list)
    ephemeral_containers: list[int] = field(default_factory=list)
    kills: dict[str, Kill] = field(default_factory=dict)
    resets: list[Reset] = field(default_factory=list)
    resize: ResizePlan = field(default_factory=ResizePlan)


def container_hash(container: AnyContainer) -> str:
    """Changes if, and only if, a running container must be made anew: its name or image has changed (FNV-1, 32 bits, hexadecimal)."""
    return hash_of(container.name, container.image)


@lru_cache(_REMEMBERED)
def hash_of(name: str, image: str) -> str:
    """`container_hash` of a container with this name and image."""
    text = json.dumps({"image": image, "name": name}, separators=(",", ":"), sort_keys=True)
    value = 0x811C9DC5
    for byte in text.encode():
        value = ((value * 0x01000193) & 0xFFFFFFFF) ^ byte
    return f"{value:x}"


def has_changed(container: AnyContainer, status: ContainerStatus) -> bool:
    """Whether a container that exists is not what the spec says any more."""
    known = status.container.annotations.get(CONTAINER_HASH)
    return known is not None and known != container_hash(container)


def resize_kill(container_id: str, name: str) -> Kill:
    """End a container that is to start again with other resources, as its resizePolicy says."""
    return Kill(container_id, name, f"Container {name} resize requires restart")


def unknown_kill(what: str, status: ContainerStatus) -> Kill:
    """Kill what may run or not before it is started again, so that it never runs twice."""
    text = f'{what} is in "unknown" state, try killing it before restart'
    return Kill(status.container.id, status.container.name, text, KillReason.UNKNOWN)
