"""What a node tells its runtime, its firewall and the API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.network.cni_configuration import FILE, configuration, find_plugins, write_configuration
from bayplan.network.errors import NetworkError
from bayplan.network.masquerading import masquerading
from bayplan.network.node_condition import network_available
from bayplan.network.peers import Peer
from bayplan.network.settings import DataPlane, Masquerade, PodInterface
from tests.network.nodes import A, B, settings


def plugins_of(changes: dict[str, Any], chain: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = configuration(A, "eth0", 1450, settings(**changes), chain)["plugins"]
    return found


class TestConfiguration:
    def test_addresses_and_routes_of_both_versions(self) -> None:
        (plugin,) = plugins_of({"address_directory": Path("/x")})
        assert plugin["ipam"] == {
            "type": "host-local",
            "ranges": [[{"subnet": "10.1.1.0/24"}], [{"subnet": "fd00:1::/64"}]],
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
            "dataDir": "/x",
        }

    @pytest.mark.parametrize(
        ("kind", "expected"),
        [
            (PodInterface.PTP, {"type": "ptp", "mtu": 1450, "ipMasq": False}),
            (
                PodInterface.BRIDGE,
                {
                    "type": "bridge",
                    "bridge": "cni7",
                    "isDefaultGateway": True,
                    "hairpinMode": True,
                    "mtu": 1450,
                    "ipMasq": False,
                },
            ),
            (PodInterface.IPVLAN, {"type": "ipvlan", "mode": "l3", "master": "eth0", "mtu": 1450}),
        ],
    )
    def test_how_pods_are_attached(self, kind: PodInterface, expected: dict[str, Any]) -> None:
        (plugin,) = plugins_of({"pod_interface": kind, "bridge": "cni7"})
        assert bool(plugin.pop("ipam")["routes"]) == (kind != PodInterface.BRIDGE), "a bridge adds the routes itself"
        assert plugin == expected

    def test_further_plugins_get_what_they_are_for(self) -> None:
        assert plugins_of({}, ("portmap", "bandwidth", "firewall"))[1:] == [
            {"type": "portmap", "capabilities": {"portMappings": True}},
            {"type": "bandwidth", "capabilities": {"bandwidth": True}},
            {"type": "firewall"},
        ]

    def test_the_file_is_written_whole_and_once(self, tmp_path: Path) -> None:
        directory, config = tmp_path / "net.d", configuration(A, "eth0", 1450, settings(), ())
        assert write_configuration(directory, config)
        assert json.loads((directory / FILE).read_text()) == config
        before = (directory / FILE).stat()
        assert not write_configuration(directory, config)
        assert (directory / FILE).stat() == before
        assert write_configuration(directory, {**config, "name": "other"})
        assert [path.name for path in directory.iterdir()] == [FILE]

    def test_plugins_are_where_all_that_are_needed_are(self, tmp_path: Path) -> None:
        for name in ("ptp", "host-local"):
            (tmp_path / name).touch()
        with pytest.raises(NetworkError, match="apt-get install containernetworking-plugins"):
            find_plugins(settings(cni_plugins=tmp_path))
        (tmp_path / "loopback").touch()
        assert find_plugins(settings(cni_plugins=tmp_path)) == tmp_path


class TestMasquerading:
    def test_what_goes_to_pods_and_nodes_keeps_its_address(self) -> None:
        rules = masquerading(A, [B], Masquerade.EXTERNAL)
        assert "elements = { 10.1.1.0/24, 10.1.2.0/24, 192.0.2.1, 192.0.2.2, 224.0.0.0/4 }" in rules
        assert "ip saddr { 10.1.1.0/24 } ip daddr != @inside4 masquerade" in rules
        assert "ip6 saddr { fd00:1::/64 } ip6 daddr != @inside6 masquerade" in rules

    def test_nodes_see_the_nodes_address_where_the_network_asks_for_it(self) -> None:
        assert "elements = { 10.1.1.0/24, 10.1.2.0/24, 224.0.0.0/4 }" in masquerading(A, [B], Masquerade.NON_PODS)

    @pytest.mark.parametrize(("node", "mode"), [(A, Masquerade.OFF), (Peer("a", A.addresses, ()), Masquerade.EXTERNAL)])
    def test_no_rules(self, node: Peer, mode: Masquerade) -> None:
        assert "chain" not in masquerading(node, [B], mode)
        assert "delete table inet bayplan-network" in masquerading(node, [B], mode)

    def test_one_version_alone(self) -> None:
        node = Peer("a", ("192.0.2.1",), ("10.1.1.0/24",))
        assert "ip6" not in masquerading(node, [], Masquerade.EXTERNAL)


class TestCondition:
    @staticmethod
    def node(status: str, reason: str) -> core_v1.Node:
        condition = core_v1.NodeCondition(
            type="NetworkUnavailable", status=status, reason=reason, last_transition_time="2026-01-01T00:00:00Z"
        )
        return core_v1.Node(metadata=meta_v1.ObjectMeta(name="a"), status=core_v1.NodeStatus(conditions=(condition,)))

    def test_a_node_that_says_nothing(self) -> None:
        patch = network_available(core_v1.Node(), DataPlane.ROUTED, 0.0)
        assert patch is not None
        (condition,) = patch["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == (
            "NetworkUnavailable",
            "False",
            "RoutesAreSet",
        )
        assert condition["lastTransitionTime"] == "1970-01-01T00:00:00Z"

    def test_a_node_that_says_so_already(self) -> None:
        assert network_available(self.node("False", "OverlayIsUp"), DataPlane.OVERLAY, 0.0) is None

    def test_another_reason_is_no_transition(self) -> None:
        patch = network_available(self.node("False", "OverlayIsUp"), DataPlane.ROUTED, 0.0)
        assert patch is not None
        assert patch["status"]["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:00Z"

    def test_a_network_that_comes_up(self) -> None:
        patch = network_available(self.node("True", "NoRouteCreated"), DataPlane.ROUTED, 0.0)
        assert patch is not None
        assert patch["status"]["conditions"][0]["lastTransitionTime"] == "1970-01-01T00:00:00Z"
