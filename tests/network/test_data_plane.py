from __future__ import annotations

import itertools

import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.network.data_plane import (
    Forwarding,
    Neighbor,
    Route,
    Unreachable,
    entries,
    find_uplink,
    hardware_address,
    make_tunnel,
    pod_mtu,
    unreachable,
)
from bayplan.network.errors import NetworkError, SettingsError
from bayplan.network.peers import Peer, peer
from bayplan.network.settings import DataPlane, NetworkSettings
from tests.network.nodes import FAR, UPLINK, A, B, node, settings

ROUTED = settings(data_plane=DataPlane.ROUTED)
OVERLAY = settings()


class TestPeers:
    def test_addresses_and_pod_networks_of_a_node(self) -> None:
        found = node("a", ("192.0.2.1", "2001:db8::1"), ("10.1.1.0/24", "fd00:1::/64"))
        assert peer(found) == A

    def test_other_addresses_are_left_out(self) -> None:
        addresses = (
            ("Hostname", "a"),
            ("ExternalIP", "203.0.113.1"),
            ("InternalIP", "no address"),
            ("InternalIP", "192.0.2.1"),
        )
        status = core_v1.NodeStatus(
            addresses=tuple(core_v1.NodeAddress(type=kind, address=one) for kind, one in addresses)
        )
        found = core_v1.Node(metadata=meta_v1.ObjectMeta(name="a"), status=status)
        assert peer(found) == Peer("a", ("192.0.2.1",), ())

    def test_a_node_with_pod_cidr_alone(self) -> None:
        found = core_v1.Node(metadata=meta_v1.ObjectMeta(name="a"), spec=core_v1.NodeSpec(pod_cidr="10.1.1.0/24"))
        assert peer(found).pod_networks == ("10.1.1.0/24",)

    def test_networks_lose_bits_beyond_their_prefix(self) -> None:
        found = core_v1.Node(
            metadata=meta_v1.ObjectMeta(name="a"), spec=core_v1.NodeSpec(pod_cidrs=("10.1.1.7/24", "none"))
        )
        assert peer(found).pod_networks == ("10.1.1.0/24",)

    def test_simulated_nodes_have_no_pods_to_reach(self) -> None:
        found = node("a", ("192.0.2.1",), ("10.1.1.0/24",))
        found.metadata.annotations = {"bayplan.dev/simulated": "true"}
        assert peer(found) == Peer("a", ("192.0.2.1",), ())

    def test_address_of_a_version(self) -> None:
        assert (A.address(4), A.address(6), FAR.address(6)) == ("192.0.2.1", "2001:db8::1", None)


class TestUplink:
    INTERFACES = (
        {"ifname": "lo", "mtu": 65536, "addr_info": [{"local": "127.0.0.1", "prefixlen": 8, "scope": "host"}]},
        {
            "ifname": "eth0",
            "mtu": 1500,
            "addr_info": [
                {"local": "192.0.2.1", "prefixlen": 24, "scope": "global"},
                {"local": "2001:db8::1", "prefixlen": 64, "scope": "global"},
                {"local": "fe80::1", "prefixlen": 64, "scope": "link"},
            ],
        },
    )

    def test_interface_with_the_first_address_of_the_node(self) -> None:
        assert find_uplink(A, self.INTERFACES) == UPLINK

    def test_no_interface_has_the_address(self) -> None:
        with pytest.raises(NetworkError, match=r"no interface of this machine has 192\.0\.2\.2, the address of node b"):
            find_uplink(B, self.INTERFACES)

    def test_a_node_without_addresses(self) -> None:
        with pytest.raises(NetworkError, match="node c has no InternalIP"):
            find_uplink(Peer("c", (), ("10.1.3.0/24",)), self.INTERFACES)


class TestOverlay:
    def test_what_a_node_must_know_of_another(self) -> None:
        mark = hardware_address("b")
        assert entries(A, B, UPLINK, OVERLAY) == {
            Forwarding(mark, "192.0.2.2"),
            Route("10.1.2.0/24", "10.1.2.0", "bayplan-vxlan"),
            Neighbor("10.1.2.0", mark),
            Route("fd00:2::/64", "fd00:2::", "bayplan-vxlan"),
            Neighbor("fd00:2::", mark),
        }

    def test_nodes_of_other_subnets_are_reached(self) -> None:
        assert Forwarding(hardware_address("far"), "198.51.100.9") in entries(A, FAR, UPLINK, OVERLAY)
        assert unreachable(A, FAR, UPLINK, OVERLAY) == ""

    def test_pods_of_no_node_are_nowhere(self) -> None:
        assert entries(A, A, UPLINK, settings(cluster_networks=("10.1.0.0/16",))) == {Unreachable("10.1.0.0/16")}

    def test_nothing_is_known_of_itself_nor_of_nodes_without_pods(self) -> None:
        assert entries(A, A, UPLINK, OVERLAY) == frozenset()
        assert entries(A, Peer("c", ("192.0.2.3",), ()), UPLINK, OVERLAY) == frozenset()

    def test_a_node_without_an_address_of_the_tunnels_version(self) -> None:
        other = Peer("c", ("2001:db8::3",), ("fd00:3::/64",))
        assert entries(A, other, UPLINK, OVERLAY) == frozenset()
        assert "node c has no IPv4 address" in unreachable(A, other, UPLINK, OVERLAY)

    def test_hardware_addresses_are_local_and_of_one_node_each(self) -> None:
        names = [f"node-{number}" for number in range(1000)]
        found = {hardware_address(name) for name in names}
        assert len(found) == 1000
        assert all(one.startswith("02:") and len(one) == 17 for one in found)

    def test_the_tunnel_device(self) -> None:
        tunnel = make_tunnel(A, UPLINK, settings(vxlan_id=7, vxlan_port=4789))
        assert (tunnel.id, tunnel.port, tunnel.local, tunnel.device) == (7, 4789, "192.0.2.1", "eth0")
        assert (tunnel.mtu, tunnel.addresses) == (1450, ("10.1.1.0", "fd00:1::"))
        assert tunnel.hardware_address == hardware_address("a")


class TestRouted:
    def test_routes_through_the_nodes_addresses(self) -> None:
        assert entries(A, B, UPLINK, ROUTED) == {
            Route("10.1.2.0/24", "192.0.2.2", "eth0"),
            Route("fd00:2::/64", "2001:db8::2", "eth0"),
        }
        assert unreachable(A, B, UPLINK, ROUTED) == ""

    def test_nodes_of_other_subnets_need_a_router(self) -> None:
        assert entries(A, FAR, UPLINK, ROUTED) == frozenset()
        assert "use the overlay, or let routers know 10.1.9.0/24" in unreachable(A, FAR, UPLINK, ROUTED)

    def test_networks_of_a_version_without_address(self) -> None:
        other = Peer("c", ("192.0.2.3",), ("10.1.3.0/24", "fd00:3::/64"))
        assert entries(A, other, UPLINK, ROUTED) == {Route("10.1.3.0/24", "192.0.2.3", "eth0")}
        assert "node c has no IPv6 address to which fd00:3::/64" in unreachable(A, other, UPLINK, ROUTED)

    def test_a_node_can_reach_itself(self) -> None:
        assert unreachable(A, A._replace(addresses=("203.0.113.1",)), UPLINK, ROUTED) == ""


class TestMtu:
    def test_a_node_at_the_loopback_interface(self) -> None:
        assert pod_mtu(UPLINK._replace(device="lo", mtu=65536), ROUTED) == 1500

    @pytest.mark.parametrize(
        ("address", "changes", "expected"),
        [
            ("192.0.2.1", {}, 1450),
            ("2001:db8::1", {}, 1430),
            ("192.0.2.1", {"data_plane": DataPlane.ROUTED}, 1500),
            ("192.0.2.1", {"mtu": 1280}, 1280),
        ],
    )
    def test_headers_of_the_tunnel_are_left_free(self, address: str, changes: dict[str, object], expected: int) -> None:
        assert pod_mtu(UPLINK._replace(address=address), settings(**changes)) == expected


class TestSettings:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"node_name": ""}, "--hostname-override: the node's name is empty"),
            ({"mtu": 575}, "--mtu: 575 is not between 576 and 65535"),
            ({"mtu": 65536}, "--mtu: 65536 is not between"),
            ({"vxlan_id": 0}, "--vxlan-id: 0 is not between 1 and 16777215"),
            ({"vxlan_id": 1 << 24}, "--vxlan-id: 16777216 is not between"),
            ({"vxlan_device": "sixteen-letters-"}, "--vxlan-device: 'sixteen-letters-' is no name of a device"),
            ({"bridge": "a/b"}, "--bridge: 'a/b' is no name of a device"),
            ({"bridge": ""}, "--bridge: '' is no name"),
            ({"cluster_networks": ("10.1.0.1/16",)}, "--cluster-cidr: 10.1.0.1/16 has host bits set"),
            ({"cni_chain": ("portmap", "tuning")}, "--cni-chain: 'tuning' is none of portmap, bandwidth, firewall"),
        ],
    )
    def test_values_that_make_no_sense_are_named(self, changes: dict[str, object], message: str) -> None:
        with pytest.raises(SettingsError) as raised:
            settings(**changes)
        assert message in str(raised.value)

    def test_extremes_are_allowed(self) -> None:
        for mtu, identity in itertools.product((576, 65535), (1, (1 << 24) - 1)):
            assert NetworkSettings("a", mtu=mtu, vxlan_id=identity, vxlan_device="fifteen-letters").mtu == mtu
