"""Arithmetic of ranges, held against sets of numbers."""

from __future__ import annotations

import ipaddress
import itertools

from hypothesis import given
from hypothesis import strategies as st

from bayplan.network.policy.addresses import Family, merged, network_range, number_range_text, range_text, without

RANGES = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda pair: (min(pair), max(pair)))


def numbers(*ranges: tuple[int, int]) -> set[int]:
    return {number for first, last in ranges for number in range(first, last + 1)}


@given(st.lists(RANGES, max_size=6))
def test_merged_ranges_have_the_same_numbers_and_gaps_between_them(ranges: list[tuple[int, int]]) -> None:
    found = merged(ranges)
    assert numbers(*found) == numbers(*ranges)
    assert all(left[1] + 1 < right[0] for left, right in itertools.pairwise(found))


@given(RANGES, st.lists(RANGES, max_size=6))
def test_without_holes_the_rest_is_left(whole: tuple[int, int], holes: list[tuple[int, int]]) -> None:
    left = without(whole, holes)
    assert numbers(*left) == numbers(whole) - numbers(*holes)
    assert all(first <= last for first, last in left)


@given(st.integers(0, 2**32 - 1), st.integers(0, 32))
def test_a_network_is_a_range_whatever_bits_follow_its_prefix(address: int, prefix: int) -> None:
    network = ipaddress.ip_network((address, prefix), strict=False)
    text = f"{ipaddress.IPv4Address(address)}/{prefix}"
    assert network_range(text) == (int(network[0]), int(network[-1]))


def test_ranges_are_written_as_nftables_reads_them() -> None:
    assert range_text((167772160, 167772160), Family.IPV4) == "10.0.0.0"
    assert range_text((167772160, 167772161), Family.IPV4) == "10.0.0.0-10.0.0.1"
    assert range_text((1, 2), Family.IPV6) == "::1-::2"
    assert (number_range_text((80, 80)), number_range_text((80, 81))) == ("80", "80-81")


def test_the_last_addresses_are_those_of_the_families() -> None:
    assert range_text((0, Family.IPV4.last), Family.IPV4) == "0.0.0.0-255.255.255.255"
    assert range_text((0, Family.IPV6.last), Family.IPV6) == "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
