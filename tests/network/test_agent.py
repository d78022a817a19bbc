"""Agents on machines that are network namespaces: what they tell the kernel, and whether packets arrive."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bayplan.network.cni_configuration import FILE
from tests.network.namespaces import Machine, machines, needs_networks

pytestmark = needs_networks


@pytest.fixture
def two(tmp_path: Path) -> Iterator[list[Machine]]:
    """Machines `a` and `b` whose agents have not started."""
    with machines(tmp_path) as found:
        yield found


def start(nodes: list[Machine], **options: str) -> None:
    """Start the agents, and let each know all nodes."""
    for each in nodes:
        each.start(**options)
    for each in nodes:
        assert each.learn(*nodes) == "ready"


def peers_of(machine: Machine) -> list[str]:
    """The agent's routes to other nodes."""
    shown = machine.ip("route", "show", "proto", "145") + machine.ip("-6", "route", "show", "proto", "145")
    return [" ".join(line.split()[:5]) for line in shown.splitlines() if not line.startswith("unreachable")]


@pytest.mark.parametrize("data_plane", ["overlay", "routed"])
@pytest.mark.parametrize("pod_interface", ["ptp", "bridge"])
def test_pods_reach_pods_and_nodes(two: list[Machine], data_plane: str, pod_interface: str) -> None:
    start(two, data_plane=data_plane, pod_interface=pod_interface)
    a, b = two
    here, near, there = a.attach_pod(), a.attach_pod(), b.attach_pod()
    for other in (near, there):
        for address in other.addresses:
            assert here.reaches(address), address
    for address in (*a.addresses, *b.addresses):
        assert here.reaches(address), address
    for address in here.addresses:
        assert a.reaches(address), address
        assert b.reaches(address), address
    # The largest packet that the pods' interfaces take arrives whole.
    payload = (1450 if data_plane == "overlay" else 1500) - 28
    assert here.reaches(there.addresses[0], size=payload)
    assert not here.reaches(there.addresses[0], size=payload + 1)


def test_pods_keep_their_addresses_among_each_other(two: list[Machine]) -> None:
    start(two)
    a, b = two
    here, there = a.attach_pod(), b.attach_pod()
    b.execute("nft", "add table inet seen")
    b.execute("nft", "add chain inet seen forward { type filter hook forward priority 0; }")
    b.execute("nft", f"add rule inet seen forward ip saddr {here.addresses[0]} counter")
    assert here.reaches(there.addresses[0])
    assert "packets 0" not in b.execute("nft", "list chain inet seen forward").stdout


@pytest.mark.parametrize(("masquerade", "sees"), [("external", "192.0.2.1"), ("off", "10.1.1.")])
def test_what_others_see_of_pods(two: list[Machine], masquerade: str, sees: str) -> None:
    a, outside = two
    start([a], masquerade=masquerade)
    pod = a.attach_pod()
    outside.execute("nft", "add table inet seen")
    outside.execute("nft", "add chain inet seen input { type filter hook input priority 0; }")
    outside.execute("nft", "add set inet seen sources { type ipv4_addr; flags dynamic; }")
    outside.execute(
        "nft", "add rule inet seen input icmp type echo-request update @seen { ip saddr }".replace("@seen", "@sources")
    )
    pod.reaches(outside.addresses[0])
    listed = json.loads(outside.execute("nft", "--json", "list", "set", "inet", "seen", "sources").stdout)
    elements = [one["set"]["elem"] for one in listed["nftables"] if "set" in one]
    assert len(elements) == 1
    assert all(one.startswith(sees) for one in elements[0])


def test_what_goes_to_pods_of_no_node_does_not_leave_it(two: list[Machine]) -> None:
    a, b = two
    a.ip("route", "add", "default", "via", b.addresses[0])
    start([a])
    pod = a.attach_pod()
    b.execute("nft", "add table inet seen")
    b.execute("nft", "add chain inet seen prerouting { type filter hook prerouting priority 0; }")
    b.execute("nft", "add rule inet seen prerouting ip daddr 10.1.0.0/16 counter")
    assert not pod.reaches("10.1.77.7")
    assert not a.reaches("10.1.1.77")
    assert "packets 0" in b.execute("nft", "list chain inet seen prerouting").stdout


def test_nodes_come_move_and_go(two: list[Machine]) -> None:
    a, b = two
    start([a])
    assert peers_of(a) == []
    a.learn(b)
    assert peers_of(a) == ["10.1.2.0/24 via 10.1.2.0 dev bayplan-vxlan", "fd00:2::/64 via fd00:2:: dev bayplan-vxlan"]
    b.pods = ["10.1.7.0/24"]
    a.learn(b)
    assert peers_of(a) == ["10.1.7.0/24 via 10.1.7.0 dev bayplan-vxlan"]
    a.tell(name="b")
    assert peers_of(a) == []
    assert a.ip("neighbor", "show", "dev", "bayplan-vxlan", "nud", "permanent") == ""
    assert "dst" not in a.execute("bridge", "fdb", "show", "dev", "bayplan-vxlan").stdout


def test_what_others_have_changed_is_put_right(two: list[Machine]) -> None:
    a, b = two
    start(two)
    here, there = a.attach_pod(), b.attach_pod()
    a.ip("route", "add", "10.9.9.0/24", "via", "192.0.2.2", "proto", "145")
    a.ip("route", "add", "10.8.8.0/24", "via", "192.0.2.2")
    a.ip("route", "delete", "10.1.2.0/24")
    a.execute("nft", "delete table inet bayplan-network")
    assert a.tell() == "ready"
    assert here.reaches(there.addresses[0])
    routes = a.ip("route", "show")
    assert "10.9.9.0" not in routes
    assert "10.8.8.0" in routes, "routes of others stay"
    a.execute("nft", "list table inet bayplan-network")
    a.ip("link", "set", "bayplan-vxlan", "mtu", "1300")
    assert a.tell() == "ready"
    assert "mtu 1450" in a.ip("link", "show", "bayplan-vxlan")
    assert here.reaches(there.addresses[0])


def test_the_network_outlives_its_agent(two: list[Machine]) -> None:
    start(two)
    a, b = two
    here, there = a.attach_pod(), b.attach_pod()
    a.stop()
    assert here.reaches(there.addresses[0])
    before = a.ip("-json", "link", "show", "bayplan-vxlan")
    start([a])
    assert a.learn(b) == "ready"
    assert a.ip("-json", "link", "show", "bayplan-vxlan") == before, "the device is not made anew"
    assert here.reaches(there.addresses[0])


def test_the_other_data_plane_leaves_nothing_of_the_first(two: list[Machine]) -> None:
    start(two)
    for each in two:
        each.stop()
    start(two, data_plane="routed")
    a, b = two
    assert a.attach_pod().reaches(b.attach_pod().addresses[0])
    assert "bayplan-vxlan" not in a.ip("link", "show")


def test_a_node_waits_for_its_pod_network(two: list[Machine]) -> None:
    a, _ = two
    a.start()
    assert "there is no node a" in a.tell()
    pods, a.pods = a.pods, []
    assert "node a has no podCIDR" in a.learn(a)
    assert not (a.directory / "cni" / FILE).exists()
    a.pods = pods
    assert a.learn(a) == "ready"
    assert (a.directory / "cni" / FILE).exists()


def test_no_pod_is_attached_before_policies_are_in_the_kernel(two: list[Machine], tmp_path: Path) -> None:
    a, _ = two
    programs, fails = tmp_path / "programs", tmp_path / "fails"
    programs.mkdir()
    fails.touch()
    nft = programs / "nft"
    nft.write_text(
        f'#!/bin/sh\ninput=$(cat)\ncase "$*:$input" in -f*bayplan-network-policy*) [ -e {fails} ] && exit 1;; esac\n'
        f'printf "%s\\n" "$input" | exec {shutil.which("nft")} "$@"\n'
    )
    nft.chmod(0o755)
    a.start(path=str(programs))
    assert "network policies are not in the kernel yet" in a.learn(a)
    assert "bayplan-network" in a.execute("nft", "list", "tables").stdout, "all else is there"
    assert not (a.directory / "cni" / FILE).exists()
    fails.unlink()
    deadline = time.monotonic() + 20
    while a.tell() != "ready":
        assert time.monotonic() < deadline
    assert (a.directory / "cni" / FILE).exists()


def test_an_address_that_is_not_of_this_machine(two: list[Machine]) -> None:
    a, _ = two
    a.start()
    a.addresses = ["203.0.113.1"]
    assert "no interface of this machine has 203.0.113.1" in a.learn(a)
