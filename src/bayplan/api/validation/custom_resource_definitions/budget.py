"""How much the rules of a schema may cost: each, and all together.

Source: `apiextensions-apiserver/pkg/apis/apiextensions/validation` (validation.go, cel_validation.go).
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.api.errors import FieldError, forbidden
from bayplan.api.validation.custom_resource_definitions.sizes import MOST

MOST_OF_A_RULE = 10_000_000
MOST_OF_A_SCHEMA = 100_000_000
_WORTH_NAMING = MOST_OF_A_SCHEMA // 100
_NAMED_AT_MOST = 4
_ADVICE = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"


class Budget:
    """What the rules of one schema have cost so far."""

    def __init__(self, *, limits_rules: bool) -> None:
        """limits_rules: whether a single rule can be too expensive; not in a schema that did not change."""
        self._limits_rules = limits_rules
        self._total = 0
        self._dearest: list[tuple[int, str]] = []

    def spend(self, path: str, cost: int, what: str) -> Iterator[FieldError]:
        """Count an expression, with how often it is evaluated; it may be too expensive for itself."""
        if self._limits_rules and cost > MOST_OF_A_RULE:
            yield forbidden(path, _text(f"estimated {what} cost", cost, MOST_OF_A_RULE))
        self._total = min(self._total + cost, MOST)
        if cost >= _WORTH_NAMING:
            self._dearest.append((cost, path))

    def errors(self, path: str) -> Iterator[FieldError]:
        """What is to be said if all are too expensive together. path: of the schema."""
        if self._total <= MOST_OF_A_SCHEMA:
            return
        for _, where in sorted(self._dearest, key=lambda one: -one[0])[:_NAMED_AT_MOST]:
            yield forbidden(
                where, "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            )
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        yield forbidden(path, _text(what, self._total, MOST_OF_A_SCHEMA))


def _text(what: str, cost: int, limit: int) -> str:
    times = cost / limit
    if times > 100:
        factor = "more than 100x"
    else:
        factor = f"{times:.6f}x" if times < 1.5 else f"{times:.1f}x"
    return f"{what} exceeds budget by factor of {factor} {_ADVICE}"
