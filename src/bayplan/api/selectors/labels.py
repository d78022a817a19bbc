"""Label selectors, compiled once and matched often.

They come from objects (`LabelSelector`), plain maps (`spec.selector` of a Service) or query strings
(`selector_syntax`). Matching rules and error texts are those of `k8s.io/apimachinery/pkg/labels`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bayplan.api.types.meta_v1 import LabelSelector as LabelSelectorObject

IN: Final = "in"
NOT_IN: Final = "notin"
EQUALS: Final = "="
NOT_EQUALS: Final = "!="
EXISTS: Final = "exists"
DOES_NOT_EXIST: Final = "!"
GREATER_THAN: Final = "gt"
LESS_THAN: Final = "lt"

_OBJECT_OPERATORS: Final = {"In": IN, "NotIn": NOT_IN, "Exists": EXISTS, "DoesNotExist": DOES_NOT_EXIST}
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_MESSAGE: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_MESSAGE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_PREFIX_MESSAGE: Final = (
    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
    "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


class SelectorError(ValueError):
    """A selector does not parse; the message is Kubernetes' own."""


_DIGITS: Final = 20
"""More than the largest number has; Python does not read thousands of them."""


def parse_go_int(text: str) -> int | None:
    """A signed 64-bit decimal as Go's ParseInt takes it, None if it is none."""
    if _INTEGER.fullmatch(text) is None or len(text.lstrip("+-0")) > _DIGITS:
        return None
    number = int(text) if len(text) <= _DIGITS else int(text[: text[0] in "+-"] + (text.lstrip("+-0") or "0"))
    return number if -(2**63) <= number < 2**63 else None


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label. `values` is sorted; empty for `exists` and `!`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    _set: frozenset[str] = field(init=False, repr=False, compare=False, default=frozenset())

    def __post_init__(self) -> None:
        object.__setattr__(self, "_set", frozenset(self.values))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy this condition; a missing label satisfies `notin`, `!=` and `!`."""
        return self.matches_value(labels.get(self.key))

    def matches_value(self, value: str | None) -> bool:
        """Whether the value of this condition's label satisfies it; None stands for a missing label."""
        operator = self.operator
        if operator in (IN, EQUALS):
            return value is not None and value in self._set
        if operator in (NOT_IN, NOT_EQUALS):
            return value is None or value not in self._set
        if operator == EXISTS:
            return value is not None
        if operator == DOES_NOT_EXIST:
            return value is None
        if value is None:
            return False
        number, bound = parse_go_int(value), parse_go_int(self.values[0])
        if number is None or bound is None:
            return False
        return number > bound if operator == GREATER_THAN else number < bound

    def __str__(self) -> str:
        if self.operator == EXISTS:
            return self.key
        if self.operator == DOES_NOT_EXIST:
            return f"!{self.key}"
        if self.operator in (EQUALS, NOT_EQUALS):
            return f"{self.key}{self.operator}{self.values[0]}"
        if self.operator in (GREATER_THAN, LESS_THAN):
            return f"{self.key}{'>' if self.operator == GREATER_THAN else '<'}{self.values[0]}"
        return f"{self.key} {self.operator} ({','.join(self.values)})"


_LONG: Final = 8
"""Requirements up to which each is looked at for every object."""


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold. Without requirements it matches everything, unless `nothing` is set."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False
    _pairs: Mapping[str, str] | None = field(init=False, repr=False, compare=False, default=None)
    """Labels that have to be there, if that is all that is asked for: the usual selector, judged in one comparison."""
    _by_key: Mapping[str, tuple[Requirement, ...]] | None = field(init=False, repr=False, compare=False, default=None)
    """The requirements of a long selector by their keys, those on equal keys merged as far as possible. None for short ones."""
    _needed: frozenset[str] = field(init=False, repr=False, compare=False, default=frozenset())
    """The labels that must be there, of a long selector."""

    def __post_init__(self) -> None:
        if all(item.operator in (EQUALS, IN) and len(item.values) == 1 for item in self.requirements):
            pairs = {item.key: item.values[0] for item in self.requirements}
            if len(pairs) == len(self.requirements):
                object.__setattr__(self, "_pairs", pairs)
                return
        if len(self.requirements) > _LONG:
            by_key = _merged_by_key(self.requirements)
            object.__setattr__(self, "_by_key", by_key)
            needed = (key for key, items in by_key.items() if not all(item.matches_value(None) for item in items))
            object.__setattr__(self, "_needed", frozenset(needed))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy every requirement."""
        if self.nothing:
            return False
        if self._pairs is not None:
            return self._pairs.items() <= labels.items()
        by_key = self._by_key
        if by_key is not None:
            return self._needed <= labels.keys() and all(
                item.matches_value(value) for key, value in labels.items() for item in by_key.get(key, ())
            )
        return all(requirement.matches(labels) for requirement in self.requirements)

    def is_everything(self) -> bool:
        """Whether no labels can fail it (Kubernetes calls this selector empty)."""
        return not self.requirements and not self.nothing

    @property
    def anchor(self) -> tuple[str, str] | None:
        """A label that everything selected has, as key and value; None if no single one can be named."""
        for requirement in self.requirements:
            if requirement.operator in (IN, EQUALS) and len(requirement.values) == 1:
                return requirement.key, requirement.values[0]
        return None

    def exact_match(self, key: str) -> str | None:
        """The value that the selector demands of a label, None if it leaves a choice."""
        for requirement in self.requirements:
            if requirement.key == key and requirement.operator in (IN, EQUALS) and len(requirement.values) == 1:
                return requirement.values[0]
        return None

    def merged(self, other: LabelSelector) -> LabelSelector:
        """Both selectors at once."""
        requirements = sorted({*self.requirements, *other.requirements}, key=lambda requirement: requirement.key)
        return LabelSelector(tuple(requirements), self.nothing or other.nothing)

    def __iter__(self) -> Iterator[Requirement]:
        return iter(self.requirements)

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


def _merged_by_key(requirements: Iterable[Requirement]) -> dict[str, tuple[Requirement, ...]]:
    """Requirements by key, with the same meaning. Of each key there is at most one for each of `in`, `notin`, `exists` and `!`, however many there were."""
    allowed: dict[str, frozenset[str]] = {}
    denied: dict[str, set[str]] = {}
    others: dict[str, dict[Requirement, None]] = {}
    for item in requirements:
        if item.operator in (IN, EQUALS):
            known = allowed.get(item.key)
            allowed[item.key] = item._set if known is None else known & item._set
        elif item.operator in (NOT_IN, NOT_EQUALS):
            denied.setdefault(item.key, set()).update(item.values)
        else:
            others.setdefault(item.key, {})[item] = None
    return {
        key: (
            *((Requirement(key, IN, tuple(allowed[key])),) if key in allowed else ()),
            *((Requirement(key, NOT_IN, tuple(denied[key])),) if key in denied else ()),
            *_tightest(others.get(key, {})),
        )
        for key in dict.fromkeys((*allowed, *denied, *others))
    }


def _tightest(requirements: Iterable[Requirement]) -> Iterator[Requirement]:
    """Requirements on one key, of those with a bound only the one that decides."""
    bounds: dict[str, Requirement] = {}
    for item in requirements:
        if item.operator not in (GREATER_THAN, LESS_THAN):
            yield item
            continue
        known = bounds.get(item.operator)
        new = parse_go_int(item.values[0])
        old = parse_go_int(known.values[0]) if known is not None else None
        if known is None or new is None:
            bounds[item.operator] = item  # one without a number matches nothing
        elif old is not None and (new > old if item.operator == GREATER_THAN else new < old):
            bounds[item.operator] = item
    yield from bounds.values()


EVERYTHING: Final = LabelSelector()
NOTHING: Final = LabelSelector(nothing=True)


def qualified_name_errors(name: str) -> list[str]:
    """What is wrong with a label key (`[prefix/]name`), in Kubernetes' words; empty if it is valid."""
    errors: list[str] = []
    prefix, slash, rest = name.rpartition("/")
    if slash:
        if "/" in prefix:
            return [
                f"a valid label key {_NAME_MESSAGE.removeprefix('name part ')} with an optional DNS subdomain prefix "
                "and '/' (e.g. 'example.com/MyName')"
            ]
        if not prefix:
            errors.append("prefix part must be non-empty")
        elif len(prefix) > 253:
            errors.append("prefix part must be no more than 253 bytes")
        elif not _SUBDOMAIN.fullmatch(prefix):
            errors.append(_PREFIX_MESSAGE)
    if not rest:
        errors.append("name part must be non-empty")
    elif len(rest) > 63:
        errors.append("name part must be no more than 63 bytes")
    if not _NAME.fullmatch(rest):
        errors.append(_NAME_MESSAGE)
    return errors


def label_value_errors(value: str) -> list[str]:
    """What is wrong with a label value, in Kubernetes' words; empty if it is valid."""
    errors = ["must be no more than 63 bytes"] if len(value) > 63 else []
    if not _LABEL_VALUE.fullmatch(value):
        errors.append(_VALUE_MESSAGE)
    return errors


def requirement(key: str, operator: str, values: Iterable[str] = ()) -> Requirement:
    """A checked requirement; SelectorError if key, operator and values do not go together."""
    values = tuple(sorted(set(values)))
    problems = [f'key: Invalid value: "{key}": {"; ".join(e)}' for e in (qualified_name_errors(key),) if e]
    shown = "[" + ",".join(f'"{value}"' for value in values) + "]"
    if operator in (IN, NOT_IN):
        if not values:
            problems.append(f"values: Invalid value: {shown}: for 'in', 'notin' operators, values set can't be empty")
    elif operator in (EQUALS, NOT_EQUALS):
        if len(values) != 1:
            problems.append(f"values: Invalid value: {shown}: exact-match compatibility requires one single value")
    elif operator in (EXISTS, DOES_NOT_EXIST):
        if values:
            problems.append(f"values: Invalid value: {shown}: values set must be empty for exists and does not exist")
    elif operator in (GREATER_THAN, LESS_THAN):
        problems += _integer_problems(values, shown)
    else:
        raise SelectorError(f'operator: Unsupported value: "{operator}"')
    for index, value in enumerate(values):
        errors = label_value_errors(value)
        if errors:
            problems.append(f'values[{index}][{key}]: Invalid value: "{value}": {"; ".join(errors)}')
    if problems:
        raise SelectorError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return Requirement(key, operator, values)


_SHORT: Final = 63
"""Letters that the name of a label and its value may have."""


def _equality(key: str, value: str) -> Requirement:
    """The same as `requirement` for one value, in a third of the time where nothing is wrong."""
    if len(key) <= _SHORT and len(value) <= _SHORT and _NAME.fullmatch(key) and _LABEL_VALUE.fullmatch(value):
        return Requirement(key, EQUALS, (value,))
    return requirement(key, EQUALS, (value,))


def _integer_problems(values: tuple[str, ...], shown: str) -> list[str]:
    if len(values) != 1:
        return [f"values: Invalid value: {shown}: for 'Gt', 'Lt' operators, exactly one value is required"]
    if parse_go_int(values[0]) is None:
        return [f"values[0]: Invalid value: \"{values[0]}\": for 'Gt', 'Lt' operators, the value must be an integer"]
    return []


def from_map(labels: Mapping[str, str]) -> LabelSelector:
    """The selector of a plain map; an empty map matches everything."""
    return LabelSelector(tuple(Requirement(key, EQUALS, (labels[key],)) for key in sorted(labels)))


def compile_selector(selector: LabelSelectorObject | None) -> LabelSelector:
    """The selector of an object's `LabelSelector`: None matches nothing, an empty one everything; SelectorError."""
    if selector is None:
        return NOTHING
    requirements = [_equality(key, value) for key, value in selector.match_labels.items()]
    for expression in selector.match_expressions:
        operator = _OBJECT_OPERATORS.get(expression.operator)
        if operator is None:
            raise SelectorError(f'"{expression.operator}" is not a valid label selector operator')
        requirements.append(requirement(expression.key, operator, expression.values))
    return LabelSelector(tuple(sorted(requirements, key=lambda item: item.key)))
