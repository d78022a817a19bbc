"""Cgroups as directories and files, in version 1, version 2 or hybrid. Paths begin with a slash, below the mount points."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bayplan.kubelet.cgroups.errors import CgroupError
from bayplan.kubelet.cgroups.mounts import CgroupMounts
from bayplan.kubelet.core.pressure import NO_PRESSURES, Pressures, parse_pressure
from bayplan.kubelet.core.resources import CgroupResources, shares_to_weight

_V2_CONTROLLERS = ("cpu", "cpuset", "memory", "pids", "hugetlb", "io")
"""Controllers that are switched on for the cgroups below."""


@dataclass(frozen=True, slots=True)
class CgroupUsage:
    """What the processes of a cgroup and of those below it use. cpu_nanoseconds only grows; memory is bytes; None where the kernel does not tell.

    `memory_working_set` is what cannot be given back without swapping: all but file pages that nobody has touched lately. `memory_limit` is 0 for none.
    """

    cpu_nanoseconds: int | None = None
    memory_usage: int | None = None
    memory_working_set: int | None = None
    memory_rss: int | None = None
    memory_limit: int = 0
    page_faults: int | None = None
    major_page_faults: int | None = None
    processes: int | None = None
    pressures: Pressures = NO_PRESSURES


class Hierarchies:
    """All cgroups of the machine. Methods raise CgroupError."""

    def __init__(self, mounts: CgroupMounts, *, hugepage_directory: Path = Path("/sys/kernel/mm/hugepages")) -> None:
        self.mounts = mounts
        self.is_unified = mounts.is_unified
        self._roots = list(dict.fromkeys(mounts.controllers.values()))
        if mounts.unified is not None and mounts.unified not in self._roots:
            self._roots.append(mounts.unified)
        self._hugepage_directory = hugepage_directory

    def hugepage_sizes(self) -> list[int]:
        """Sizes of huge pages that the kernel has, in bytes."""
        names = self._hugepage_directory.glob("hugepages-*kB")
        return sorted(int(path.name.removeprefix("hugepages-").removesuffix("kB")) * 1024 for path in names)

    def exists(self, path: str) -> bool:
        """Whether the cgroup is there, in every hierarchy with a controller that is needed."""
        if self.is_unified:
            return self._unified(path).is_dir()
        needed = ("cpu", "cpuacct", "cpuset", "memory", "pids")
        return all(_below(self.mounts.controllers[name], path).is_dir() for name in needed)

    def create(self, path: str, resources: CgroupResources) -> None:
        """Make a cgroup with those above it, and set its limits. One that is there gets the limits."""
        try:
            for root in self._roots:
                if self.is_unified and root == self.mounts.unified:
                    self._delegate(root, path)
                _below(root, path).mkdir(parents=True, exist_ok=True)
            if not self.is_unified:
                self._inherit_cpusets(path)
        except OSError as error:
            raise CgroupError(f"{error.filename}: the cgroup cannot be made: {error.strerror}") from error
        self.update(path, resources)

    def _delegate(self, root: Path, path: str) -> None:
        """Switch controllers on in every cgroup above a path, as version 2 wants it."""
        for directory in [root, *(_below(root, above) for above in _ancestors(path))]:
            directory.mkdir(exist_ok=True)
            offered = (directory / "cgroup.controllers").read_text().split()
            switched = (directory / "cgroup.subtree_control").read_text().split()
            wanted = [f"+{name}" for name in _V2_CONTROLLERS if name in offered and name not in switched]
            if wanted:
                (directory / "cgroup.subtree_control").write_text(" ".join(wanted))

    def _inherit_cpusets(self, path: str) -> None:
        """Give new cgroups of version 1 the cpus of those above them: without any, no process may enter."""
        root = self.mounts.controllers["cpuset"]
        for below in [*_ancestors(path), path]:
            directory = _below(root, below)
            for name in ("cpuset.cpus", "cpuset.mems"):
                if not (directory / name).read_text().strip():
                    (directory / name).write_text((directory.parent / name).read_text())

    def update(self, path: str, resources: CgroupResources) -> None:
        """Set limits; what is None in them stays."""
        for file, content in self._files(resources):
            target = self._file(path, file)
            if target is None:
                continue
            try:
                target.write_text(content)
            except FileNotFoundError as error:
                # A kernel without this controller, or a cgroup that is gone.
                if target.parent.is_dir():
                    continue
                raise CgroupError(f"{target.parent}: there is no such cgroup") from error
            except OSError as error:
                raise CgroupError(f"{target}: {content!r} was refused: {error.strerror}") from error

    def _files(self, resources: CgroupResources) -> Iterator[tuple[str, str]]:
        """(name, content) of the files that set these limits."""
        if self.is_unified:
            yield from _v2_files(resources)
        else:
            yield from _v1_files(resources)
        for size, limit in resources.hugepages.items():
            name = _page_size_name(size)
            content = "max" if self.is_unified and limit >= 1 << 62 else str(limit)
            yield f"hugetlb.{name}.{'max' if self.is_unified else 'limit_in_bytes'}", content

    def _file(self, path: str, file: str) -> Path | None:
        """A file of a cgroup; None where its controller is not mounted."""
        if self.is_unified:
            return self._unified(path) / file
        root = self.mounts.controllers.get(file.partition(".")[0])
        return _below(root, path) / file if root is not None else None

    def _unified(self, path: str) -> Path:
        assert self.mounts.unified is not None
        return _below(self.mounts.unified, path)

    def limits(self, path: str) -> CgroupResources:
        """What it has of cpu and memory: shares (None where they cannot be told exactly), quota in microseconds per period and bytes, -1 and 0 for none."""
        if self.is_unified:
            quota, _, period = self._read(path, "cpu.max").strip().partition(" ")
            return CgroupResources(
                cpu_quota=int(quota) if quota.isdigit() else -1,
                cpu_period=int(period) if period.isdigit() else None,
                memory=self._number(path, "memory.max") or 0,
            )
        text = self._read(path, "cpu.cfs_quota_us").strip()
        memory = self._number(path, "memory.limit_in_bytes") or 0
        return CgroupResources(
            cpu_shares=self._number(path, "cpu.shares"),
            cpu_quota=int(text) if text else -1,
            cpu_period=self._number(path, "cpu.cfs_period_us"),
            memory=0 if memory >= 1 << 62 else memory,
        )

    def children(self, path: str) -> list[str]:
        """Names of the cgroups directly below one, in any hierarchy."""
        names = set()
        for root in self._roots:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                names |= {entry.name for entry in os.scandir(_below(root, path)) if entry.is_dir(follow_symlinks=False)}
        return sorted(names)

    def first_found(self, paths: Sequence[str]) -> str:
        """The first of these cgroups that is there; empty if none is. All are looked for in one hierarchy before the next, of which version 1 has a dozen."""
        found = (path for root in self._roots for path in paths if os.path.isdir(_below(root, path)))
        return next(found, "")

    def any_pid(self, path: str) -> int | None:
        """A process of a cgroup, or of one below it; None if there is none."""
        for directory, _, _ in os.walk(_below(self._roots[0], path)):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError, NotADirectoryError):
                found = [int(line) for line in Path(directory, "cgroup.procs").read_text().split()]
                if any(found):
                    return next(each for each in found if each)
        return None

    def pids(self, path: str) -> set[int]:
        """Processes of a cgroup and of all below it."""
        found: set[int] = set()
        for root in self._roots:
            for directory, _, _ in os.walk(_below(root, path)):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError, NotADirectoryError):
                    found |= {int(line) for line in Path(directory, "cgroup.procs").read_text().split()}
        return found - {0}

    def remove(self, path: str) -> bool:
        """Remove a cgroup with all below it; False if something is still in it. One that is not there is removed."""
        removed = True
        for root in self._roots:
            for directory, _, _ in os.walk(_below(root, path), topdown=False):
                try:
                    os.rmdir(directory)
                except FileNotFoundError:
                    continue
                except OSError:
                    removed = False
        return removed

    def usage(self, path: str) -> CgroupUsage:
        """What it uses. Raises CgroupError if it is not there."""
        if not self.exists(path):
            raise CgroupError(f"{path}: there is no such cgroup")
        return self._v2_usage(path) if self.is_unified else self._v1_usage(path)

    def pressures(self, path: str) -> Pressures:
        """What its tasks wait for; nothing where the kernel does not tell, as in version 1 and without PSI."""
        if not self.is_unified:
            return NO_PRESSURES
        texts = {}
        for resource in ("cpu", "memory", "io"):
            try:
                texts[resource] = (self._unified(path) / f"{resource}.pressure").read_text()
            except OSError:
                continue  # EOPNOTSUPP of a kernel that was started with psi=0
        return Pressures(**{resource: parse_pressure(text) for resource, text in texts.items()})

    def _v1_usage(self, path: str) -> CgroupUsage:
        memory = self._number(path, "memory.usage_in_bytes")
        stat = self._table(path, "memory.stat")
        limit = self._number(path, "memory.limit_in_bytes") or 0
        return CgroupUsage(
            cpu_nanoseconds=self._number(path, "cpuacct.usage"),
            memory_usage=memory,
            memory_working_set=_working_set(memory, stat.get("total_inactive_file")),
            memory_rss=stat.get("total_rss"),
            memory_limit=0 if limit >= 1 << 62 else limit,
            page_faults=stat.get("total_pgfault"),
            major_page_faults=stat.get("total_pgmajfault"),
            processes=self._processes(path),
        )

    def _v2_usage(self, path: str) -> CgroupUsage:
        memory = self._number(path, "memory.current")
        stat = self._table(path, "memory.stat")
        cpu = self._table(path, "cpu.stat").get("usage_usec")
        return CgroupUsage(
            cpu_nanoseconds=cpu * 1000 if cpu is not None else None,
            memory_usage=memory,
            memory_working_set=_working_set(memory, stat.get("inactive_file")),
            memory_rss=stat.get("anon"),
            memory_limit=self._number(path, "memory.max") or 0,
            page_faults=stat.get("pgfault"),
            major_page_faults=stat.get("pgmajfault"),
            processes=self._processes(path),
            pressures=self.pressures(path),
        )

    def _processes(self, path: str) -> int | None:
        count = self._number(path, "pids.current")
        return len(self.pids(path)) if count is None and path != "/" else count

    def _read(self, path: str, file: str) -> str:
        target = self._file(path, file)
        if target is None:
            return ""
        try:
            return target.read_text()
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise CgroupError(f"{target}: {error.strerror}") from error

    def _number(self, path: str, file: str) -> int | None:
        """A file with one number; None where it is not there or says max."""
        text = self._read(path, file).strip()
        return int(text) if text.isdigit() else None

    def _table(self, path: str, file: str) -> dict[str, int]:
        """A file with a name and a number in each line."""
        pairs = (line.split() for line in self._read(path, file).splitlines())
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _v1_files(resources: CgroupResources) -> Iterator[tuple[str, str]]:
    if resources.cpu_shares is not None:
        yield "cpu.shares", str(resources.cpu_shares)
    if resources.cpu_period is not None:
        yield "cpu.cfs_period_us", str(resources.cpu_period)
    if resources.cpu_quota is not None:
        yield "cpu.cfs_quota_us", str(resources.cpu_quota or -1)
    if resources.memory is not None:
        yield "memory.limit_in_bytes", str(resources.memory or -1)
    if resources.pids is not None:
        yield "pids.max", _or_max(resources.pids)


def _v2_files(resources: CgroupResources) -> Iterator[tuple[str, str]]:
    if resources.cpu_shares is not None and shares_to_weight(resources.cpu_shares):
        yield "cpu.weight", str(shares_to_weight(resources.cpu_shares))
    if resources.cpu_quota is not None:
        yield "cpu.max", f"{_or_max(resources.cpu_quota or -1)} {resources.cpu_period or 100_000}"
    if resources.memory is not None:
        yield "memory.max", _or_max(resources.memory or -1)
    if resources.pids is not None:
        yield "pids.max", _or_max(resources.pids)
    yield from sorted(resources.unified.items())


def _or_max(number: int) -> str:
    return "max" if number < 0 else str(number)


def _working_set(usage: int | None, inactive_file: int | None) -> int | None:
    return max(usage - (inactive_file or 0), 0) if usage is not None else None


def _page_size_name(size: int) -> str:
    """The kernel's name of a page size.

    >>> _page_size_name(2 << 20), _page_size_name(64 << 10)
    ('2MB', '64KB')
    """
    for power, unit in ((30, "GB"), (20, "MB")):
        if size >= 1 << power:
            return f"{size >> power}{unit}"
    return f"{size >> 10}KB"


def _below(root: Path, path: str) -> Path:
    return root / path.strip("/")


def _ancestors(path: str) -> list[str]:
    """The cgroups above one, the outermost first, without the root."""
    parts = path.strip("/").split("/")
    return ["/" + "/".join(parts[:count]) for count in range(1, len(parts))]
