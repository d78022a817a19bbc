"""Field selectors (`spec.nodeName=n1,status.phase!=Failed`): syntax and error texts of `k8s.io/apimachinery/pkg/fields`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bayplan.api.selectors.labels import EQUALS, NOT_EQUALS, SelectorError


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One condition on one field path; a missing field counts as empty."""

    field: str
    operator: str
    value: str

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether the fields satisfy this condition."""
        return (fields.get(self.field, "") == self.value) is (self.operator == EQUALS)


_LONG: Final = 8
"""Requirements up to which each is looked at for every object."""


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All requirements must hold; without requirements it matches everything."""

    requirements: tuple[FieldRequirement, ...] = ()
    _wanted: dict[str, set[str]] = field(init=False, repr=False, compare=False, default_factory=dict)
    _unwanted: dict[str, set[str]] = field(init=False, repr=False, compare=False, default_factory=dict)
    """The values of a long selector by field."""

    def __post_init__(self) -> None:
        if len(self.requirements) > _LONG:
            for item in self.requirements:
                values = self._wanted if item.operator == EQUALS else self._unwanted
                values.setdefault(item.field, set()).add(item.value)

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether the fields satisfy every requirement."""
        if len(self.requirements) > _LONG:
            return all(values == {fields.get(name, "")} for name, values in self._wanted.items()) and all(
                fields.get(name, "") not in values for name, values in self._unwanted.items()
            )
        return all(requirement.matches(fields) for requirement in self.requirements)

    def is_everything(self) -> bool:
        """Whether no object can fail it."""
        return not self.requirements

    def exact_match(self, path: str) -> str | None:
        """The value that the selector demands of a field, None if it leaves a choice."""
        for item in self.requirements:
            if item.field == path and item.operator == EQUALS:
                return item.value
        return None

    def __str__(self) -> str:
        return ",".join(f"{r.field}{r.operator}{_escape(r.value)}" for r in self.requirements)


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def _unescape(value: str) -> str:
    result: list[str] = []
    characters = iter(value)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if escaped not in ("\\", ",", "="):
                raise SelectorError(
                    f"invalid field selector: invalid escape sequence: \\{escaped}"
                    if escaped
                    else "invalid field selector: invalid escape sequence: \\"
                )
            result.append(escaped)
        elif character == "=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(character)}")
        else:
            result.append(character)
    return "".join(result)


_FIELD_TERM: Final = re.compile(r"((?:[^\\,]|\\.|\\$)*)(?:,|$)", re.DOTALL)
_FIELD_PARTS: Final = re.compile(r"((?:[^\\=!]|\\.|!(?!=))*)(!=|==|=)(.*)", re.DOTALL)


def parse_fields(text: str) -> FieldSelector:
    """The selector of a `fieldSelector` query string (`a=b,c!=d`, `\\,` escapes). Raises SelectorError."""
    requirements: list[FieldRequirement] = []
    terms: list[str] = []
    position = 0
    while position < len(text):
        match = _FIELD_TERM.match(text, position)
        if match is None or match.end() == position:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{text[position:]}'")
        position = match.end()
        terms.append(match[1])
    for term in sorted(filter(None, terms)):
        parts = _FIELD_PARTS.fullmatch(term)
        if parts is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        operator = NOT_EQUALS if parts[2] == "!=" else EQUALS
        value = _unescape(parts[3])
        if parts[1] or value:  # neither a field nor a value asks for nothing
            requirements.append(FieldRequirement(parts[1], operator, value))
    return FieldSelector(tuple(requirements))
