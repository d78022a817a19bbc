"""Rules for one field. `path` is the field's path; errors are added to `errors`."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from bayplan.api.errors import FieldError, duplicate, forbidden, invalid, required, too_long, unsupported
from bayplan.api.types import meta_v1
from bayplan.api.validation.go_structs import shown_later
from bayplan.api.validation.values import formats
from bayplan.api.validation.values.cidrs import read_ipv6, read_octets, strict_cidr
from bayplan.support.memory.memo import memoized

Errors = list[FieldError]

IMMUTABLE: Final = "field is immutable"
NOT_NEGATIVE: Final = "must be greater than or equal to 0"
GREATER_THAN_ZERO: Final = "must be greater than zero"
_encode = msgspec.json.Encoder().encode
_LEADING_ZERO = re.compile(r"(?:^|\.)0\d")


def check_format(errors: Errors, path: str, value: str, rule: Callable[[str], formats.Messages]) -> None:
    """A string follows a format of `bayplan.api.validation.values.formats`."""
    for message in rule(value):
        errors.append(invalid(path, value, message))


def check_one_of(errors: Errors, path: str, value: str, supported: Sequence[str], *, needed: bool = True) -> None:
    """A string is one of a closed set; an empty one is missing if it is needed."""
    if value not in supported:
        errors.append(unsupported(path, value, supported) if value or not needed else required(path))


def check_not_negative(errors: Errors, path: str, value: int | None) -> None:
    """A number, if given, is 0 or more."""
    if value is not None and value < 0:
        errors.append(invalid(path, value, NOT_NEGATIVE))


def check_unchanged(errors: Errors, path: str, new: Any, old: Any) -> None:
    """A field keeps its value."""
    if new != old:
        errors.append(invalid(path, shown_later(new), IMMUTABLE))


def null_if_empty(value: Any) -> Any:
    """How Go shows a missing list or map: null."""
    return None if value == () or value == {} else value


def check_key_format(errors: Errors, path: str, value: str) -> None:
    """A label key."""
    for message in formats.label_key(value):
        errors.append(invalid(path, value, message))


def check_labels(errors: Errors, path: str, labels: Mapping[str, str]) -> None:
    """A map of labels; errors name the map, as Kubernetes' do."""
    for key, value in labels.items():
        for message in formats.label_key(key):
            errors.append(invalid(path, key, message))
        for message in formats.label_value(value):
            errors.append(invalid(path, value, message))


def check_label_selector(errors: Errors, path: str, selector: meta_v1.LabelSelector | None) -> None:
    """A `LabelSelector` object, if given."""
    if selector is None:
        return
    if selector.match_labels:
        check_labels(errors, f"{path}.matchLabels", selector.match_labels)
    for index, expression in enumerate(selector.match_expressions):
        check_label_requirement(errors, f"{path}.matchExpressions[{index}]", expression)


def check_label_requirement(errors: Errors, path: str, requirement: meta_v1.LabelSelectorRequirement) -> None:
    """One expression about a label."""
    check_operator(errors, path, requirement.operator, requirement.values)
    check_key_format(errors, f"{path}.key", requirement.key)
    for position, value in enumerate(requirement.values):
        for message in formats.label_value(value):
            errors.append(invalid(f"{path}.values[{position}]", value, message))


def check_operator(errors: Errors, path: str, operator: str, values: Sequence[str]) -> None:
    """The operator of an expression, and whether it goes with values."""
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{path}.values", text))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))


def check_port_number(errors: Errors, path: str, port: int) -> None:
    """A port from 1 to 65535."""
    for message in formats.port_number(port):
        errors.append(invalid(path, port, message))


def check_port_number_or_name(errors: Errors, path: str, port: int | str) -> None:
    """A port by number or by name."""
    if isinstance(port, int):
        check_port_number(errors, path, port)
    else:
        for message in formats.port_name(port):
            errors.append(invalid(path, port, message))


@memoized(2048)
def parse_ip(value: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address, leading zeros in its parts allowed (Go's old parser); None if it is none."""
    if octets := read_octets(value):
        one, two, three, four = map(int, octets.groups())
        return ipaddress.IPv4Address(one << 24 | two << 16 | three << 8 | four)
    if ":" in value:
        number = read_ipv6(value)
        return None if number is None else ipaddress.IPv6Address(number)
    stripped = without_leading_zeros(value)
    if stripped == value:
        return None
    try:
        return ipaddress.IPv4Address(stripped)
    except ValueError:
        return None


def without_leading_zeros(value: str) -> str:
    """`010.001.0.1` as `10.1.0.1`."""
    return ".".join(part.lstrip("0") or "0" if part.isdigit() else part for part in value.split("."))


def check_ip(errors: Errors, path: str, value: str, *, strict: bool = True) -> bool:
    """An IP address; strict ones have no leading zeros and are not IPv4 inside IPv6. Returns whether it parses."""
    address = parse_ip(value)
    if address is None:
        errors.append(invalid(path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"))
        return False
    if strict:
        if address.version == 4 and _LEADING_ZERO.search(value):
            errors.append(invalid(path, value, "must not have leading 0s"))
        elif isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
            errors.append(invalid(path, value, "must not be an IPv4-mapped IPv6 address"))
    return True


def ip_messages(value: str) -> formats.Messages:
    """What is wrong with a name that is an IP address: strict, in canonical spelling."""
    errors: Errors = []
    check_ip(errors, "", value)
    if not errors and str(parse_ip(value)) != value:
        return (f'must be in canonical form ("{parse_ip(value)}")',)
    return tuple(error.detail for error in errors)


_NUMBER = re.compile(r"[+-]?\d+", re.ASCII)
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@memoized(16384)
def parse_cidr(value: str) -> Network | None:
    """The network of a CIDR, host bits cut off and leading zeros allowed; None if it is none."""
    address, slash, length = value.partition("/")
    parsed = parse_ip(address)
    if not slash or parsed is None or not length.isascii() or not length.isdigit():
        return None
    try:
        return _network(parsed, int(length))
    except ValueError:
        return None


def _network(address: ipaddress.IPv4Address | ipaddress.IPv6Address, length: int) -> Network:
    """The network of an address. Raises ValueError for a length that it cannot have."""
    host = address.max_prefixlen - length
    first = int(address) >> host << host if host >= 0 else 0
    if address.version == 4:
        return ipaddress.IPv4Network((first, length))
    return ipaddress.IPv6Network((first, length))


def check_cidr(errors: Errors, path: str, value: str, *, strict: bool = True) -> bool:
    """A CIDR; strict ones have neither leading zeros nor bits beyond the prefix. Returns whether it parses."""
    if strict and strict_cidr(value) is not None:
        return True
    network = parse_cidr(value)
    if network is None:
        errors.append(invalid(path, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"))
        return False
    if strict:
        address, _, length = value.partition("/")
        parsed = parse_ip(address)
        if (network.version == 4 and _LEADING_ZERO.search(address)) or (len(length) > 1 and length[0] == "0"):
            errors.append(invalid(path, value, "must not have leading 0s in IP or prefix length"))
        elif isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped:
            errors.append(invalid(path, value, "must not have an IPv4-mapped IPv6 address"))
        elif parsed != network.network_address:
            errors.append(invalid(path, value, "must not have bits set beyond the prefix length"))
    return True


def check_canonical_cidr(errors: Errors, path: str, value: str) -> None:
    """A strict CIDR in canonical spelling."""
    before = len(errors)
    check_cidr(errors, path, value)
    if len(errors) == before and str(parse_cidr(value)) != value:
        errors.append(invalid(path, value, f'must be in canonical form ("{parse_cidr(value)}")'))


def is_percent(value: int | str) -> bool:
    """Whether an IntOrString is a percentage."""
    return isinstance(value, str) and value.endswith("%") and value[:-1].isascii() and value[:-1].isdigit()


def check_int_or_percent(errors: Errors, path: str, value: int | str) -> None:
    """A number of 0 or more, or a percentage."""
    if isinstance(value, str):
        check_format(errors, path, value, formats.percent)
    elif value < 0:
        errors.append(invalid(path, value, NOT_NEGATIVE))


def check_at_most_hundred_percent(errors: Errors, path: str, value: int | str) -> None:
    """A percentage is not above 100."""
    if isinstance(value, str) and is_percent(value) and int(value[:-1]) > 100:
        errors.append(invalid(path, value, "must not be greater than 100%"))


def int_or_percent_value(value: int | str | None) -> int:
    """The number of an IntOrString, a percentage without its sign; 0 if it is neither."""
    if isinstance(value, int):
        return value
    if value is None:
        return 0
    number = value[:-1] if is_percent(value) else value
    return int(number) if _NUMBER.fullmatch(number) else 0


def check_unique(errors: Errors, path: str, values: Iterable[str]) -> None:
    """Strings of a list differ from one another; errors name `path[index]`."""
    seen: set[str] = set()
    for index, value in enumerate(values):
        if value in seen:
            errors.append(duplicate(f"{path}[{index}]", value))
        seen.add(value)


def check_qualified_dns_name(errors: Errors, path: str, name: str) -> None:
    """A domain name of three or more parts."""
    if not name:
        errors.append(required(path))
        return
    messages = formats.dns_subdomain(name)
    if messages:
        errors.append(invalid(path, name, ",".join(messages)))
    elif name.count(".") < 2:
        errors.append(invalid(path, name, "should be a domain with at least three segments separated by dots"))


_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_http_path = re.compile(_HTTP_PATH).fullmatch


def check_domain_prefixed_path(errors: Errors, path: str, value: str) -> None:
    """`acme.io/foo`."""
    if not value:
        errors.append(required(path))
        return
    host, _, rest = value.partition("/")
    if not host or not rest:
        errors.append(invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")'))
        return
    check_format(errors, path, host, formats.dns_subdomain)
    if not _http_path(rest):
        errors.append(invalid(path, rest, formats.regex_message("Invalid path", _HTTP_PATH)))


CONDITION_STATUSES: Final = ("False", "True", "Unknown")


def check_conditions(errors: Errors, path: str, conditions: Sequence[meta_v1.Condition]) -> None:
    """A list of `Condition` objects, unique by type."""
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        where = f"{path}[{index}]"
        if condition.type in seen:
            errors.append(duplicate(f"{where}.type", condition.type))
        seen.add(condition.type)
        check_key_format(errors, f"{where}.type", condition.type)
        if condition.status not in CONDITION_STATUSES:
            errors.append(unsupported(f"{where}.status", condition.status, CONDITION_STATUSES))
        if condition.observed_generation < 0:
            errors.append(
                invalid(
                    f"{where}.observedGeneration",
                    condition.observed_generation,
                    "must be greater than or equal to zero",
                )
            )
        if not condition.last_transition_time:
            errors.append(required(f"{where}.lastTransitionTime"))
        if not condition.reason:
            errors.append(required(f"{where}.reason"))
        else:
            check_format(errors, f"{where}.reason", condition.reason, formats.condition_reason)
            if formats.size(condition.reason) > 1024:
                errors.append(too_long(f"{where}.reason", 1024))
        if formats.size(condition.message) > 32 * 1024:
            errors.append(too_long(f"{where}.message", 32 * 1024))


def repeats(values: Iterable[Any]) -> set[int]:
    """The places of values that equal an earlier one. Structs are equal if their JSON is."""
    seen: set[Any] = set()
    found: set[int] = set()
    for index, value in enumerate(values):
        known = msgspec.json.encode(value) if isinstance(value, msgspec.Struct) else value
        if known in seen:
            found.add(index)
        seen.add(known)
    return found
