"""Compiles the rules of a schema (`x-kubernetes-validations`) into a tree; only parts that have rules at or below them are in it.

Source: `apiextensions-apiserver/pkg/apiserver/schema/cel/compilation.go`, and the function `validator` of validation.go beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bayplan.api.cel.checker import Checked, Environment, check
from bayplan.api.cel.evaluation import CompilationError, Program, compile_expression
from bayplan.api.cel.issues import display
from bayplan.api.cel.schema_types import SchemaTypes
from bayplan.api.cel.types import BOOL, STRING, Type, optional_of
from bayplan.api.cel.validators import unreadable, validate
from bayplan.api.custom_resources.pruning import EMBEDDED, RULES, has_rules
from bayplan.api.custom_resources.rule_values import whole_object
from bayplan.api.schema import Schema
from bayplan.api.validation.custom_resource_definitions.columns import FieldPathError, field_path


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule. Without a program it is empty, or does not compile."""

    text: str
    message: str = ""
    reason: str = ""
    field_path: str = ""
    """Below the part that the rule is about."""
    program: Program | None = None
    message_program: Program | None = None
    message_text: str = ""
    problem: str = ""
    """Why it does not compile."""
    uses_old: bool = False
    old_is_optional: bool = False

    @property
    def shown(self) -> str:
        """What errors call it."""
        return self.message.strip() or self.text.strip()


@dataclass(slots=True)
class Node:
    """The rules of a part of a schema and of what is below it."""

    schema: Schema
    rules: tuple[Rule, ...] = ()
    problem: str = ""
    """Why none of the rules can be compiled."""
    items: Node | None = None
    properties: dict[str, Node] = field(default_factory=dict)
    additional: Node | None = None
    alternatives: list[Node] = field(default_factory=list)
    """Of `allOf`."""

    @property
    def type(self) -> str:
        """The type that errors show for what they do not show."""
        return str(self.schema.get("type", ""))

    @property
    def uses_old(self) -> bool:
        """Whether a rule here looks at what was before."""
        return any(one.uses_old for one in self.rules)

    @property
    def is_empty(self) -> bool:
        """Whether there are no rules here or below."""
        below = self.items or self.properties or self.additional or self.alternatives
        return not (self.rules or self.problem or below)


def compile_rules(schema: Schema) -> Node | None:
    """The rules of the schema of a custom resource; None if it has none."""
    return compile_node(schema, schema, is_root=True)


def compile_node(rules_schema: Schema, schema: Schema, *, is_root: bool) -> Node | None:
    """The rules of a part of a schema; None if it has none. rules_schema: where the rules are, which inside of `allOf` is not the schema of the values."""
    made = Node(whole_object(schema) if is_root else schema)
    given = rules_schema.get(RULES, ())
    structs = SchemaTypes(no_definition)
    kind = structs.root(schema, "selfType") if is_root else structs.part(schema, "selfType")
    if given and kind is None:
        made.problem = "failed to convert to declType for CEL validation rules"
    elif kind is not None:
        made.rules = tuple(_rule(one, schema, kind, structs.structs) for one in given)
    made.items = _below(rules_schema.get("items"), schema.get("items"))
    made.additional = _below(rules_schema.get("additionalProperties"), schema.get("additionalProperties"))
    properties = schema.get("properties", {})
    for name, part in rules_schema.get("properties", {}).items():
        below = _below(part, properties.get(name))
        if below is not None and kind is not None and structs.part(below.schema, "part") is not None:
            made.properties[name] = below
    for part in rules_schema.get("allOf", ()):
        found = compile_node(part, schema, is_root=is_root) if has_rules(part) else None
        if found is not None:
            made.alternatives.append(found)
    return None if made.is_empty else made


def no_definition(reference: str) -> Schema:
    """What a `$ref` means: structural schemas have none. Raises KeyError."""
    raise KeyError(reference)


def _below(rules_schema: Any, schema: Any) -> Node | None:
    if not isinstance(rules_schema, dict) or not isinstance(schema, dict) or not has_rules(rules_schema):
        return None
    return compile_node(rules_schema, schema, is_root=bool(schema.get(EMBEDDED)))


def _rule(given: Mapping[str, Any], schema: Schema, kind: Type, structs: Mapping[str, Mapping[str, Type]]) -> Rule:
    made = Rule(
        given.get("rule", ""),
        given.get("message") or "",
        given.get("reason") or "",
        _normalized(given.get("fieldPath") or "", schema),
        old_is_optional=bool(given.get("optionalOldSelf")),
    )
    if not made.text.strip():
        return made
    environment = Environment({"self": kind, "oldSelf": optional_of(kind) if made.old_is_optional else kind}, structs)
    program, problem = _program(made.text, environment, BOOL)
    if program is None:
        return replace(made, problem=problem)
    expression = given.get("messageExpression") or ""
    message = _program(expression, environment, STRING)[0] if expression else None
    return replace(
        made,
        program=program,
        message_program=message,
        message_text=expression,
        uses_old="oldSelf" in program.variables,
    )


def expression_problem(expression: str, checked: Checked, wanted: Type) -> str:
    """Why the expression of a rule (or of its message, which is a string) is refused, empty if it is not."""
    issues = list(checked.issues)
    if not issues and checked.root is not None:
        issues = [*unreadable(checked.root), *validate(checked.root, checked.types)]
    if issues:
        return f"compilation failed: {display(expression, issues)}"
    if checked.type == wanted:
        return ""
    return "must evaluate to a string" if wanted == STRING else "cel expression must evaluate to a bool"


def _program(expression: str, environment: Environment, wanted: Type) -> tuple[Program | None, str]:
    """A program, or why there is none."""
    checked = check(expression, environment)
    problem = expression_problem(expression, checked, wanted)
    if problem:
        return None, problem
    try:
        return compile_expression(checked, environment), ""
    except CompilationError as error:
        return None, str(error)


def _normalized(text: str, schema: Schema) -> str:
    if not text:
        return ""
    try:
        return field_path(text, schema).text
    except FieldPathError:
        return ""
