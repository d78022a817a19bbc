"""Use between measurements, interfaces, and the summary that is made of samples."""

from __future__ import annotations

from dataclasses import replace

from bayplan.kubelet.core.pressure import Pressure, Pressures, Stall
from bayplan.kubelet.core.stats import (
    ContainerSample,
    CpuRates,
    Interface,
    NodeSample,
    PodSample,
    Sample,
    VolumeSample,
    parse_interfaces,
    summary,
)
from bayplan.kubelet.core.usage import DiskUsage, Filesystem

SECOND = 1_000_000_000
NET_DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0
  eth0:    1200      12    3    0    0     0          0         0      340       4    5    0    0     0       0          0
"""


class TestCpuRates:
    def test_use_is_that_between_the_last_two_measurements(self) -> None:
        rates = CpuRates()
        assert rates.rate("a", 10, 5 * SECOND) is None
        assert rates.rate("a", 20, 10 * SECOND) == SECOND // 2
        assert rates.rate("a", 20, 10 * SECOND) == SECOND // 2
        assert rates.rate("b", 20, 10 * SECOND) is None

    def test_a_counter_that_fell_begins_anew(self) -> None:
        rates = CpuRates()
        rates.rate("a", 10, 5 * SECOND)
        assert rates.rate("a", 20, SECOND) is None
        assert rates.rate("a", 22, 2 * SECOND) == SECOND // 2

    def test_what_is_gone_is_forgotten(self) -> None:
        rates = CpuRates()
        rates.rate("a", 10, 0)
        rates.rate("b", 10, 0)
        rates.forget_all_but({"b"})
        assert rates.rate("a", 11, SECOND) is None
        assert rates.rate("b", 11, SECOND) == SECOND
        assert rates.rate("b", 12, None) is None


def test_interfaces_are_read_without_the_loopback_one() -> None:
    assert parse_interfaces(NET_DEV) == (Interface("eth0", 1200, 3, 340, 5),)


DISK = Filesystem(available_bytes=600, capacity_bytes=1000, inodes_free=60, inodes=100)


def node() -> NodeSample:
    container = ContainerSample(
        name="c",
        container_id="id",
        image="busybox",
        started_at=5.0,
        sample=Sample(20.0, 3 * SECOND, 250, 70, 50, 40, page_faults=7, major_page_faults=1),
        root=DiskUsage(11, 2),
        logs=DiskUsage(5, 1),
        cgroup="/kubepods/podu/id",
        memory_limit=1024,
        cpu_shares=102,
        cpu_quota=10_000,
        cpu_period=100_000,
    )
    pod = PodSample(
        name="p",
        namespace="ns",
        uid="u",
        started_at=4.0,
        sample=Sample(20.0, 4 * SECOND, 300, 80, 60),
        containers=(container,),
        interfaces=parse_interfaces(NET_DEV),
        volumes=(VolumeSample("data", DiskUsage(9, 3), DISK, "claim"), VolumeSample("tmp", DiskUsage(8, 2), DISK)),
        ephemeral=DiskUsage(24, 5),
        processes=2,
        cgroup="/kubepods/podu",
    )
    return NodeSample(
        "n1", 1.0, Sample(20.0, 100 * SECOND, 500, 900, 800), DISK, processes=3, processes_most=9, pods=(pod,)
    )


def test_the_summary_shows_node_pods_and_containers() -> None:
    shown = summary(node())
    assert shown["node"]["nodeName"] == "n1"
    assert shown["node"]["startTime"] == "1970-01-01T00:00:01Z"
    assert shown["node"]["cpu"] == {
        "time": "1970-01-01T00:00:20Z",
        "usageNanoCores": 500,
        "usageCoreNanoSeconds": 100 * SECOND,
    }
    assert shown["node"]["fs"]["usedBytes"] == 400
    assert shown["node"]["rlimit"] == {"time": "1970-01-01T00:00:20Z", "maxpid": 9, "curproc": 3}
    (pod,) = shown["pods"]
    assert pod["podRef"] == {"name": "p", "namespace": "ns", "uid": "u"}
    assert pod["process_stats"] == {"process_count": 2}
    assert (pod["ephemeral-storage"]["usedBytes"], pod["ephemeral-storage"]["inodesUsed"]) == (24, 5)
    network = pod["network"]
    assert (network["name"], network["rxBytes"], network["txErrors"]) == ("eth0", 1200, 5)
    data, tmp = pod["volume"]
    assert (data["name"], data["usedBytes"], data["pvcRef"]) == ("data", 9, {"name": "claim", "namespace": "ns"})
    assert "pvcRef" not in tmp
    (container,) = pod["containers"]
    assert container["memory"] == {
        "time": "1970-01-01T00:00:20Z",
        "usageBytes": 70,
        "workingSetBytes": 50,
        "rssBytes": 40,
        "pageFaults": 7,
        "majorPageFaults": 1,
    }
    assert (container["rootfs"]["usedBytes"], container["logs"]["usedBytes"]) == (11, 5)


def test_the_summary_shows_pressure_where_it_is_known() -> None:
    plain = node()
    assert "io" not in summary(plain)["node"]
    assert "psi" not in summary(plain)["node"]["cpu"]
    io = Pressure(Stall(40, 1.5, 0.5, 0.25), Stall(30))
    shown = summary(replace(plain, sample=replace(plain.sample, pressures=Pressures(memory=Pressure(), io=io))))["node"]
    assert "psi" not in shown["cpu"]
    assert shown["memory"]["psi"]["some"] == {"total": 0, "avg10": 0, "avg60": 0, "avg300": 0}
    assert shown["io"] == {
        "time": "1970-01-01T00:00:20Z",
        "psi": {
            "full": {"total": 30, "avg10": 0, "avg60": 0, "avg300": 0},
            "some": {"total": 40, "avg10": 1.5, "avg60": 0.5, "avg300": 0.25},
        },
    }
