"""`x-kubernetes-validations`: rules in the Common Expression Language.

Rules are compiled against the types of their schema, and refused if they could cost too much.
Source: `apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go` and `.../pkg/apiserver/schema/cel/compilation.go`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bayplan.api.cel.checker import Checked, Environment, check
from bayplan.api.cel.nodes import Ident
from bayplan.api.cel.schema_types import SchemaTypes, with_names
from bayplan.api.cel.types import BOOL, STRING, optional_of
from bayplan.api.custom_resources.pruning import EMBEDDED, RULES
from bayplan.api.custom_resources.rule_compilation import expression_problem, no_definition
from bayplan.api.errors import ErrorType, FieldError, invalid, required, unsupported
from bayplan.api.schema import Schema
from bayplan.api.validation.custom_resource_definitions.budget import Budget
from bayplan.api.validation.custom_resource_definitions.columns import FieldPathError, field_path
from bayplan.api.validation.custom_resource_definitions.costs import estimated_cost
from bayplan.api.validation.custom_resource_definitions.shown import shown_rule
from bayplan.api.validation.custom_resource_definitions.sizes import MOST, most_in_a_request
from bayplan.api.validation.custom_resource_definitions.structural import conversion_problem

_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_TYPE_NAME = "selfType"
_UNTYPED = (
    "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema"
    " to CEL declarations"
)


def rule_errors(schema: Schema, path: str) -> Iterator[FieldError]:
    """What is wrong with the rules of a schema, apart from their expressions."""
    for index, rule in enumerate(schema.get(RULES, ())):
        yield from _rule_errors(rule, schema, f"{path}.{RULES}[{index}]")


def _rule_errors(rule: dict[str, Any], schema: Schema, path: str) -> Iterator[FieldError]:
    expression, message = rule.get("rule", "").strip(), rule.get("message", "")
    if not expression:
        yield required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif _has_line_breaks(message.strip()):
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    elif _has_line_breaks(expression) and not message:
        yield required(f"{path}.message", "message must be specified if rule contains line breaks")
    if _is_blank(rule.get("messageExpression", "")):
        yield required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        yield unsupported(f"{path}.reason", reason, _REASONS)
    yield from _field_path_errors(rule.get("fieldPath", ""), schema, f"{path}.fieldPath")


def _field_path_errors(text: str, schema: Schema, path: str) -> Iterator[FieldError]:
    if _is_blank(text):
        yield invalid(path, text, "must be non-empty if specified")
    if _has_line_breaks(text):
        yield invalid(path, text, "must not contain line breaks")
    if text and not conversion_problem(schema):
        try:
            field_path(text, schema)
        except FieldPathError:
            yield invalid(path, text, "must be a valid path")


def _is_blank(text: str) -> bool:
    return bool(text) and not text.strip()


def _has_line_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """What is known of a rule that was compiled."""

    problem: str = ""
    """Why its expression is refused, empty if it is not."""
    cost: int = 0
    """What one evaluation costs at most."""
    names_old_self: bool = False
    message_problem: str = ""
    """Why the expression of its message is refused; empty if it is not, or if there is none."""
    message_cost: int = 0


class UntypedError(ValueError):
    """The values of a schema have no type that rules could be about."""


def compiled(schema: Schema, *, is_root: bool) -> list[CompiledRule]:
    """The rules of a schema in which nothing else is wrong. is_root: whether it is that of a whole custom resource. Raises UntypedError."""
    made = SchemaTypes(no_definition)
    shown = _with_head(schema, is_root=is_root)
    found = made.root(schema, _TYPE_NAME) if is_root else made.part(schema, _TYPE_NAME)
    if found is None:
        raise UntypedError(_UNTYPED)
    result = []
    for rule in schema[RULES]:
        old = optional_of(found) if rule.get("optionalOldSelf") else found
        environment = Environment({"self": found, "oldSelf": old}, made.structs)
        result.append(_compiled_rule(rule, environment, shown))
    return result


def _compiled_rule(rule: dict[str, Any], environment: Environment, schema: Schema) -> CompiledRule:
    checked = check(rule["rule"], environment)
    problem = expression_problem(rule["rule"], checked, BOOL)
    if problem:
        return CompiledRule(problem)
    cost, names_old_self = estimated_cost(checked, schema), _names_old_self(checked)
    message = rule.get("messageExpression", "")
    if not message:
        return CompiledRule("", cost, names_old_self)
    checked = check(message, environment)
    if problem := expression_problem(message, checked, STRING):
        return CompiledRule("", cost, names_old_self, f"messageExpression {problem}")
    return CompiledRule("", cost, names_old_self, "", estimated_cost(checked, schema))


def compiled_rule_errors(schema: Schema, path: str, place: RulePlace, budget: Budget) -> Iterator[FieldError]:
    """What is wrong with the expressions of the rules of a schema in which nothing else is wrong."""
    try:
        found = compiled(schema, is_root=place.is_root)
    except UntypedError as error:
        yield FieldError(ErrorType.INTERNAL, f"{path}.{RULES}", None, str(error))
        return
    times = most_in_a_request(_with_head(schema)) if place.times is None else place.times
    for index, (rule, one) in enumerate(zip(schema[RULES], found, strict=True)):
        where = f"{path}.{RULES}[{index}]"
        yield from budget.spend(f"{where}.rule", min(one.cost * times, MOST), "rule")
        if one.problem:
            yield invalid(f"{where}.rule", shown_rule(rule), one.problem)
        if one.message_problem:
            yield invalid(f"{where}.messageExpression", shown_rule(rule), one.message_problem)
        elif rule.get("messageExpression") and not one.problem:
            yield from budget.spend(f"{where}.messageExpression", one.message_cost, "messageExpression")
        if not one.names_old_self and rule.get("optionalOldSelf") is not None:
            text = "may not be set if oldSelf is not used in rule"
            yield invalid(f"{where}.optionalOldSelf", rule["optionalOldSelf"], text)
        elif one.names_old_self and place.uncorrelated:
            text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.uncorrelated}"
            yield invalid(f"{where}.rule", rule["rule"], text)


@dataclass(frozen=True, slots=True)
class RulePlace:
    """Where the schema of rules stands."""

    is_root: bool
    uncorrelated: str
    """Path of the schema around it whose values cannot be told apart after a change, so that there is no `oldSelf`; empty if they can."""
    times: int | None
    """How many values of the schema an object can have, None if nothing limits that."""


def _with_head(schema: Schema, *, is_root: bool = False) -> Schema:
    """A schema whose whole objects, itself if it is the root, have a kind, apiVersion and metadata with names."""
    result = dict(schema)
    if "properties" in schema:
        result["properties"] = {name: _with_head(one) for name, one in schema["properties"].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            result[name] = _with_head(schema[name])
    if is_root or schema.get(EMBEDDED):
        result["properties"] = with_names(result.get("properties", {}))
    return result


def _names_old_self(checked: Checked) -> bool:
    return any(isinstance(node, Ident) and node.name.removeprefix(".") == "oldSelf" for node in checked.types)
