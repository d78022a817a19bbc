"""What a device plugin is asked, and what it answers (v1beta1.DevicePlugin), as data."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field

from bayplan.kubelet.runtime.types import Device, Mount

HEALTHY = "Healthy"


@dataclass(frozen=True, slots=True)
class PluginDevice:
    """One device that a plugin offers; `numa_nodes` are those near to it, none where it does not matter."""

    id: str
    health: str = HEALTHY
    numa_nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PluginOptions:
    """What a plugin wants to be called for."""

    pre_start_required: bool = False
    preferred_allocation_available: bool = False


@dataclass(frozen=True, slots=True)
class PreferredAllocation:
    """Which `size` devices of those that are available, with all that must be included, does the plugin prefer?"""

    resource: str
    available: tuple[str, ...]
    must_include: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True)
class Allocate:
    """A container gets these devices: what does it need for them?"""

    resource: str
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PreStart:
    """A container with these devices is about to start: they are to be made ready, such as reset."""

    resource: str
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Allocated:
    """What a container needs for its devices. `response` is the plugin's message as it came, for the checkpoint."""

    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    devices: tuple[Device, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()
    response: bytes = b""


PluginCall = PreferredAllocation | Allocate | PreStart
PluginReply = tuple[str, ...] | Allocated
"""The devices that a plugin prefers, or what it has allocated; nothing of interest for PreStart."""
Steps = Generator[PluginCall, PluginReply, None]
"""Work that may have to ask plugins: it yields a question and is sent the answer, or PluginError is thrown into it."""
