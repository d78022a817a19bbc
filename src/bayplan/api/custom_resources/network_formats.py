"""Addresses of networks as Go parses them: IP, blocks of it, hardware, hosts and URIs.

Source of the behaviour: Go's `net.ParseIP`, `net.ParseMAC` and `url.ParseRequestURI`, `k8s.io/utils/net` (where leading zeros are allowed in numbers of IPv4), and
`kube-openapi/pkg/validation/strfmt`.
"""

from __future__ import annotations

import ipaddress
import re

from bayplan.api.custom_resources import patterns

_MAC = re.compile(
    r"[0-9a-fA-F]{2}(?:(?::[0-9a-fA-F]{2}){5}|(?::[0-9a-fA-F]{2}){7}|(?::[0-9a-fA-F]{2}){19}"
    r"|(?:-[0-9a-fA-F]{2}){5}|(?:-[0-9a-fA-F]{2}){7}|(?:-[0-9a-fA-F]{2}){19})"
    r"|[0-9a-fA-F]{4}(?:(?:\.[0-9a-fA-F]{4}){2}|(?:\.[0-9a-fA-F]{4}){3}|(?:\.[0-9a-fA-F]{4}){9})"
)
_QUAD = re.compile(r"(\d+)\.(\d+)\.(\d+)\.(\d+)", re.ASCII)
_LONGEST_HOST, _LONGEST_LABEL = 255, 63
_LETTER = r"a-zA-Z0-9\p{S}\p{L}"
_HOST = (
    rf"^([{_LETTER}]((-?[{_LETTER}]{{0,62}})?)|([{_LETTER}](([{_LETTER}-]{{0,61}}[{_LETTER}])?)(\.)){{1,}}"
    r"([a-zA-Z\p{L}]){2,63})$"
)
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_HOST_ESCAPE = re.compile(r"%(?!25)[0-7]", re.ASCII)
_HOST_FORBIDDEN = frozenset(" \\^`{|}#/:[]")
_DIGITS = re.compile(r"\d+", re.ASCII)
_PORT = re.compile(r"(?::\d*)?", re.ASCII)


def is_ip(text: str, *, sloppy: bool = False) -> bool:
    """Whether a text is an address of IPv4 or IPv6, without zone. sloppy: numbers of IPv4 may begin with zeros."""
    return is_ipv4(text) if sloppy and ":" not in text else _is_strict_ip(text)


def _is_strict_ip(text: str) -> bool:
    if "%" in text:
        return False
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_ipv4(text: str) -> bool:
    """Whether a text is an address of IPv4 (whose numbers may begin with zeros), or one of IPv6 that ends like one of IPv4."""
    if ":" in text:
        return "." in text and _is_sloppy_ipv6(text)
    found = _QUAD.fullmatch(text)
    return found is not None and all(int(number) <= 255 for number in found.groups())


def _is_sloppy_ipv6(text: str) -> bool:
    head, _, last = text.rpartition(":")
    if "." not in last:
        return _is_strict_ip(text)
    return is_ipv4(last) and _is_strict_ip(f"{head}:0.0.0.0")


def is_ipv6(text: str) -> bool:
    """Whether a text is an address of IPv6."""
    return ":" in text and _is_strict_ip(text)


def is_cidr(text: str) -> bool:
    """Whether a text is an address with the length of a prefix."""
    address, slash, length = text.partition("/")
    if not slash or _DIGITS.fullmatch(length) is None or len(length.lstrip("0")) > 3:
        return False
    if ":" in address:
        return _is_sloppy_ipv6(address) and int(length) <= 128
    return is_ipv4(address) and int(length) <= 32


def is_mac(text: str) -> bool:
    """Whether a text is a hardware address of 6, 8 or 20 bytes."""
    return _MAC.fullmatch(text) is not None


def is_hostname(text: str) -> bool:
    """Whether a text is the name of a host; symbols and letters of any language count as letters."""
    data = text.encode()
    return (
        len(data) <= _LONGEST_HOST
        and all(len(part) <= _LONGEST_LABEL for part in data.split(b"."))
        and patterns.matches(text, _HOST)
    )


def is_request_uri(text: str) -> bool:
    """Whether a text is an absolute URI or an absolute path."""
    if not text or any(letter < " " or letter == "\x7f" for letter in text):
        return False
    if text == "*":
        return True
    scheme = _SCHEME.match(text)
    if scheme is None and (text.startswith(":") or not text.startswith("/")):
        return False
    rest = (text[scheme.end() :] if scheme else text).partition("?")[0]
    if not rest.startswith("/"):
        return scheme is not None  # opaque: nothing more is looked at
    if scheme is not None and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        if not _is_authority(authority):
            return False
        rest = slash + path
    return _BAD_ESCAPE.search(rest) is None


def _is_authority(text: str) -> bool:
    user, at, host = text.rpartition("@")
    if at and (_USER.fullmatch(user) is None or _BAD_ESCAPE.search(user)):
        return False
    if host.startswith("["):
        inner, bracket, port = host[1:].rpartition("]")
        if not bracket or _PORT.fullmatch(port) is None:
            return False
        address, _, zone = inner.partition("%25")
        return is_ip(address) and ":" in address and _BAD_ESCAPE.search(zone) is None
    name, colon, port = host.rpartition(":")
    if colon and _PORT.fullmatch(colon + port) is None:
        return False
    name = name if colon else host
    return not (_HOST_FORBIDDEN & set(name)) and not _BAD_ESCAPE.search(name) and not _HOST_ESCAPE.search(name)
