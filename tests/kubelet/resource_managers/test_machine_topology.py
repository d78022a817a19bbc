"""The machine is read from sysfs, here from directories that look like it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bayplan.kubelet.resource_managers.cpus.cpu_set import format_cpu_set
from bayplan.kubelet.resource_managers.errors import ResourceManagerError
from bayplan.kubelet.resource_managers.machine_topology import Cpu, NumaNode, read_machine_topology


def write(root: Path, **files: str) -> None:
    """Files by their paths, with __ for slashes."""
    for name, content in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")


def two_sockets(root: Path) -> None:
    """Two sockets that are NUMA nodes, with two cores of two threads each; CPU 7 is offline."""
    write(root, cpu__online="0-6")
    for cpu in range(8):
        core, socket = cpu % 4, cpu % 4 // 2
        siblings = format_cpu_set({core, core + 4} - {7})
        write(
            root,
            **{
                f"cpu__cpu{cpu}__topology__thread_siblings_list": siblings,
                f"cpu__cpu{cpu}__topology__physical_package_id": str(socket),
                f"cpu__cpu{cpu}__cache__index0__level": "1",
                f"cpu__cpu{cpu}__cache__index3__level": "3",
                f"cpu__cpu{cpu}__cache__index3__id": str(socket + 10),
                f"cpu__cpu{cpu}__cache__index3__shared_cpu_list": format_cpu_set(
                    {2 * socket, 2 * socket + 1, 2 * socket + 4, 2 * socket + 5}
                ),
            },
        )
    for node in range(2):
        write(
            root,
            **{
                f"node__node{node}__cpulist": format_cpu_set(
                    {2 * node, 2 * node + 1, 2 * node + 4, 2 * node + 5} - {7}
                ),
                f"node__node{node}__meminfo": f"Node {node} MemTotal:       {4096 * (node + 1)} kB\nNode {node} MemFree: 1 kB",
                f"node__node{node}__distance": "10 21" if node == 0 else "21 10",
                f"node__node{node}__hugepages__hugepages-2048kB__nr_hugepages": str(node),
                f"node__node{node}__hugepages__hugepages-1048576kB__nr_hugepages": "3",
            },
        )


def test_sockets_cores_caches_and_numa_nodes_are_found(tmp_path: Path) -> None:
    two_sockets(tmp_path)
    found = read_machine_topology(tmp_path)
    assert found.cpus.cpus[0] == Cpu(core=0, socket=0, numa_node=0, uncore_cache=10)
    assert found.cpus.cpus[4] == found.cpus.cpus[0]
    assert found.cpus.cpus[6] == Cpu(core=2, socket=1, numa_node=1, uncore_cache=11)
    assert format_cpu_set(found.cpus.all()) == "0-6"
    assert found.cpus.in_cores([3]) == {3}  # its other thread is offline
    assert found.numa_nodes == (
        NumaNode(0, 4096 * 1024, {2 << 20: 0, 1 << 30: 3}, (10, 21)),
        NumaNode(1, 8192 * 1024, {2 << 20: 1, 1 << 30: 3}, (21, 10)),
    )


def test_a_machine_that_tells_little_is_one_numa_node(tmp_path: Path) -> None:
    write(tmp_path, cpu__online="0-1")
    found = read_machine_topology(tmp_path)
    assert found.cpus.cpus == {0: Cpu(0, 0, 0, 0), 1: Cpu(1, 0, 0, 0)}
    assert [each.id for each in found.numa_nodes] == [0]


def test_a_socket_of_which_the_machine_does_not_know_is_the_first(tmp_path: Path) -> None:
    write(tmp_path, cpu__online="0", cpu__cpu0__topology__physical_package_id="-1")
    assert read_machine_topology(tmp_path).cpus.cpus[0].socket == 0


@pytest.mark.parametrize(("online", "message"), [("", "could not detect number of cpus"), ("a-b", "is no CPU")])
def test_a_machine_without_cpus_is_refused(tmp_path: Path, online: str, message: str) -> None:
    write(tmp_path, cpu__online=online)
    with pytest.raises(ResourceManagerError, match=message):
        read_machine_topology(tmp_path)


@pytest.mark.skipif(not Path("/sys/devices/system/cpu/online").exists(), reason="needs sysfs")
def test_this_machine_is_read() -> None:
    found = read_machine_topology()
    assert len(found.cpus.cpus) == os.sysconf("SC_NPROCESSORS_ONLN")
    assert {each.id for each in found.numa_nodes} >= found.cpus.numa_nodes
