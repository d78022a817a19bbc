"""Formats of strings, each with values on both sides of its border."""

from __future__ import annotations

import pytest

from bayplan.api.errors import FieldError
from bayplan.api.validation import fields
from bayplan.api.validation.values import formats


@pytest.mark.parametrize("value", ["a", "a-b", "0", "a" * 63])
def test_labels_that_are_valid(value: str) -> None:
    assert formats.dns_label(value) == ()


@pytest.mark.parametrize(
    ("value", "beginning"),
    [
        ("", "a lowercase RFC 1123 label"),
        ("A", "a lowercase RFC 1123 label"),
        ("-a", "a lowercase RFC 1123 label"),
        ("a.b", "must not contain dots"),
        ("a" * 64, "must be no more than 63 characters"),
    ],
)
def test_labels_that_are_not(value: str, beginning: str) -> None:
    assert formats.dns_label(value)[0].startswith(beginning)


@pytest.mark.parametrize(
    ("value", "beginnings"),
    [
        ("a", ()),
        ("example.com/a", ()),
        ("/a", ("prefix part must be non-empty",)),
        ("a/", ("name part must be non-empty", "name part must consist")),
        ("a/b/c", ("a valid label key must consist",)),
        ("x" * 64, ("name part must be no more than 63 bytes",)),
        ("x" * 254 + "/a", ("prefix part must be no more than 253 bytes",)),
    ],
)
def test_label_keys(value: str, beginnings: tuple[str, ...]) -> None:
    messages = formats.label_key(value)
    assert len(messages) == len(beginnings)
    assert all(map(str.startswith, messages, beginnings))


@pytest.mark.parametrize(
    ("value", "parsed"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("010.000.0.01", "10.0.0.1"),
        ("2001:DB8::1", "2001:db8::1"),
        ("10.0.0", None),
        ("10.0.0.256", None),
        ("", None),
        ("fe80::1%eth0", None),
    ],
)
def test_ip_addresses_are_parsed_as_go_did(value: str, parsed: str | None) -> None:
    found = fields.parse_ip(value)
    assert (None if found is None else str(found)) == parsed


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("10.0.0.0/8", ""),
        ("10.0.0.1/8", "must not have bits set beyond the prefix length"),
        ("010.0.0.0/8", "must not have leading 0s in IP or prefix length"),
        ("10.0.0.0/08", "must not have leading 0s in IP or prefix length"),
        ("::ffff:10.0.0.0/104", "must not have an IPv4-mapped IPv6 address"),
        ("10.0.0.0", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
        ("10.0.0.0/33", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
    ],
)
def test_networks(value: str, message: str) -> None:
    errors: list[FieldError] = []
    fields.check_cidr(errors, "spec.cidr", value)
    assert [error.detail for error in errors] == ([message] if message else [])


@pytest.mark.parametrize(
    ("value", "count"), [("http", 0), ("a-b", 0), ("80", 1), ("a--b", 1), ("-a", 1), ("x" * 16, 1), ("", 2)]
)
def test_port_names(value: str, count: int) -> None:
    assert len(formats.port_name(value)) == count
