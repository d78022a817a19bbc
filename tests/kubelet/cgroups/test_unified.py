"""Cgroups of version 2, in a directory that looks like one: what is written where, and what is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayplan.kubelet.cgroups.errors import CgroupError
from bayplan.kubelet.cgroups.hierarchies import CgroupUsage, Hierarchies
from bayplan.kubelet.cgroups.mounts import CgroupMounts
from bayplan.kubelet.core.pressure import Pressure, Pressures, Stall
from bayplan.kubelet.core.resources import CgroupResources


def tree(root: Path) -> Hierarchies:
    """Two cgroups, /a and /a/b, with the files that a kernel gives them."""
    for directory in (root, root / "a", root / "a/b"):
        directory.mkdir(exist_ok=True)
        (directory / "cgroup.controllers").write_text("cpuset cpu io memory hugetlb pids rdma misc\n")
        (directory / "cgroup.subtree_control").write_text("cpu" if directory == root else "")
        (directory / "cgroup.procs").write_text("")
    pages = root.parent / "hugepages"
    for name in ("hugepages-2048kB", "hugepages-1048576kB"):
        (pages / name).mkdir(parents=True)
    return Hierarchies(CgroupMounts({}, root), hugepage_directory=pages)


def test_limits_are_written_with_controllers_switched_on(tmp_path: Path) -> None:
    root = tmp_path / "cgroup"
    it = tree(root)
    limits = CgroupResources(
        1024, 50_000, 100_000, 1 << 30, 100, {2 << 20: 4 << 20, 1 << 30: 1 << 62}, {"memory.low": "5"}
    )
    it.create("/a/b", limits)
    assert (root / "cgroup.subtree_control").read_text() == "+cpuset +memory +pids +hugetlb +io"
    assert (root / "a/cgroup.subtree_control").read_text() == "+cpu +cpuset +memory +pids +hugetlb +io"
    assert (root / "a/b/cgroup.subtree_control").read_text() == ""
    files = {path.name: path.read_text() for path in (root / "a/b").iterdir() if not path.name.startswith("cgroup.")}
    assert files == {
        "cpu.weight": "100",
        "cpu.max": "50000 100000",
        "memory.max": str(1 << 30),
        "pids.max": "100",
        "hugetlb.2MB.max": str(4 << 20),
        "hugetlb.1GB.max": "max",
        "memory.low": "5",
    }
    assert it.limits("/a/b") == CgroupResources(cpu_quota=50_000, cpu_period=100_000, memory=1 << 30)
    it.update("/a/b", CgroupResources(cpu_quota=-1, memory=0, pids=-1))
    shown = [(root / "a/b" / name).read_text() for name in ("cpu.max", "memory.max", "pids.max", "cpu.weight")]
    assert shown == ["max 100000", "max", "max", "100"]
    assert it.limits("/a/b") == CgroupResources(cpu_quota=-1, cpu_period=100_000, memory=0)
    assert it.hugepage_sizes() == [2 << 20, 1 << 30]


def test_usage_is_read(tmp_path: Path) -> None:
    root = tmp_path / "cgroup"
    it = tree(root)
    for name, text in {
        "cpu.stat": "usage_usec 1500\nuser_usec 1\n",
        "memory.current": "1000\n",
        "memory.stat": "anon 400\nfile 300\ninactive_file 250\npgfault 7\npgmajfault 2\n",
        "memory.max": "max\n",
        "pids.current": "3\n",
    }.items():
        (root / "a" / name).write_text(text)
    assert it.usage("/a") == CgroupUsage(1_500_000, 1000, 750, 400, 0, 7, 2, 3)
    (root / "a/memory.max").write_text("2000\n")
    (root / "a/pids.current").unlink()
    (root / "a/cgroup.procs").write_text("5\n6\n")
    (root / "a/b/cgroup.procs").write_text("7\n")
    usage = it.usage("/a")
    assert (usage.memory_limit, usage.processes) == (2000, 3)
    assert it.pids("/a") == {5, 6, 7}
    assert it.children("/") == ["a"]
    assert it.usage("/a/b").memory_usage is None
    with pytest.raises(CgroupError, match="no such cgroup"):
        it.usage("/none")
    with pytest.raises(CgroupError, match="no such cgroup"):
        it.update("/none", CgroupResources(memory=1))
    assert not it.exists("/none")


SOME = "some avg10=1.50 avg60=0.75 avg300=0.25 total=2500000\n"


def test_pressure_is_read_where_the_kernel_tells(tmp_path: Path) -> None:
    root = tmp_path / "cgroup"
    it = tree(root)
    assert it.usage("/a").pressures == Pressures()
    (root / "a/cpu.pressure").write_text(SOME)
    (root / "a/memory.pressure").write_text(SOME + "full avg10=0.50 avg60=0.00 avg300=0.00 total=7\n")
    (root / "a/io.pressure").write_text("")
    some = Stall(2_500_000, 1.5, 0.75, 0.25)
    expected = Pressures(Pressure(some, Stall()), Pressure(some, Stall(7, 0.5)), None)
    assert it.pressures("/a") == expected
    assert it.usage("/a").pressures == expected
    (root / "a/memory.pressure").unlink()
    (root / "a/memory.pressure").mkdir()  # reading it fails, as with psi=0
    assert it.pressures("/a").memory is None
    assert it.pressures("/a").cpu == expected.cpu
