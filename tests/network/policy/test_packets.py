"""Policies with real packets: pods as network namespaces, the tables of their node in the real kernel."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.namespaces import needs_namespaces
from tests.network.policy import objects as make
from tests.network.policy.judged import Judged
from tests.network.policy.namespaces import DENIED, Datagrams, connected, connects, denied, network, reached
from tests.network.policy.objects import apps, block, from_pods, port

pytestmark = needs_namespaces

FAMILIES = pytest.mark.parametrize("family", [0, 1], ids=["IPv4", "IPv6"])


@pytest.fixture(params=["bridge", "ptp"])
def judged(request: pytest.FixtureRequest) -> Iterator[Judged]:
    with network(request.param) as made:
        yield Judged(made)


@pytest.fixture
def routed() -> Iterator[Judged]:
    with network() as made:
        yield Judged(made)


@FAMILIES
def test_default_deny_cuts_both_directions_off(judged: Judged, family: int) -> None:
    web, api, db = (judged.address(name, family) for name in ("web", "api", "db"))
    ways = [("api", web), ("db", web), ("web", api), ("web", db), ("api", db), ("db", api)]
    tries = [(judged.pod(name), target, 80) for name, target in ways]
    assert reached(tries, [True] * 6) == [True] * 6
    judged.apply(make.policy("deny", apps("web"), ingress=[]))
    expected = [False, False, True, True, True, True]
    assert reached(tries, expected) == expected
    judged.apply(make.policy("deny", apps("web"), ingress=[], egress=[]))
    expected = [False, False, False, False, True, True]
    assert reached(tries, expected) == expected
    judged.state.remove_policy("shop", "deny")
    judged.apply()
    assert reached(tries, [True] * 6) == [True] * 6


@FAMILIES
def test_a_node_reaches_its_own_pods_and_no_others(judged: Judged, family: int) -> None:
    judged.apply(make.policy("deny", ingress=[], egress=[]))
    web = judged.address("web", family)
    assert connects(judged.network.here, web, 80)
    assert denied(judged.network.there, web, 80)


def test_pods_that_take_their_nodes_address_are_not_their_node(routed: Judged) -> None:
    routed.apply(make.policy("deny", apps("web"), ingress=[]))
    routed.pod("api").ip("address add 192.0.2.1/32 dev eth0")
    thief = routed.pod("api").socket("192.0.2.1", socket.SOCK_DGRAM)
    with thief, routed.pod("web").socket("0.0.0.0", socket.SOCK_DGRAM) as victim:
        routed.network.here.write("ipv4/conf/all/rp_filter", "0")
        thief.bind(("192.0.2.1", 5000))
        victim.bind((routed.address("web", 0), 5000))
        victim.settimeout(DENIED)
        thief.sendto(b"x", (routed.address("web", 0), 5000))
        with pytest.raises(TimeoutError):
            victim.recv(10)


@FAMILIES
def test_what_a_pod_sends_to_its_node_is_judged(judged: Judged, family: int) -> None:
    node = ("192.0.2.1", "fd02::1")[family]
    judged.network.listen(judged.network.here, node, 80)
    assert connects(judged.pod("web"), node, 80)
    judged.apply(make.policy("deny", apps("web"), egress=[]))
    assert denied(judged.pod("web"), node, 80)
    assert connects(judged.pod("api"), node, 80)
    judged.apply(make.policy("allow", apps("web"), egress=[([block(node + ("/32", "/128")[family])], [port(80)])]))
    assert connects(judged.pod("web"), node, 80)


@FAMILIES
def test_an_established_connection_ends_when_it_is_no_longer_allowed(judged: Judged, family: int) -> None:
    for client, server in (("api", "web"), ("db", "web"), ("web", "db")):
        judged.apply(make.policy("p", apps("web"), ingress=[make.EVERYTHING], egress=[make.EVERYTHING]))
        address = judged.address(server, family)
        listener = judged.pod(server).socket(address)
        with listener:
            listener.bind((address, 90))
            listener.listen()
            (near,) = connected([(judged.pod(client), address, 90)], 3)
            assert near is not None
            far, _ = listener.accept()
            with near, far:
                talks(near, far, b"before")
                talks(far, near, b"before")
                judged.apply(make.policy("p", apps("web"), ingress=[], egress=[]))
                is_silent(near, far)
                is_silent(far, near)
                judged.apply(make.policy("p", apps("web"), ingress=[make.EVERYTHING], egress=[make.EVERYTHING]))
                far.settimeout(5)
                assert far.recv(100) == b"unheard"


def talks(sender: socket.socket, receiver: socket.socket, text: bytes) -> None:
    sender.settimeout(3)
    receiver.settimeout(3)
    sender.send(text)
    assert receiver.recv(100) == text


def is_silent(sender: socket.socket, receiver: socket.socket) -> None:
    receiver.settimeout(DENIED)
    sender.send(b"unheard")
    with pytest.raises(TimeoutError):
        receiver.recv(100)


@FAMILIES
def test_datagrams_and_their_answers_end_when_they_are_no_longer_allowed(judged: Judged, family: int) -> None:
    for client, server in (("api", "web"), ("db", "web"), ("web", "db")):
        judged.apply(make.policy("p", apps("web"), ingress=[make.EVERYTHING], egress=[make.EVERYTHING]))
        with Datagrams(judged.pod(client), judged.pod(server), judged.address(server, family), 53) as way:
            assert way.asks()
            assert way.answers()
            judged.apply(make.policy("p", apps("web"), ingress=[], egress=[]))
            assert not way.asks(DENIED)
            assert not way.answers(DENIED)
            only: list[make.Rule] = [([], [port(53, "UDP")])]
            judged.apply(make.policy("p", apps("web"), ingress=only, egress=only))
            assert way.asks()
            assert way.answers()


@FAMILIES
def test_replies_pass_though_the_client_may_not_be_reached(judged: Judged, family: int) -> None:
    judged.apply(make.policy("deny", apps("web"), ingress=[]))
    with Datagrams(judged.pod("web"), judged.pod("db"), judged.address("db", family), 53) as way:
        assert way.asks()
        assert way.answers()
    judged.apply(make.policy("deny", apps("web"), ingress=[make.EVERYTHING], egress=[]))
    with Datagrams(judged.pod("db"), judged.pod("web"), judged.address("web", family), 53) as way:
        assert way.asks()
        assert way.answers()


@FAMILIES
def test_ports_by_number_range_and_name(judged: Judged, family: int) -> None:
    web = judged.address("web", family)
    tries = [(judged.pod("db"), web, number) for number in (80, 81, 82)]
    for ports, expected in (
        ([port(81)], [False, True, False]),
        ([port(81, end=82)], [False, True, True]),
        ([port("http")], [True, False, False]),
        ([port("nobody")], [False, False, False]),
        ([port(None, "UDP")], [False, False, False]),
        ([port(80, "SCTP"), port(82)], [False, False, True]),
        ([port(None)], [True, True, True]),
    ):
        judged.apply(make.policy("p", apps("web"), ingress=[([], ports)]))
        assert reached(tries, expected) == expected


@FAMILIES
def test_blocks_with_exceptions_both_ways(judged: Judged, family: int) -> None:
    api, db = judged.address("api", family), judged.address("db", family)
    everything = ("0.0.0.0/0", "::/0")[family]
    whole_length = ("/32", "/128")[family]
    tries = [(judged.pod("web"), api, 80), (judged.pod("web"), db, 80)]
    for holes, expected in (((), [True, True]), ((db + whole_length,), [True, False]), ((everything,), [False, False])):
        judged.apply(make.policy("p", apps("web"), egress=[([block(everything, *holes)], [])]))
        assert reached(tries, expected) == expected
    judged.state.remove_policy("shop", "p")
    back = [(judged.pod(name), judged.address("web", family), 80) for name in ("api", "db")]
    judged.apply(make.policy("q", apps("web"), ingress=[([block(everything, api + whole_length)], [])]))
    assert reached(back, [False, True]) == [False, True]


def service(judged: Judged, family: int, endpoint: str) -> str:
    """A service address of which the node makes the address of one endpoint, with the node's own for a pod that reaches itself, as kube-proxy does."""
    words, virtual = (("ip", "10.96.0.9"), ("ip6", "fd96::9"))[family]
    target = judged.address(endpoint, family)
    shown = f"[{target}]" if family else target
    judged.network.here.nft(
        f"table {words} services {{\n"
        f"chain incoming {{ type nat hook prerouting priority dstnat; {words} daddr {virtual} tcp dport 8000 dnat to {shown}:80; }}\n"
        f"chain outgoing {{ type nat hook output priority -100; {words} daddr {virtual} tcp dport 8000 dnat to {shown}:80; }}\n"
        f"chain leaving {{ type nat hook postrouting priority srcnat; {words} saddr {target} {words} daddr {target} masquerade; }}\n"
        "}\n"
    )
    return virtual


@FAMILIES
def test_services_are_judged_by_their_endpoints(judged: Judged, family: int) -> None:
    virtual = service(judged, family, "db")
    assert connects(judged.pod("web"), virtual, 8000)
    everything = ("0.0.0.0/0", "::/0")[family]
    all_but_it = block(everything, judged.address("db", family) + ("/32", "/128")[family])
    for rule, expected in (
        (([from_pods("api")], []), False),
        (([all_but_it], []), False),
        (([from_pods("db")], [port(8000)]), False),
        (([from_pods("db")], [port(80)]), True),
        (([from_pods("db")], [port("http")]), True),
    ):
        judged.apply(make.policy("p", apps("web"), egress=[rule]))
        assert (connects if expected else denied)(judged.pod("web"), virtual, 8000)


@FAMILIES
def test_a_pod_reaches_itself_through_a_service_whatever_policies_say(judged: Judged, family: int) -> None:
    virtual = service(judged, family, "web")
    assert connects(judged.pod("web"), virtual, 8000)
    judged.apply(make.policy("deny", ingress=[], egress=[]))
    assert connects(judged.pod("web"), virtual, 8000)
    assert connects(judged.network.here, virtual, 8000)
    assert denied(judged.pod("api"), virtual, 8000)


def test_errors_about_allowed_connections_pass(routed: Judged) -> None:
    """A router between pods tells that a packet is too big (ICMP); rules with ports must not stop that."""
    for node in (routed.network.here, routed.network.there):
        node.ip("link set uplink mtu 1300")
    routed.apply(make.policy("p", apps("web"), egress=[([from_pods("db")], [port(90)])], ingress=[]))
    address = routed.address("db", 0)
    with routed.pod("db").socket(address) as listener:
        listener.bind((address, 90))
        listener.listen()
        (near,) = connected([(routed.pod("web"), address, 90)], 3)
        assert near is not None
        far, _ = listener.accept()
        with near, far:
            near.settimeout(3)
            near.sendall(b"x" * 100_000)
            far.settimeout(3)
            count = 0
            while count < 100_000:
                count += len(far.recv(65_536))
    assert "10.9.2" in routed.pod("web").command("ip", "route", "show", "cache")


def test_packets_of_no_connection_do_not_pass(routed: Judged) -> None:
    """TCP with impossible flags is of no connection for conntrack: an isolated pod gets and sends none, others do."""
    for first, second in (("db", "web"), ("web", "db")):
        assert gets_nonsense(routed, first, second)
    routed.apply(make.policy("deny", apps("web"), ingress=[]))
    assert [gets_nonsense(routed, *pair) for pair in (("db", "web"), ("web", "db"))] == [False, True]
    routed.apply(make.policy("deny", apps("web"), egress=[]))
    assert [gets_nonsense(routed, *pair) for pair in (("db", "web"), ("web", "db"))] == [True, False]


def test_a_starting_pod_gets_no_packets_of_no_connection(routed: Judged) -> None:
    routed.network.add_pod("new")
    assert gets_nonsense(routed, "db", "new")
    routed.put(make.pod("new"))
    routed.apply(make.policy("deny", apps("new"), ingress=[]))
    assert [gets_nonsense(routed, *pair) for pair in (("db", "new"), ("new", "db"))] == [False, True]
    routed.apply(make.policy("deny", apps("new"), egress=[]))
    assert [gets_nonsense(routed, *pair) for pair in (("db", "new"), ("new", "db"))] == [True, False]


def gets_nonsense(judged: Judged, sender: str, receiver: str) -> bool:
    """Whether a TCP segment without any flag arrives, for which a quarter of a second is ample."""
    source, target = judged.address(sender, 0), judged.address(receiver, 0)
    packet = tcp_without_flags(source, target)
    there = judged.pod(receiver).run(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP))
    here = judged.pod(sender).run(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP))
    with here, there:
        there.settimeout(DENIED)
        here.sendto(packet, (target, 0))
        try:
            return there.recv(1000)[20:24] == packet[:4]
        except TimeoutError:
            return False


def tcp_without_flags(source: str, target: str) -> bytes:
    """A TCP segment from port 7 to port 9 that has no flag set."""
    header = bytes([0, 7, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 16, 0, 0, 0, 0, 0])
    pseudo = socket.inet_aton(source) + socket.inet_aton(target) + bytes([0, 6, 0, 20]) + header
    total = sum(int.from_bytes(pseudo[index : index + 2], "big") for index in range(0, len(pseudo), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return header[:16] + (~total & 0xFFFF).to_bytes(2, "big") + header[18:]


@FAMILIES
def test_a_starting_pod_is_isolated_before_its_address_is_known(judged: Judged, family: int) -> None:
    judged.put(make.pod("new"))
    judged.apply(make.policy("p", apps("new"), ingress=[([from_pods("api")], [])], egress=[]))
    addresses = judged.network.add_pod("new")
    for address in addresses:
        judged.network.listen(judged.pod("new"), address, 80)
    new, db = addresses[family], judged.address("db", family)
    assert denied(judged.pod("db"), new, 80)
    assert denied(judged.pod("api"), new, 80)
    assert denied(judged.pod("new"), db, 80)
    assert connects(judged.network.here, new, 80)
    assert connects(judged.pod("db"), judged.address("web", family), 80)
    node = ("192.0.2.1", "fd02::1")[family]
    judged.network.listen(judged.network.here, node, 80)
    assert denied(judged.pod("new"), node, 80)
    gateway = ("10.9.1.1", "fd09:1::1")[family]
    judged.network.listen(judged.network.here, gateway, 80)
    assert connects(judged.network.here, gateway, 80)
    judged.put(make.pod("new", *addresses))
    judged.apply()
    assert connects(judged.pod("api"), new, 80)
    assert denied(judged.pod("db"), new, 80)
    assert denied(judged.pod("new"), db, 80)
