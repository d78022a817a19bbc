"""What pods and the node use, as far as evictions and statistics depend on it. Memory and disk are bytes; None where nothing is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """Space and inodes that something takes."""

    used_bytes: int = 0
    inodes: int = 0


@dataclass(frozen=True, slots=True)
class Filesystem:
    """Space and inodes of a file system."""

    available_bytes: int
    capacity_bytes: int
    inodes_free: int
    inodes: int


@dataclass(frozen=True, slots=True)
class ContainerUsage:
    """Usage of one container. `cpu_nanoseconds` only grows."""

    memory: int | None = None
    cpu_nanoseconds: int | None = None
    root: DiskUsage | None = None
    logs: DiskUsage | None = None


@dataclass(frozen=True, slots=True)
class PodUsage:
    """Usage of one pod. `volumes` are those that count as ephemeral storage, by name; `memory` is the working set."""

    memory: int | None = None
    cpu_nanoseconds: int | None = None
    processes: int | None = None
    containers: Mapping[str, ContainerUsage] = field(default_factory=dict)
    volumes: Mapping[str, DiskUsage] = field(default_factory=dict)

    def disk(self, *, roots: bool, logs: bool, volumes: bool) -> DiskUsage:
        """What the named kinds of storage take together."""
        parts: list[DiskUsage] = []
        for each in self.containers.values():
            if roots and each.root is not None:
                parts.append(each.root)
            if logs and each.logs is not None:
                parts.append(each.logs)
        if volumes:
            parts += self.volumes.values()
        return DiskUsage(sum(each.used_bytes for each in parts), sum(each.inodes for each in parts))


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """Usage of the node: `memory_available` is what could still be used without reclaiming what is in use."""

    memory_available: int
    memory_capacity: int
    node_filesystem: Filesystem
    image_filesystem: Filesystem | None = None
    """None where images are on the node's own file system."""
    processes: int | None = None
    processes_most: int | None = None
    pods_memory_available: int | None = None
    """What pods may use besides what they do; None where they are not limited together."""
    pods_memory_capacity: int | None = None
