"""Formats of strings: each function says what is wrong with one value, as a tuple of messages in Kubernetes' words;
empty if it is valid.

Verdicts are cached, because the same names, keys and values come again and again.
Source: apimachinery's `util/validation` and `api/validate/content` packages.
"""

from __future__ import annotations

import re
from typing import Final

from bayplan.support.memory.memo import memoized

Messages = tuple[str, ...]

OK: Final[Messages] = ()

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_UNDERSCORE = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_UNDERSCORE = rf"{_LABEL_UNDERSCORE}(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*"
_LABEL_1035 = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_WILDCARD = rf"\*\.{_SUBDOMAIN}"
_KEY = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = rf"({_KEY})?"
_C_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
_CONFIG_KEY = r"[-._a-zA-Z0-9]+"
_HEADER = r"[-A-Za-z0-9]+"
_PERCENT = r"[0-9]+%"
_SYSCTL = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_ENV = r"[-._a-zA-Z][-._a-zA-Z0-9]*"
_CONDITION_REASON = r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"

_label = re.compile(_LABEL).fullmatch
_subdomain = re.compile(_SUBDOMAIN).fullmatch
_subdomain_underscore = re.compile(_SUBDOMAIN_UNDERSCORE).fullmatch
_label_1035 = re.compile(_LABEL_1035).fullmatch
_wildcard = re.compile(_WILDCARD).fullmatch
_key = re.compile(_KEY).fullmatch
_value = re.compile(_VALUE).fullmatch
_c_identifier = re.compile(_C_IDENTIFIER).fullmatch
_config_key = re.compile(_CONFIG_KEY).fullmatch
_header = re.compile(_HEADER).fullmatch
_percent = re.compile(_PERCENT).fullmatch
_sysctl = re.compile(_SYSCTL).fullmatch
_port_name = re.compile(r"[-a-z0-9]+").fullmatch
_condition_reason = re.compile(_CONDITION_REASON).fullmatch


def regex_message(text: str, pattern: str, *examples: str) -> str:
    """A message that quotes examples and the regular expression."""
    if not examples:
        return f"{text} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{pattern}')"


def size(text: str) -> int:
    """Bytes of a text, as Go counts."""
    return len(text.encode())


def too_long_message(limit: int) -> str:
    """A string has more than `limit` characters."""
    return f"must be no more than {limit} characters"


def range_message(low: int, high: int) -> str:
    """A number is out of bounds."""
    return f"must be between {low} and {high}, inclusive"


_KEY_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_LABEL_MESSAGE = regex_message(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
    "end with an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_SUBDOMAIN_MESSAGE = regex_message(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_SUBDOMAIN_IN_ANY_CASE_MESSAGE = regex_message(
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an "
    "alphanumeric character",
    _SUBDOMAIN,
    "Example.com",
)
_SUBDOMAIN_UNDERSCORE_MESSAGE = regex_message(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and "
    "must start and end with an alphanumeric character",
    _SUBDOMAIN_UNDERSCORE,
    "example.com",
)
_LABEL_1035_MESSAGE = regex_message(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character",
    _LABEL_1035,
    "my-name",
    "abc-123",
)
_WILDCARD_MESSAGE = regex_message(
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist "
    "of lower case alphanumeric characters, "
    "'-' or '.' and end with an alphanumeric character",
    _WILDCARD,
    "*.example.com",
)
_KEY_MESSAGE = regex_message(_KEY_TEXT, _KEY, "MyName", "my.name", "123-abc")
_VALUE_MESSAGE = regex_message(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character",
    _VALUE,
    "MyValue",
    "my_value",
    "12345",
)


@memoized(1024)
def dns_label(value: str) -> Messages:
    """A lowercase RFC 1123 label, up to 63 characters."""
    if len(value) <= 63 and _label(value):
        return OK
    messages = [too_long_message(63)] if size(value) > 63 else []
    if not _label(value):
        messages.append("must not contain dots" if _subdomain(value) else _LABEL_MESSAGE)
    return tuple(messages)


@memoized(1024)
def dns_subdomain(value: str) -> Messages:
    """A lowercase RFC 1123 subdomain, up to 253 characters."""
    if len(value) <= 253 and _subdomain(value):
        return OK
    messages = [too_long_message(253)] if size(value) > 253 else []
    if not _subdomain(value):
        messages.append(_SUBDOMAIN_MESSAGE)
    return tuple(messages)


@memoized(1024)
def dns_subdomain_in_any_case(value: str) -> Messages:
    """A subdomain whose letters may be upper case."""
    messages = [too_long_message(253)] if size(value) > 253 else []
    if not _subdomain(value.lower()):
        messages.append(_SUBDOMAIN_IN_ANY_CASE_MESSAGE)
    return tuple(messages)


def long_name(value: str) -> Messages:
    """A subdomain where Kubernetes' newer rules say so, which count in bytes."""
    messages = dns_subdomain(value)
    return messages if size(value) <= 253 else ("must be no more than 253 bytes", *messages[1:])


@memoized(1024)
def dns_subdomain_with_underscore(value: str) -> Messages:
    """A subdomain whose labels may hold underscores (DNS search paths)."""
    messages = [too_long_message(253)] if size(value) > 253 else []
    if not _subdomain_underscore(value):
        messages.append(_SUBDOMAIN_UNDERSCORE_MESSAGE)
    return tuple(messages)


@memoized(4096)
def dns_1035_label(value: str) -> Messages:
    """A DNS label that begins with a letter."""
    messages = [too_long_message(63)] if size(value) > 63 else []
    if not _label_1035(value):
        messages.append(_LABEL_1035_MESSAGE)
    return tuple(messages)


def storage_version_name(value: str) -> Messages:
    """The name of a StorageVersion: a group, a dot and a resource."""
    group, dot, resource = value.rpartition(".")
    if not dot:
        return ("name must be in the form of <group>.<resource>",)
    messages = [f"the group segment {one}" for one in dns_subdomain(group)]
    return tuple(messages + [f"the resource segment {one}" for one in dns_1035_label(resource)])


@memoized(4096)
def wildcard_subdomain(value: str) -> Messages:
    """`*.` and a subdomain."""
    messages = [too_long_message(253)] if size(value) > 253 else []
    if not _wildcard(value):
        messages.append(_WILDCARD_MESSAGE)
    return tuple(messages)


@memoized(4096)
def label_key(value: str) -> Messages:
    """A qualified name: `[subdomain/]name`."""
    prefix, slash, name = value.partition("/")
    if not slash:
        prefix, name = "", value
    messages: list[str] = []
    if slash:
        if "/" in name:
            return (
                f"a valid label key {_KEY_MESSAGE} with an optional DNS subdomain prefix and '/' (e.g. "
                "'example.com/MyName')",
            )
        if not prefix:
            messages.append("prefix part must be non-empty")
        else:
            if size(prefix) > 253:
                messages.append("prefix part must be no more than 253 bytes")
            if not _subdomain(prefix):
                messages.append("prefix part " + _SUBDOMAIN_MESSAGE)
    if not name:
        messages.append("name part must be non-empty")
    elif size(name) > 63:
        messages.append("name part must be no more than 63 bytes")
    if not _key(name):
        messages.append("name part " + _KEY_MESSAGE)
    return tuple(messages)


@memoized(4096)
def label_value(value: str) -> Messages:
    """The value of a label."""
    messages = ["must be no more than 63 bytes"] if size(value) > 63 else []
    if not _value(value):
        messages.append(_VALUE_MESSAGE)
    return tuple(messages)


@memoized(4096)
def port_name(value: str) -> Messages:
    """An IANA service name: up to 15 of a-z, 0-9 and single hyphens, with a letter."""
    messages = []
    if size(value) > 15:
        messages.append(too_long_message(15))
    if not _port_name(value):
        messages.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= character <= "z" for character in value):
        messages.append("must contain at least one letter (a-z)")
    if "--" in value:
        messages.append("must not contain consecutive hyphens")
    if value and (value[0] == "-" or value[-1] == "-"):
        messages.append("must not begin or end with a hyphen")
    return tuple(messages)


def port_number(value: int) -> Messages:
    """1 to 65535."""
    return OK if 1 <= value <= 65535 else (range_message(1, 65535),)


def percent(value: str) -> Messages:
    """Digits and a percent sign."""
    if _percent(value):
        return OK
    return (
        regex_message(
            "a valid percent string must be a numeric string followed by an ending '%'", _PERCENT, "1%", "93%"
        ),
    )


def http_header_name(value: str) -> Messages:
    """Letters, digits and hyphens."""
    if _header(value):
        return OK
    return (
        regex_message("a valid HTTP header must consist of alphanumeric characters or '-'", _HEADER, "X-Header-Name"),
    )


@memoized(4096)
def env_var_name(value: str) -> Messages:
    """Printable ASCII other than `=`."""
    messages = [] if value else ["environment variable name must be non-empty"]
    if not all(" " <= character <= "~" and character != "=" for character in value):
        messages.append(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
        )
    return tuple(messages)


def _parent_directory(value: str) -> list[str]:
    if value == ".":
        return ["must not be '.'"]
    if value == "..":
        return ["must not be '..'"]
    return ["must not start with '..'"] if value.startswith("..") else []


@memoized(4096)
def config_map_key(value: str) -> Messages:
    """A key of a ConfigMap or Secret: a file name."""
    messages = [too_long_message(253)] if size(value) > 253 else []
    if not _config_key(value):
        messages.append(
            regex_message(
                "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
                _CONFIG_KEY,
                "key.name",
                "KEY_NAME",
                "key-name",
            )
        )
    return tuple(messages + _parent_directory(value))


def c_identifier(value: str) -> Messages:
    """A name of the C language."""
    if _c_identifier(value):
        return OK
    text = (
        "a valid C identifier must start with alphabetic character or '_', followed by a string of "
        "alphanumeric characters or '_'"
    )
    return (regex_message(text, _C_IDENTIFIER, "my_name", "MY_NAME", "MyName"),)


def sysctl_name(value: str) -> Messages:
    """A sysctl with dots or slashes."""
    if len(value) <= 253 and _sysctl(value):
        return OK
    return (f"must have at most 253 characters and match regex ^{_SYSCTL}$",)


def condition_reason(value: str) -> Messages:
    """The reason of a condition."""
    if _condition_reason(value):
        return OK
    text = (
        "a condition reason must start with alphabetic character, optionally followed by a string of "
        "alphanumeric characters or '_,:', "
        "and must end with an alphanumeric character or '_'"
    )
    return (
        regex_message(text, _CONDITION_REASON, "my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"),
    )


def path_segment(value: str) -> Messages:
    """A name that can stand in a URL path."""
    if value in (".", ".."):
        return (f"may not be '{value}'",)
    return tuple(f"may not contain '{bad}'" for bad in ("/", "%") if bad in value)
