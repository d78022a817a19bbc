"""Networks read as numbers are those of `ipaddress`."""

from __future__ import annotations

import ipaddress
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bayplan.api.errors import FieldError
from bayplan.api.validation.fields import check_cidr
from bayplan.api.validation.ip_warnings import MOST_WARNINGS, cidr_list_warnings, cidr_warnings
from bayplan.api.validation.values.cidrs import Cidr, ipv6_text, is_plain_cidr, read_ipv6, strict_cidr
from bayplan.apiserver.http.warnings import warning_headers

_GROUP = st.sampled_from(
    ["0", "00", "1", "0db8", "2001", "FFFF", "ffff", "12345", "g", "", "a.b", "1.2.3.4", "01.2.3.4"]
)
_IPV6 = st.lists(_GROUP, min_size=1, max_size=9).map(":".join)
_IPV4 = st.lists(st.sampled_from(["0", "1", "10", "010", "255", "256", ""]), min_size=3, max_size=5).map(".".join)
_LENGTH = st.sampled_from(
    ["", "/", "/0", "/8", "/08", "/16", "/32", "/33", "/64", "/096", "/128", "/129", "/1000", "/x"]
)
_CIDR = st.builds(str.__add__, _IPV4 | _IPV6, _LENGTH)


def _parsed(text: str) -> ipaddress.IPv6Address | None:
    try:
        return ipaddress.IPv6Address(text)
    except ValueError:
        return None


@given(_IPV6)
@example("::")
@example("::2:3:4:5:6:7:8")
@example("1:2:3:4:5:6:7::")
@example("1:2:3:4::5:6:7:8")
@example("1:2:3:4:5:6:7:8::")
@example("::1::")
@example(":1::2")
@example("::10.1.2.3")
@example("1:2:3:4:5:6:1.2.3.4")
@example("1:2:3:4:5:6:7:1.2.3.4")
@example("1.2.3.4::")
@example(".::1")
@example("::1\n")
def test_ipv6_addresses_are_read_as_by_ipaddress(text: str) -> None:
    expected = _parsed(text)
    assert read_ipv6(text) == (None if expected is None else int(expected))


@given(st.lists(st.sampled_from([0, 0, 1, 0x10, 0xFFFF]), min_size=8, max_size=8))
@example([0] * 8)
@example([1] * 8)
@example([0, 0, 1, 0, 0, 1, 0, 0])
@example([1, 0, 0, 1, 0, 0, 0, 1])
@example([0x10, 0, 1, 1, 0, 0, 1, 1])
def test_ipv6_addresses_are_written_as_by_ipaddress(groups: list[int]) -> None:
    address = int("".join(f"{group:04x}" for group in groups), 16)
    if address >> 32 != 0xFFFF:
        assert ipv6_text(address) == str(ipaddress.IPv6Address(address))
        spelled_out = f"{':'.join(f'{group:x}' for group in groups)}/128"
        assert is_plain_cidr(spelled_out) is (ipv6_text(address) == spelled_out.removesuffix("/128"))


@given(_CIDR)
@example("2001:db8::/32")
@example("1:0:2::3:0:0:0/80")
@example("1:0:2::3:0/128")
@example("1:0::2/128")
@example("1::0:2/128")
@example("1:2:3:4:5:6::8/128")
@example("1:2:3:4::7:8/128")
@example("10.0.0.1/8")
@example("10.0.0.0/8\n")
@example("٣.0.0.0/8")
@example("::ffff:10.0.0.0/104")
def test_networks_are_strict_if_ipaddress_says_so(value: str) -> None:
    text, _, length = value.partition("/")
    try:
        expected = ipaddress.ip_network(value) if re.fullmatch("0|[1-9][0-9]*", length) else None
    except ValueError:
        expected = None
    if isinstance(expected, ipaddress.IPv6Network) and expected.network_address.ipv4_mapped:
        expected = None
    found, errors = strict_cidr(value), list[FieldError]()
    assert found == (expected and Cidr(expected.version, int(expected.network_address), expected.prefixlen))
    assert check_cidr(errors, "f", value) or expected is None
    assert (not errors) == (expected is not None)
    if expected is not None:
        warned = [f'f: IPv6 CIDR value "{value}" should be in RFC 5952 canonical format ("{expected}")']
        assert cidr_warnings("f", value) == (warned if str(expected) != value else [])
        assert not is_plain_cidr(value) or str(expected) == value
        assert str(ipaddress.ip_address(text)) == text or expected.version == 6


@pytest.mark.parametrize(
    ("part", "whole", "inside"),
    [
        ("10.1.0.0/16", "10.0.0.0/8", True),
        ("10.0.0.0/8", "10.0.0.0/8", False),
        ("10.0.0.0/8", "10.0.0.0/16", False),
        ("11.0.0.0/16", "10.0.0.0/8", False),
        ("10.0.0.0/16", "::/0", False),
        ("2001:db8::/32", "2001::/16", True),
    ],
)
def test_a_network_is_strictly_inside_of_another(part: str, whole: str, inside: bool) -> None:
    one, other = strict_cidr(part), strict_cidr(whole)
    assert one is not None
    assert other is not None
    assert one.is_strictly_inside(other) is inside


@pytest.mark.parametrize(
    ("value", "ambiguous", "advised"),
    [
        ("10.0.0.1/24", "10.0.0.1/32", ""),
        ("10.0.0.1/8", "10.0.0.1/32", ""),
        ("10.0.0.0/0", "10.0.0.0/32", ""),
        ("10.0.0.0/08", "", "10.0.0.0/8"),
        ("010.0.0.0/8", "", "10.0.0.0/8"),
        ("10.0.0.1/024", "10.0.0.1/32", "10.0.0.0/24"),
        ("2001:db8::1/64", "2001:db8::1/128", ""),
    ],
)
def test_networks_that_read_in_two_ways_are_told_from_those_that_are_spelled_otherwise(
    value: str, ambiguous: str, advised: str
) -> None:
    found = cidr_warnings("f", value)
    assert [f'or "{ambiguous}"?' in text for text in found if "ambiguous" in text] == [True] * bool(ambiguous)
    assert [f'use "{advised}"' in text for text in found if "non-standard" in text] == [True] * bool(advised)
    assert len(found) == bool(ambiguous) + bool(advised)


def test_warnings_about_networks_end_where_an_answer_cannot_tell_more() -> None:
    odd = [f"2001:DB8::{one:x}/128" for one in range(1, MOST_WARNINGS + 100)]
    all_of_them = [text for index, one in enumerate(odd) for text in cidr_warnings(f"f[{index}]", one)]
    found = cidr_list_warnings("f", odd)
    assert found == all_of_them[:MOST_WARNINGS]
    assert warning_headers([*found, "another"]) == warning_headers([*all_of_them, "another"])
    shortest = [str(number) for number in range(2 * MOST_WARNINGS)]
    assert warning_headers(shortest[:MOST_WARNINGS]) == warning_headers(shortest)
