"""The end of real nodes: whatever runs, is mounted or was made for them goes, also what a killed run has left."""

from __future__ import annotations

import logging
import shutil
import signal
from pathlib import Path

from bayplan.cluster.errors import RealNodeError
from bayplan.cluster.real_nodes.cni_results import remove_results
from bayplan.cluster.real_nodes.commands import run
from bayplan.cluster.real_nodes.network import remove_network
from bayplan.cluster.real_nodes.processes import processes_with
from bayplan.cluster.real_nodes.settings import RealNodeSettings
from bayplan.csi_local.loop_devices import LoopDevices
from bayplan.kubelet.cgroups.errors import CgroupError
from bayplan.kubelet.cgroups.hierarchies import Hierarchies
from bayplan.kubelet.cgroups.mounts import find_mounts
from bayplan.kubelet.cgroups.pods import kill_and_remove
from bayplan.support.clock import Clock
from bayplan.support.system.process_ids import ProcessId, end, read_pid_file

logger = logging.getLogger(__name__)

_KILL_SECONDS = 5.0


async def remove_leftovers(settings: RealNodeSettings, clock: Clock) -> None:
    """Remove all that runs for the nodes of these settings, and what it has made outside of their directory. What is not there is removed.

    First all processes of nodes, so that nothing is made anew; then containers with their shims; then mounts, networks, sockets. Raises RealNodeError.
    """
    await _kill(recorded_processes(settings), clock)
    await _kill(list(processes_with(("containerd-shim",), str(settings.state))), clock)
    try:
        hierarchies = Hierarchies(find_mounts())
        await kill_and_remove(hierarchies, settings.cgroup, clock)
    except CgroupError as error:
        raise RealNodeError(f"cgroups of real nodes are left: {error}") from error
    devices = LoopDevices().below(settings.directory)  # without the mounts, the kernel tells other paths
    await unmount_all(settings.directory, settings.state)
    for device in devices:
        await run("losetup", "--detach", str(device))
    await remove_network(settings)
    remove_results(settings.state)
    if settings.state.exists():
        shutil.rmtree(settings.state)


def _mountinfo() -> str:
    return Path("/proc/self/mountinfo").read_text()


def recorded_processes(settings: RealNodeSettings) -> list[ProcessId]:
    """Processes of pid files that still run."""
    found = [read_pid_file(path) for pattern in ("*.pid", "*/*.pid") for path in settings.state.glob(pattern)]
    return [each for each in found if each is not None]


async def _kill(processes: list[ProcessId], clock: Clock) -> None:
    if processes:
        logger.warning("processes of an earlier run are killed: %s", [each.pid for each in processes])
    left = await end(processes, clock, signal.SIGKILL, _KILL_SECONDS)
    if left:
        raise RealNodeError(f"processes of real nodes do not end: {[each.pid for each in left]}")


async def unmount_all(*directories: Path) -> None:
    """Unmount what is mounted at and below directories. Raises ProgramError."""
    while paths := mounts_below(
        _mountinfo(), *directories
    ):  # anew each time: with a mount that is shared, its copies go
        await run("umount", "--lazy", paths[0])


def mounts_below(mountinfo: str, *directories: Path) -> list[str]:
    """Mount points at and below directories, in the text of /proc/self/mountinfo; the innermost and the latest first."""
    paths = [line.split(" ")[4].encode().decode("unicode_escape") for line in mountinfo.splitlines()]
    wanted = [
        path
        for path in paths
        if any(path == str(directory) or path.startswith(f"{directory}/") for directory in directories)
    ]
    wanted.reverse()
    wanted.sort(key=lambda path: path.count("/"), reverse=True)
    return wanted
