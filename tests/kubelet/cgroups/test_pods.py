"""The cgroups of a kubelet on this machine, below a root of the test's own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.cgroups.errors import CgroupError
from bayplan.kubelet.cgroups.hierarchies import Hierarchies
from bayplan.kubelet.cgroups.mounts import find_mounts
from bayplan.kubelet.cgroups.names import path_of
from bayplan.kubelet.cgroups.pods import CgroupSettings, PodCgroups, QosCgroups
from bayplan.kubelet.core.resources import CgroupResources
from bayplan.support.clock import SystemClock
from bayplan.testing.builders import container, pod

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not os.access("/sys/fs/cgroup", os.W_OK), reason="needs root and cgroups that can be written"
)
ALLOCATABLE: dict[str, str | int | float] = {"cpu": "2", "memory": "1Gi", "pid": "1000"}
GIB = 2**30


class Setting:
    """A root with all that a kubelet has below it."""

    def __init__(self, driver: str = "cgroupfs") -> None:
        self.clock = SystemClock()
        self.hierarchies = Hierarchies(find_mounts())
        self.root = f"bayplan-test-{uuid.uuid4().hex[:8]}"
        settings = CgroupSettings((self.root,), driver, reserved_memory_percent=50)
        self.qos = QosCgroups(self.hierarchies, settings)
        self.pods = PodCgroups(self.hierarchies, settings, self.clock)
        self.processes: list[subprocess.Popen[bytes]] = []

    def file(self, path: str, v1: str, v2: str) -> str:
        """Content of a file of a cgroup, by its names in version 1 and 2."""
        mounts = self.hierarchies.mounts
        if mounts.is_unified:
            return Path(f"{mounts.unified}{path}/{v2}").read_text().strip()
        return Path(f"{mounts.controllers[v1.partition('.')[0]]}{path}/{v1}").read_text().strip()

    def run_in(self, path: str) -> int:
        """Start a process in a cgroup below another, as a container has one; its pid."""
        self.hierarchies.create(f"{path}/container", CgroupResources())
        process = subprocess.Popen(["sleep", "1000"])
        self.processes.append(process)
        mounts = self.hierarchies.mounts
        roots = [mounts.unified] if mounts.is_unified else set(mounts.controllers.values())
        for root in roots:
            Path(f"{root}{path}/container/cgroup.procs").write_text(str(process.pid))
        return process.pid


@pytest.fixture
def setting() -> Iterator[Setting]:
    """A setting that is taken away again."""
    it = Setting()
    yield it
    asyncio.run(it.qos.remove(it.clock))
    assert it.hierarchies.remove(f"/{it.root}")
    for process in it.processes:
        process.kill()
        process.wait()


def burstable(name: str, memory: str = "100Mi") -> core_v1.Pod:
    """A pod with limits above its requests."""
    one = container(cpu="250m", memory="50Mi")
    one.resources.limits = {"cpu": "500m", "memory": memory}
    return pod(name, meta={"uid": f"uid-{name}"}, containers=(one,))


def test_tree_of_classes_is_made_and_limited(setting: Setting) -> None:
    setting.qos.create(ALLOCATABLE)
    pods = f"/{setting.root}/kubepods"
    assert setting.hierarchies.children(pods) == ["besteffort", "burstable"]
    assert setting.file(pods, "memory.limit_in_bytes", "memory.max") == str(GIB)
    assert setting.file(pods, "cpu.shares", "cpu.weight") in ("2048", "174")
    assert setting.file(pods, "pids.max", "pids.max") == "1000"
    assert setting.file(f"{pods}/besteffort", "cpu.shares", "cpu.weight") in ("2", "1")
    setting.qos.create(ALLOCATABLE)  # as after a restart
    setting.qos.enforce({**ALLOCATABLE, "memory": "512Mi"})
    assert setting.file(pods, "memory.limit_in_bytes", "memory.max") == str(GIB // 2)
    setting.qos.update([burstable("a")], GIB)
    assert setting.file(f"{pods}/burstable", "cpu.shares", "cpu.weight") in ("256", "35")
    assert setting.file(f"{pods}/besteffort", "memory.limit_in_bytes", "memory.max") == str(GIB - (25 << 20))
    setting.qos.enforce_reserved(f"{setting.root}/kubepods/besteffort", {"memory": "64Mi"})
    assert setting.file(f"{pods}/besteffort", "memory.limit_in_bytes", "memory.max") == str(64 << 20)
    with pytest.raises(CgroupError, match="does not make it"):
        setting.qos.enforce_reserved("/bayplan-test-none", {})


def test_pods_cgroup_lives_from_create_to_remove(setting: Setting) -> None:
    setting.qos.create(ALLOCATABLE)
    one = burstable("a")
    assert not setting.pods.exists(one)
    setting.pods.create(one)
    assert setting.pods.exists(one)
    path = f"/{setting.root}/kubepods/burstable/poduid-a"
    assert setting.pods.parent(one) == path
    assert setting.file(path, "memory.limit_in_bytes", "memory.max") == str(100 << 20)
    assert setting.file(path, "cpu.cfs_quota_us", "cpu.max").startswith("50000")
    setting.pods.update(burstable("a", "200Mi"))
    assert setting.file(path, "memory.limit_in_bytes", "memory.max") == str(200 << 20)
    setting.pods.set_resources(one, CgroupResources(memory=300 << 20))
    assert setting.file(path, "memory.limit_in_bytes", "memory.max") == str(300 << 20)
    found = setting.pods.limits(one)
    assert (found.cpu_quota, found.cpu_period, found.memory) == (50_000, 100_000, 300 << 20)
    assert found.cpu_shares in (256, None)  # version 2 has weights, which tell shares in steps only
    setting.pods.set_resources(one, CgroupResources(cpu_quota=-1, memory=0))
    found = setting.pods.limits(one)
    assert (found.cpu_quota, found.memory) == (-1, 0)
    setting.pods.set_resources(one, CgroupResources(memory=300 << 20))
    process = setting.run_in(path)
    assert setting.pods.any_pid("uid-a") == process
    usage = setting.pods.usage("uid-a")
    assert (usage.processes, usage.memory_limit) == (1, 300 << 20)
    assert setting.pods.memory_usage(one) is not None
    assert usage.cpu_nanoseconds is not None
    assert 0 <= (usage.memory_working_set or 0) <= (usage.memory_usage or 0)
    assert setting.qos.usage().processes == 1
    asyncio.run(setting.pods.remove("uid-a"))
    assert setting.processes[0].wait(5) == -9
    assert not setting.pods.exists(one)
    assert setting.pods.list() == {}
    asyncio.run(setting.pods.remove("uid-a"))
    with pytest.raises(CgroupError, match="no cgroup"):
        setting.pods.usage("uid-a")


def test_cgroups_that_a_dead_kubelet_left_are_found_and_removed(setting: Setting) -> None:
    setting.qos.create(ALLOCATABLE)
    kept, gone = burstable("kept"), pod("gone", meta={"uid": "uid-gone"}, containers=(container(),))
    for each in (kept, gone):
        setting.pods.create(each)
    setting.run_in(setting.pods.parent(gone))
    stays = setting.run_in(setting.pods.parent(kept))
    later = PodCgroups(setting.hierarchies, CgroupSettings((setting.root,)), setting.clock)
    assert sorted(later.list()) == ["uid-gone", "uid-kept"]
    assert asyncio.run(later.remove_others(["uid-kept"])) == ["uid-gone"]
    assert setting.processes[0].wait(5) == -9
    assert later.any_pid("uid-kept") == stays
    assert sorted(later.list()) == ["uid-kept"]


def test_systemds_names_are_used_with_its_driver() -> None:
    it = Setting("systemd")
    root = it.root.replace("-", "_")
    try:
        it.qos.create(ALLOCATABLE)
        one = burstable("a")
        it.pods.create(one)
        assert it.pods.parent(one) == f"{root}-kubepods-burstable-poduid_a.slice"
        assert it.pods.list() == {"uid-a": (it.root, "kubepods", "burstable", "poduid-a")}
        assert it.hierarchies.exists(path_of(it.pods.list()["uid-a"], "systemd"))
        asyncio.run(it.pods.remove("uid-a"))
    finally:
        asyncio.run(it.qos.remove(it.clock))
        it.hierarchies.remove(f"/{root}.slice")


def test_limit_below_what_is_used_is_refused(setting: Setting) -> None:
    setting.qos.create(ALLOCATABLE)
    one = burstable("a")
    setting.pods.create(one)
    with pytest.raises(CgroupError, match="was refused"):
        setting.pods.set_resources(one, CgroupResources(cpu_period=1, cpu_quota=1))
