"""Orphans of a containerd that was killed: what it had made for pods before it recorded them, and the next one does not know.

A containerd that dies while it makes or removes a pod leaves a shim with the pod's processes, a pinned network namespace and an address that is taken. The next one
reads its records, drops the files of what it cannot reach, and lets the rest be. Here that rest is found and removed, by what the next containerd lists.

What it had started to make a pod with goes on for a moment: the program that starts a shim, and network plugins. These are ended at once, since what they make
after the next containerd has been started would look like its own.

Two things keep what is in the making alive: shims count only if they were started before the containerd that answers, and namespaces and addresses only if they
were there before it was started.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import signal
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bayplan.cluster.errors import RealNodeError
from bayplan.cluster.real_nodes.commands import run
from bayplan.cluster.real_nodes.processes import processes_with
from bayplan.cluster.real_nodes.settings import NodePlace
from bayplan.kubelet.runtime.cri import CriRuntime
from bayplan.kubelet.runtime.errors import NotFoundError, RuntimeRequestError
from bayplan.support.clock import Clock
from bayplan.support.system.process_ids import ProcessId, end, process_id, read_pid_file

logger = logging.getLogger(__name__)

_ANSWER_SECONDS = 60.0
"""How long the next containerd may take to list its sandboxes."""
_ABANDONED_SECONDS = 30.0
"""Between two looks for shims that the containerd of now has forgotten."""
_KILL_SECONDS = 10.0
_LOOK_SECONDS = 0.05
_FIRST_DELAY, _LONGEST_DELAY = 1.0, 20.0
"""Seconds between two looks, while there is something that containerd may still forget."""


@dataclass(frozen=True, slots=True)
class Shim:
    """A shim, and what it was started for: the sandbox whose containers it runs, or a container of its own."""

    process: ProcessId
    id: str


@dataclass(frozen=True, slots=True)
class Remains:
    """What there was of a node's pods when no containerd of it ran.

    namespaces: files that pin network namespaces. addresses: files of addresses that are taken -> the sandbox that has taken it.
    """

    namespaces: frozenset[Path]
    addresses: Mapping[Path, str]


@dataclass(frozen=True, slots=True)
class Known:
    """What a containerd lists.

    ids: sandboxes and containers. namespaces: files of the sandboxes' network namespaces. started: when it was, in clock ticks since the machine was.
    """

    ids: frozenset[str]
    namespaces: frozenset[Path]
    started: int


def orphaned_shims(shims: Iterable[Shim], known: Known) -> list[Shim]:
    """Shims of an earlier containerd that the present one does not know. Pure."""
    return [each for each in shims if each.process.started < known.started and each.id not in known.ids]


def abandoned_shims(now: Iterable[Shim], before: Collection[Shim], ids: Collection[str]) -> list[Shim]:
    """Shims without a bundle that had none before either, and of which containerd lists (`ids`) nothing. Pure."""
    return [each for each in now if each in before and each.id not in ids]


def orphaned_namespaces(
    remains: Remains, known: Known, inodes: Mapping[Path, int], used: Collection[int]
) -> list[Path]:
    """Files of network namespaces that no sandbox has and no process is in. Pure.

    inodes: of the namespaces that the files pin, for files that are still there. used: inodes of the namespaces that processes are in.
    """
    files = remains.namespaces - known.namespaces
    return sorted(each for each in files if each in inodes and inodes[each] not in used)


def orphaned_addresses(remains: Remains, known: Known, now: Mapping[Path, str]) -> list[Path]:
    """Files of addresses that unknown sandboxes took, and still have `now`. Pure."""
    return sorted(
        file for file, taken_by in remains.addresses.items() if taken_by not in known.ids and now.get(file) == taken_by
    )


def remains_of_before(before: Remains, now: Remains) -> Remains:
    """What was there before and still is. Pure."""
    addresses = {file: taken_by for file, taken_by in before.addresses.items() if now.addresses.get(file) == taken_by}
    return Remains(before.namespaces & now.namespaces, addresses)


def read_remains(place: NodePlace) -> Remains:
    """What there is now. Raises OSError."""
    return Remains(frozenset(namespace_files(place)), _addresses(place))


def namespace_files(place: NodePlace) -> list[Path]:
    """Files that pin the network namespaces of a node's pods."""
    return sorted((place.state / "state/io.containerd.grpc.v1.cri/netns").glob("cni-*"))


def _addresses(place: NodePlace) -> dict[Path, str]:
    """Files of the plugin host-local: one for each address, whose first line is the sandbox that has it. IPv6 addresses have colons; `last_reserved_ip.0` and `lock`
    are none."""
    found = {}
    directory = place.state / "addresses"
    for file in (*directory.glob("*/*.*.*.*"), *directory.glob("*/*:*")):
        try:
            found[file] = file.read_text().partition("\n")[0].strip()
        except FileNotFoundError:
            continue
    return found


def shims_of(place: NodePlace) -> list[Shim]:
    """Shims of a node that run."""
    found = []
    for process in processes_with(("containerd-shim",), f"{place.state}/"):
        try:
            words = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if shim_id(words):
            found.append(Shim(process, shim_id(words)))
    return found


def shim_id(words: Sequence[str]) -> str:
    """The `-id` of a shim's command line; empty for none.

    >>> shim_id(["containerd-shim-runc-v2", "-namespace", "k8s.io", "-id", "5d0f", "-address", "/run/containerd.sock"])
    '5d0f'
    """
    return next((value for name, value in itertools.pairwise(words) if name == "-id"), "")


def end_helpers(place: NodePlace) -> None:
    """Kill the programs with which a containerd that has just ended was making pods: those that start shims, and network plugins."""
    starters = [
        each.pid for each in processes_with(("containerd-shim",), f"{place.state}/") if _starts_a_shim(each.pid)
    ]
    for pid in (*starters, *_network_plugins(place)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _starts_a_shim(pid: int) -> bool:
    """Whether a process is `containerd-shim-... start`, which makes a shim of its own and ends."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").endswith(b"\0start")
    except (FileNotFoundError, ProcessLookupError):
        return False


def _network_plugins(place: NodePlace) -> Iterator[int]:
    """Processes that make or remove a network of a pod of this node, by the variables of the Container Network Interface."""
    begin = f"CNI_NETNS={place.state}/".encode()
    for pid in _pids():
        try:
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended, or is not ours to look at
        if any(each.startswith(begin) for each in variables):
            yield pid


async def remove_orphans(place: NodePlace, runtime: CriRuntime, remains: Remains, clock: Clock) -> None:
    """Remove what the node's containerd does not know, as soon as it answers and whenever it has forgotten more of what was there before it; returns when nothing of
    that is left. Raises RealNodeError, RuntimeRequestError, OSError.

    It forgets pods after a while: one of which it has a record, but no way to the shim, is listed until the kubelet removes it, and its shim runs on.
    """
    known = await _wait_known(place, runtime, clock)
    shims = [each for each in shims_of(place) if each.process.started < known.started]
    delay = _FIRST_DELAY
    while True:
        await _remove(place, shims, remains, known, clock)
        shims = [each for each in shims if process_id(each.process.pid) == each.process]
        remains = remains_of_before(remains, read_remains(place))
        if not shims and not remains.namespaces and not remains.addresses:
            return
        await clock.sleep(delay)
        delay = min(delay * 2, _LONGEST_DELAY)
        known = await _wait_known(place, runtime, clock)


async def remove_abandoned(place: NodePlace, runtime: CriRuntime, clock: Clock) -> None:
    """Kill shims that the node's containerd has given up, until cancelled: where whoever asked for a pod was killed meanwhile, containerd may remove the bundle of a
    shim that starts, and forgets the shim. It runs in a directory that is gone then. One that is ending does so for a moment only.
    """
    before: frozenset[Shim] = frozenset()
    while True:
        await clock.sleep(_ABANDONED_SECONDS)
        now = frozenset(each for each in shims_of(place) if _has_no_bundle(each.process.pid))
        try:
            if now & before:
                await _kill_abandoned(place, now, before, await _wait_known(place, runtime, clock), clock)
        except (RealNodeError, RuntimeRequestError, OSError) as error:
            logger.warning("%s: shims that containerd has forgotten are left: %s", place.name, error)
        before = now


async def _kill_abandoned(
    place: NodePlace, now: Collection[Shim], before: Collection[Shim], known: Known, clock: Clock
) -> None:
    lost = abandoned_shims(now, before, known.ids)
    await asyncio.gather(*(_kill(each, clock) for each in lost))
    if lost:
        logger.warning("%s: %d shims that containerd had forgotten are removed", place.name, len(lost))


def _has_no_bundle(pid: int) -> bool:
    """Whether the directory that a shim was started in, its bundle, is gone."""
    try:
        return os.readlink(f"/proc/{pid}/cwd").endswith(" (deleted)")
    except (FileNotFoundError, ProcessLookupError):
        return False


async def _remove(place: NodePlace, shims: list[Shim], remains: Remains, known: Known, clock: Clock) -> None:
    lost = orphaned_shims(shims, known)
    await asyncio.gather(*(_kill(each, clock) for each in lost))
    namespaces = orphaned_namespaces(remains, known, _inodes(remains.namespaces), _used_namespaces())
    for file in namespaces:
        if _is_pinned(file):
            await run("umount", "--lazy", str(file))
        _unlink(file)
    # After the namespaces: an address is free once no interface has it.
    addresses = orphaned_addresses(remains, known, _addresses(place))
    for file in addresses:
        _unlink(file)
    if lost or namespaces or addresses:
        text = "%s: containerd was killed while it made or removed pods: %d shims, %d network namespaces and %d addresses of them are removed"
        logger.warning(text, place.name, len(lost), len(namespaces), len(addresses))


async def _wait_known(place: NodePlace, runtime: CriRuntime, clock: Clock) -> Known:
    until = clock.monotonic() + _ANSWER_SECONDS
    while True:
        # First who answers, then what it says: if it is replaced in between, fewer shims count.
        process = read_pid_file(place.state / "containerd.pid")
        try:
            if process is not None:
                return await _known(runtime, process.started)
        except RuntimeRequestError:
            if clock.monotonic() >= until:
                raise
        if clock.monotonic() >= until:
            raise RealNodeError(f"{place.name}: containerd is not started again within {_ANSWER_SECONDS:g} s")
        await clock.sleep(_LOOK_SECONDS)


async def _known(runtime: CriRuntime, started: int) -> Known:
    sandboxes = [each.id for each in await runtime.sandboxes()]
    containers = [each.id for each in await runtime.containers()]
    namespaces = set()
    for each in sandboxes:
        try:
            namespaces.add(Path(await runtime.sandbox_network_namespace(each)))
        except NotFoundError:
            continue  # it has just been removed
    return Known(frozenset((*sandboxes, *containers)), frozenset(namespaces), started)


async def _kill(shim: Shim, clock: Clock) -> None:
    """Kill a shim and all processes below it. Raises RealNodeError if they do not end.

    The shim goes last: while it runs, it is the parent of whatever its processes leave behind.
    """
    until = clock.monotonic() + _KILL_SECONDS
    while below := _descendants(shim.process.pid):
        left = await end(below, clock, signal.SIGKILL, _LOOK_SECONDS)
        if clock.monotonic() >= until:
            raise RealNodeError(f"processes of an unknown pod do not end: {[each.pid for each in left or below]}")
    if await end([shim.process], clock, signal.SIGKILL, _KILL_SECONDS):
        raise RealNodeError(f"the shim of an unknown pod does not end: {shim.process.pid}")


def _descendants(pid: int) -> list[ProcessId]:
    """Processes below one, but for those that have ended already."""
    children: dict[int, list[int]] = {}
    for each in _pids():
        try:
            stat = Path(f"/proc/{each}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(each)
    found, waiting = [], [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        waiting += below
        found += [process for each in below if (process := process_id(each)) is not None]
    return found


def _pids() -> list[int]:
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]


def _used_namespaces() -> set[int]:
    """Inodes of the network namespaces that processes of this machine are in. Processes that may not be looked at, as may be the first, are not of pods."""
    found = set()
    for pid in _pids():
        try:
            found.add(os.stat(f"/proc/{pid}/ns/net").st_ino)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


def _inodes(files: Iterable[Path]) -> dict[Path, int]:
    """File -> the namespace that it pins, or 0 for one that pins none."""
    found = {}
    for file in files:
        try:
            found[file] = file.stat().st_ino if _is_pinned(file) else 0
        except FileNotFoundError:
            continue
    return found


def _is_pinned(file: Path) -> bool:
    """Whether something is mounted on a file. Raises FileNotFoundError."""
    return file.stat().st_dev != file.parent.stat().st_dev


def _unlink(file: Path) -> None:
    file.unlink(missing_ok=True)
