"""Cgroups of version 1 alone, in directories that look like them."""

from __future__ import annotations

from pathlib import Path

from bayplan.kubelet.cgroups.hierarchies import CgroupUsage, Hierarchies
from bayplan.kubelet.cgroups.mounts import CgroupMounts
from bayplan.kubelet.core.resources import CgroupResources

NAMES = ("cpu", "cpuacct", "cpuset", "memory", "pids", "hugetlb")


def tree(root: Path) -> Hierarchies:
    """Hierarchies without the unified one; cpu and cpuacct are one."""
    mounts = {name: root / ("cpu,cpuacct" if name.startswith("cpu") and name != "cpuset" else name) for name in NAMES}
    for path in mounts.values():
        (path / "a").mkdir(parents=True, exist_ok=True)
    for directory in (root / "cpuset", root / "cpuset/a"):
        for file, text in (("cpuset.cpus", "0-3"), ("cpuset.mems", "0")):
            (directory / file).write_text(text if directory.name == "cpuset" else "\n")
    return Hierarchies(CgroupMounts(mounts, None), hugepage_directory=root / "none")


def test_limits_go_to_their_controllers(tmp_path: Path) -> None:
    it = tree(tmp_path)
    assert not it.is_unified
    assert not it.exists("/b")
    assert it.exists("/a")
    it.create("/a", CgroupResources(512, 50_000, 100_000, 1 << 30, 100, {2 << 20: 4 << 20}, {"memory.low": "5"}))
    files = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("a/*") if path.is_file()}
    assert files == {
        "cpu,cpuacct/a/cpu.shares": "512",
        "cpu,cpuacct/a/cpu.cfs_period_us": "100000",
        "cpu,cpuacct/a/cpu.cfs_quota_us": "50000",
        "cpuset/a/cpuset.cpus": "0-3",
        "cpuset/a/cpuset.mems": "0",
        "memory/a/memory.limit_in_bytes": str(1 << 30),
        "pids/a/pids.max": "100",
        "hugetlb/a/hugetlb.2MB.limit_in_bytes": str(4 << 20),
    }
    it.update("/a", CgroupResources(cpu_quota=-1, memory=0, pids=-1))
    assert (tmp_path / "memory/a/memory.limit_in_bytes").read_text() == "-1"
    assert (tmp_path / "pids/a/pids.max").read_text() == "max"


def test_usage_is_read(tmp_path: Path) -> None:
    it = tree(tmp_path)
    for name, text in {
        "cpu,cpuacct/a/cpuacct.usage": "77\n",
        "memory/a/memory.usage_in_bytes": "1000\n",
        "memory/a/memory.stat": "rss 1\ntotal_rss 400\ntotal_inactive_file 250\ntotal_pgfault 7\ntotal_pgmajfault 2\n",
        "memory/a/memory.limit_in_bytes": "9223372036854771712\n",
        "pids/a/pids.current": "3\n",
    }.items():
        (tmp_path / name).write_text(text)
    assert it.usage("/a") == CgroupUsage(77, 1000, 750, 400, 0, 7, 2, 3)
    (tmp_path / "memory/a/memory.limit_in_bytes").write_text("2000\n")
    assert it.usage("/a").memory_limit == 2000


def test_the_first_cgroup_is_found_that_any_hierarchy_has(tmp_path: Path) -> None:
    it = tree(tmp_path)
    (tmp_path / "pids/b").mkdir()
    assert it.first_found(["/none", "/b"]) == "/b"
    assert it.first_found(["/none", "/a", "/b"]) == "/a"
    assert it.first_found(["/none"]) == ""
