"""Where cgroups are, for both drivers, and where hierarchies are mounted."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayplan.kubelet.cgroups.errors import CgroupError
from bayplan.kubelet.cgroups.mounts import CgroupMounts, parse_mounts
from bayplan.kubelet.cgroups.names import child_name, class_name, parent_for_runtime, parse_root, path_of, pod_name

UID = "4f0c-11"


@pytest.mark.parametrize(
    ("root", "qos", "cgroupfs", "systemd"),
    [
        ("/", "Guaranteed", f"/kubepods/pod{UID}", "/kubepods.slice/kubepods-pod4f0c_11.slice"),
        (
            "",
            "Burstable",
            f"/kubepods/burstable/pod{UID}",
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod4f0c_11.slice",
        ),
        (
            "/",
            "BestEffort",
            f"/kubepods/besteffort/pod{UID}",
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod4f0c_11.slice",
        ),
    ],
)
def test_paths_of_pods(root: str, qos: str, cgroupfs: str, systemd: str) -> None:
    name = pod_name(parse_root(root, "cgroupfs"), qos, UID)
    assert path_of(name, "cgroupfs") == cgroupfs
    assert path_of(name, "systemd") == systemd
    assert parent_for_runtime(name, "cgroupfs") == cgroupfs
    assert parent_for_runtime(name, "systemd") == systemd.rpartition("/")[2]


def test_roots_of_several_kubelets() -> None:
    assert (
        path_of(class_name(parse_root("/bayplan/node-1", "cgroupfs"), "Burstable"), "cgroupfs")
        == "/bayplan/node-1/kubepods/burstable"
    )
    root = parse_root("/bayplan.slice/bayplan-node_1.slice", "systemd")
    assert root == ("bayplan", "node-1")
    assert (
        path_of(class_name(root, "Guaranteed"), "systemd")
        == "/bayplan.slice/bayplan-node_1.slice/bayplan-node_1-kubepods.slice"
    )
    assert path_of((), "systemd") == path_of((), "cgroupfs") == "/"


def test_directories_are_read_back() -> None:
    parent = class_name((), "Burstable")
    for driver in ("cgroupfs", "systemd"):
        name = pod_name((), "Burstable", UID)
        directory = path_of(name, driver).rpartition("/")[2]
        assert child_name(parent, directory, driver) == name
    assert child_name(parent, "cri-containerd-1.scope", "systemd") is None


HYBRID = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
33 31 0:30 / /other/much/longer/path/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""


def test_hierarchies_are_found() -> None:
    mounts = parse_mounts(HYBRID)
    assert not mounts.is_unified
    assert mounts.unified == Path("/sys/fs/cgroup/unified")
    assert mounts.controllers["cpuacct"] == mounts.controllers["cpu"] == Path("/sys/fs/cgroup/cpu,cpuacct")
    assert "name=systemd" in mounts.controllers
    unified = parse_mounts("30 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n")
    assert unified == CgroupMounts({}, Path("/sys/fs/cgroup"))
    assert unified.is_unified


def test_missing_hierarchies_are_named() -> None:
    with pytest.raises(CgroupError, match="for pids: mount"):
        parse_mounts("\n".join(line for line in HYBRID.splitlines() if "pids" not in line))
    with pytest.raises(CgroupError, match="cpu, cpuacct, cpuset, memory, pids"):
        parse_mounts("")
