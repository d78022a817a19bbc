"""Where the hierarchies of cgroups are mounted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bayplan.kubelet.cgroups.errors import CgroupError

_NEEDED = ("cpu", "cpuacct", "cpuset", "memory", "pids")
"""Controllers without which a kubelet does not work; of version 2, cpu and cpuacct are one."""


@dataclass(frozen=True, slots=True)
class CgroupMounts:
    """Controllers of version 1 by name -> where they are mounted (name=systemd for a hierarchy without one), and where version 2 is mounted, if at all.

    Where there are controllers of version 1, version 2 has none that matter (hybrid): directories are made and removed in it all the same, as runtimes may use it.
    """

    controllers: Mapping[str, Path] = field(default_factory=dict)
    unified: Path | None = None

    @property
    def is_unified(self) -> bool:
        """Whether version 2 has the controllers."""
        return "memory" not in self.controllers and self.unified is not None


def parse_mounts(mountinfo: str) -> CgroupMounts:
    """The hierarchies in the text of /proc/self/mountinfo; of several mounts of one the shortest path. Raises CgroupError where controllers are missing."""
    controllers: dict[str, Path] = {}
    unified: Path | None = None
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        if not after or len(before.split(" ")) < 6:
            continue
        kind, _, options = after.split(" ")[:3]
        path = Path(before.split(" ")[4].encode().decode("unicode_escape"))
        if kind == "cgroup2":
            unified = _shorter(unified, path)
        elif kind == "cgroup":
            for option in options.split(","):
                if option not in ("rw", "ro", "xattr", "noprefix", "clone_children"):
                    controllers[option] = _shorter(controllers.get(option), path)
    mounts = CgroupMounts(controllers, unified)
    if not mounts.is_unified:
        missing = [name for name in _NEEDED if name not in controllers]
        if missing:
            raise CgroupError(
                f"no cgroup hierarchy is mounted for {', '.join(missing)}: mount cgroup2 at /sys/fs/cgroup, or each of them there"
            )
    return mounts


def _shorter(known: Path | None, path: Path) -> Path:
    return path if known is None or len(str(path)) < len(str(known)) else known


def find_mounts() -> CgroupMounts:
    """The hierarchies of this machine. Raises CgroupError."""
    try:
        return parse_mounts(Path("/proc/self/mountinfo").read_text())
    except OSError as error:
        raise CgroupError(f"/proc/self/mountinfo: {error.strerror or error}") from error
