"""What a node gives one container of what it has only so much of: CPUs, memory near to them, devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bayplan.kubelet.runtime.types import Device, Mount


@dataclass(frozen=True, slots=True)
class ContainerAllocation:
    """`cpus` and `memory_nodes` are lists as the kernel has them, empty for no restriction; the rest is what devices need."""

    cpus: str = ""
    memory_nodes: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    devices: tuple[Device, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()
