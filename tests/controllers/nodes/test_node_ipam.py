from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.controllers.nodes import node_ttl
from bayplan.controllers.nodes.node_ipam import NetworkRange, RangeFull, ranges


def test_networks_are_given_in_order_and_none_that_is_in_use() -> None:
    (one,) = ranges(["10.0.0.0/22"], 24, 64)
    one.occupy(ipaddress.ip_network("10.0.1.128/25"))
    assert [str(one.take()) for _ in range(3)] == ["10.0.0.0/24", "10.0.2.0/24", "10.0.3.0/24"]
    with pytest.raises(RangeFull):
        one.take()
    one.release(ipaddress.ip_network("10.0.2.0/24"))
    assert str(one.take()) == "10.0.2.0/24"


def test_a_network_that_was_given_back_waits_until_the_others_were_given() -> None:
    (one,) = ranges(["10.0.0.0/22"], 24, 64)
    first = one.take()
    one.release(first)
    assert one.take() != first


def test_networks_outside_do_not_matter_and_large_ones_count_as_a_whole() -> None:
    (one,) = ranges(["10.0.0.0/22"], 24, 64)
    one.occupy(ipaddress.ip_network("192.168.0.0/16"))
    one.occupy(ipaddress.ip_network("fd00::/64"))
    one.occupy(ipaddress.ip_network("10.0.0.0/23"))
    assert str(one.take()) == "10.0.2.0/24"


def test_each_family_has_its_own_size() -> None:
    assert [str(one.take()) for one in ranges(["10.0.0.0/16", "fd00::/48"], 24, 64)] == ["10.0.0.0/24", "fd00::/64"]


def test_nodes_must_fit_into_the_cluster() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        ranges(["10.0.0.0/25"], 24, 64)


@given(st.lists(st.integers(-1, 15), max_size=60))
def test_no_network_is_given_twice(moves: list[int]) -> None:
    """-1 takes a network, another number gives back the one that was taken in that place."""
    one = NetworkRange(ipaddress.ip_network("10.0.0.0/20"), 24)
    held: list[object] = []
    for move in moves:
        if move < 0 and len(held) < 16:
            network = one.take()
            assert network not in held
            held.append(network)
        elif 0 <= move < len(held):
            one.release(held.pop(move))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("nodes", "before", "seconds"),
    [(1, 0, 0), (100, 0, 0), (101, 0, 15), (95, 1, 15), (89, 1, 0), (3000, 0, 300), (0, 4, 0), (1850, 4, 300)],
)
def test_many_nodes_keep_objects_longer(nodes: int, before: int, seconds: int) -> None:
    assert node_ttl.seconds_at(node_ttl.step_for(nodes, before)) == seconds
