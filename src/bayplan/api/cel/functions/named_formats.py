"""Formats of text by name: `format.dns1123Label().validate(self)`. Source: `k8s.io/apiserver/pkg/cel/library/format.go`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bayplan.api.cel.functions.go_urls import URLError, parse_request_uri
from bayplan.api.cel.functions.registry import STRING, Table
from bayplan.api.cel.values import NO_VALUE, Opaque, Optional, no_such_overload
from bayplan.api.custom_resources.formats import has_format
from bayplan.api.validation.values.formats import dns_1035_label, dns_label, dns_subdomain, label_key, label_value

TABLE = Table()
_UUID, _DATE_TIME = 70, 71
"""Lengths of the patterns that Kubernetes has for these, which say what a check costs."""


@dataclass(frozen=True, slots=True, eq=False)
class NamedFormat(Opaque):
    """A format."""

    type_name = "kubernetes.NamedFormat"
    name: str
    problems: Callable[[str], Sequence[str]]
    """What is wrong with a text."""
    pattern_size: int
    """Length of the pattern that it stands for when costs are worked out."""

    def equals(self, other: Any) -> bool:
        """Whether the name is the same. Raises EvaluationError for what is no format."""
        if not isinstance(other, NamedFormat):
            raise no_such_overload()
        return self.name == other.name


def _of_prefix(problems: Callable[[str], Sequence[str]]) -> Callable[[str], Sequence[str]]:
    """Rules for the start of a name, which may end in a dash."""
    return lambda text: problems(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _unless(name: str, problem: str) -> Callable[[str], Sequence[str]]:
    return lambda text: () if has_format(text, name) else (problem,)


def _uri_problems(text: str) -> Sequence[str]:
    try:
        parse_request_uri(text)
    except URLError as error:
        return (str(error),)
    return ()


FORMATS = {
    "dns1123Label": NamedFormat("DNS1123Label", dns_label, 30),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", dns_subdomain, 60),
    "dns1035Label": NamedFormat("DNS1035Label", dns_1035_label, 30),
    "qualifiedName": NamedFormat("QualifiedName", label_key, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _of_prefix(dns_label), 30),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", _of_prefix(dns_subdomain), 60),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", _of_prefix(dns_1035_label), 30),
    "labelValue": NamedFormat("LabelValue", label_value, 40),
    "uri": NamedFormat("URI", _uri_problems, 1103),
    "uuid": NamedFormat("uuid", _unless("uuid", "does not match the UUID format"), _UUID),
    "byte": NamedFormat("byte", _unless("byte", "invalid base64"), 84),
    "date": NamedFormat("date", _unless("date", "invalid date"), _DATE_TIME),
    "datetime": NamedFormat("datetime", _unless("datetime", "invalid datetime"), _DATE_TIME),
}
"""By the name that expressions use."""


def _add(name: str, found: NamedFormat) -> None:
    def get() -> NamedFormat:
        return found

    TABLE.add(f"format.{name}", (), get)


for _name, _format in FORMATS.items():
    _add(_name, _format)


@TABLE.function("format.named", STRING)
def _named(name: str) -> Optional:
    found = FORMATS.get(name)
    return NO_VALUE if found is None else Optional(found)


@TABLE.member("validate", NamedFormat, STRING)
def _validate(value: NamedFormat, text: str) -> Optional:
    problems = value.problems(text)
    return Optional(list(problems)) if problems else NO_VALUE
