"""What this machine has: processors, memory, file systems, identity. Reads /proc, /sys and /etc; nothing here is remembered."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass, field
from pathlib import Path

from bayplan.kubelet.core.usage import Filesystem

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


@dataclass(frozen=True, slots=True)
class Machine:
    """Amounts in whole processors and bytes; `hugepages` are page size in bytes -> number of pages."""

    processors: int
    memory: int
    swap: int = 0
    hugepages: dict[int, int] = field(default_factory=dict)
    machine_id: str = ""
    system_uuid: str = ""
    boot_id: str = ""
    kernel_version: str = ""
    os_image: str = ""
    architecture: str = "amd64"
    processes_most: int = 32768


def architecture() -> str:
    """The machine's architecture by Go's name."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


CPUS = Path("/sys/devices/system/cpu")


def thermal_throttles(cpus: Path) -> tuple[str, ...]:
    """Where processors tell how hot they are: containers could learn from it what others do, so it is hidden from them."""
    return tuple(str(each) for each in sorted(cpus.glob("cpu[0-9]*/thermal_throttle")))


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""  # machines differ in what they tell; what they do not is shown as empty


def meminfo() -> dict[str, int]:
    """/proc/meminfo in bytes."""
    found = {}
    for line in _text("/proc/meminfo").splitlines():
        match = re.match(r"(\w+(?:\(\w+\))?):\s+(\d+)(?: kB)?", line)
        if match:
            found[match[1]] = int(match[2]) * (1024 if line.endswith("kB") else 1)
    return found


def _hugepages() -> dict[int, int]:
    found = {}
    root = Path("/sys/kernel/mm/hugepages")
    for each in root.glob("hugepages-*kB") if root.is_dir() else ():
        size = int(each.name.removeprefix("hugepages-").removesuffix("kB")) * 1024
        found[size] = int(_text(str(each / "nr_hugepages")) or 0)
    return found


def _os_image() -> str:
    for line in _text("/etc/os-release").splitlines():
        name, _, value = line.partition("=")
        if name == "PRETTY_NAME":
            return value.strip('"')
    return "Unknown"


def read_machine() -> Machine:
    """The machine as it is now."""
    memory = meminfo()
    machine_id = _text("/etc/machine-id") or _text("/var/lib/dbus/machine-id")
    return Machine(
        processors=os.cpu_count() or 1,
        memory=memory.get("MemTotal", 0),
        swap=memory.get("SwapTotal", 0),
        hugepages=_hugepages(),
        machine_id=machine_id,
        system_uuid=_text("/sys/class/dmi/id/product_uuid") or machine_id,
        boot_id=_text("/proc/sys/kernel/random/boot_id"),
        kernel_version=platform.release(),
        os_image=_os_image(),
        architecture=architecture(),
        processes_most=int(_text("/proc/sys/kernel/pid_max") or 32768),
    )


def filesystem(path: Path) -> Filesystem:
    """The file system on which a path is. Raises OSError."""
    found = os.statvfs(path)
    return Filesystem(
        available_bytes=found.f_bavail * found.f_frsize,
        capacity_bytes=found.f_blocks * found.f_frsize,
        inodes_free=found.f_ffree,
        inodes=found.f_files,
    )
