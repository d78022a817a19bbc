"""What Linux says of this process, under the names that Prometheus' clients give it. Read when somebody looks; nothing on other systems."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Final

from bayplan.support.metrics.instruments import Gauge, Registry

_STAT: Final = Path("/proc/self/stat")
_DESCRIPTORS: Final = Path("/proc/self/fd")
_USER_TICKS, _SYSTEM_TICKS, _VIRTUAL_BYTES, _RESIDENT_PAGES = 11, 12, 20, 21
"""Fields of /proc/self/stat behind the name of the program."""


def measure_process(registry: Registry, started: float) -> None:
    """Add the metrics of this process to a registry. started: its begin in Unix seconds."""
    registry.gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.").labels().set(
        started
    )
    if not _STAT.exists():
        return
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    seconds = registry.counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.").labels()
    resident = registry.gauge("process_resident_memory_bytes", "Resident memory size in bytes.").labels()
    virtual = registry.gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.").labels()
    descriptors = registry.gauge("process_open_fds", "Number of open file descriptors.").labels()
    most = registry.gauge("process_max_fds", "Maximum number of open file descriptors.").labels()
    most.set_function(lambda: float(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
    descriptors.set_function(lambda: float(len(os.listdir(_DESCRIPTORS))))
    virtual.set_function(lambda: float(_stat()[_VIRTUAL_BYTES]))
    resident.set_function(lambda: float(_stat()[_RESIDENT_PAGES] * page))
    spent = Gauge()
    spent.set_function(lambda: (_stat()[_USER_TICKS] + _stat()[_SYSTEM_TICKS]) / ticks)
    registry.on_render(lambda: setattr(seconds, "value", spent.value))


def _stat() -> list[int]:
    """The numbers behind the name of the program, which may hold spaces; letters are 0."""
    return [int(one) if one.lstrip("-").isdigit() else 0 for one in _STAT.read_text().rpartition(")")[2].split()]
