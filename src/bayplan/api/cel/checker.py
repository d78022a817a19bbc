"""Finds the type of every part of an expression, and what does not fit.

One walk over the tree: names are looked up, calls matched with the overloads of their function, type parameters settled on the way. What is wrong gets the
type `ERROR`, which fits everywhere, so that one mistake is told once. The messages and their places are cel-go's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bayplan.api.cel import library
from bayplan.api.cel.issues import NOWHERE, Issue, SyntaxIssue
from bayplan.api.cel.nodes import (
    Call,
    Comprehension,
    FieldValue,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
)
from bayplan.api.cel.parser import parse
from bayplan.api.cel.tokens import FIELD_KEYWORDS
from bayplan.api.cel.types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    STRING,
    Type,
    TypeKind,
    is_dyn,
    is_dyn_or_error,
    list_of,
    map_of,
    optional_of,
    parameter,
    struct,
    type_of,
    without_optional,
)
from bayplan.api.cel.unification import most_general, substitute, unify

_TOO_DEEP = "expression recursion limit exceeded: 250"


@dataclass(frozen=True, slots=True)
class Environment:
    """What expressions can refer to."""

    variables: Mapping[str, Type] = field(default_factory=dict)
    structs: Mapping[str, Mapping[str, Type]] = field(default_factory=dict)
    """Fields of structs: struct -> field -> type. Fields are named as expressions escape them (`__namespace__`)."""
    functions: Mapping[str, tuple[library.Overload, ...]] = field(default_factory=library.functions)
    """Functions and operators by name."""
    has_bindings: bool = False
    """Whether expressions may give values a name with `cel.bind`."""


@dataclass(frozen=True, slots=True)
class Checked:
    """An expression that was looked at."""

    root: Node | None
    """None if the text is no expression."""
    types: Mapping[Node, Type]
    """Of every node; `dyn` where any type can be."""
    issues: Sequence[Issue]

    @property
    def type(self) -> Type:
        """What the expression evaluates to; `ERROR` if something is wrong with it."""
        return ERROR if self.root is None or self.issues else self.types[self.root]


def check(source: str, environment: Environment) -> Checked:
    """The types of an expression. Mistakes are in the result, nothing is raised."""
    walk = _Walk(environment)
    try:
        root = parse(source, has_bindings=environment.has_bindings)
        walk.visit(root)
    except SyntaxIssue as error:
        return Checked(None, {}, error.issues)
    except RecursionError:
        return Checked(None, {}, (Issue(NOWHERE, _TOO_DEEP),))
    settled = {node: substitute(walk.known, found, unknown_is_dyn=True) for node, found in walk.types.items()}
    return Checked(root, settled, walk.issues)


def qualified_name(node: Node) -> str | None:
    """`a.b.c` if a node is nothing but names, else None."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.test_only:
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join((node.name, *reversed(parts)))


class _Walk:
    """What is found out during one walk."""

    def __init__(self, environment: Environment) -> None:
        self.types: dict[Node, Type] = {}
        self.issues: list[Issue] = []
        self.known: dict[str, Type] = {}
        self._environment = environment
        self._scopes: list[dict[str, Type]] = [dict(environment.variables)]
        self._parameters = 0

    def visit(self, node: Node) -> Type:
        """The type of a node, noted for it and all below it."""
        match node:
            case Literal():
                found = node.type
            case Ident():
                found = self._ident(node)
            case Select():
                found = self._select(node)
            case Call():
                found = self._call(node)
            case ListLiteral():
                found = self._list(node)
            case MapLiteral():
                found = self._map(node)
            case StructLiteral():
                found = self._struct(node)
            case Comprehension():
                found = self._comprehension(node)
            case _:
                raise TypeError(f"{type(node).__name__} is no expression")
        self.types[node] = found
        return found

    def _report(self, node: Node, message: str) -> None:
        self.issues.append(Issue(node.offset, message))

    def _undeclared(self, node: Node, name: str) -> Type:
        self._report(node, f"undeclared reference to '{name}' (in container '')")
        return ERROR

    def _mismatch(self, node: Node, wanted: Type, found: Type) -> None:
        self._report(node, f"expected type '{wanted}' but found '{found}'")

    def _unknown(self) -> Type:
        """A type that is yet to be found."""
        self._parameters += 1
        return parameter(f"_var{self._parameters - 1}")

    def _fits(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        found = unify(self.known, given, wanted)
        if found is None:
            return False
        self.known.update(found)
        return True

    def _settled(self, found: Type) -> Type:
        return substitute(self.known, found)

    def _declared(self, name: str) -> Type | None:
        """The type of a variable or of the name of a type."""
        plain = name.removeprefix(".")
        for scope in reversed(self._scopes):
            if plain in scope:
                return scope[plain]
        if plain in self._environment.structs:
            return type_of(struct(plain))
        return library.type_names().get(plain)

    def _ident(self, node: Ident) -> Type:
        return self._declared(node.name) or self._undeclared(node, node.name)

    def _select(self, node: Select) -> Type:
        name = qualified_name(node)
        declared = None if name is None else self._declared(name)
        if declared is not None:
            return declared
        found = self._field_of(node, node.operand, node.field)
        return BOOL if node.test_only else self._settled(found)

    def _field_of(self, node: Node, operand: Node, name: str, *, optional: bool = False) -> Type:
        """The type of a field; of an optional object the field is optional too."""
        self.visit(operand)
        holder, was_optional = without_optional(self._settled(self.types[operand]))
        if holder.kind is TypeKind.MAP:
            found = holder.parameters[1]
        elif holder.kind is TypeKind.STRUCT:
            found = self._declared_field(node, holder.name, name) or ERROR
        else:
            if holder.kind is TypeKind.PARAMETER:
                self._fits((DYN,), (holder,))
            elif not is_dyn_or_error(holder):
                self._report(node, f"type '{holder}' does not support field selection")
            found = DYN
        return optional_of(found) if optional or was_optional else found

    def _declared_field(self, node: Node, holder: str, name: str) -> Type | None:
        fields = self._environment.structs.get(holder)
        if fields is None:
            self._report(node, f"unexpected failed resolution of '{holder}'")
            return None
        found = fields.get(name)
        if found is None and name in FIELD_KEYWORDS:
            found = fields.get(f"__{name}__")
        if found is None:
            self._report(node, f"undefined field '{name}'")
        return found

    def _call(self, node: Call) -> Type:
        if node.function == "_?._":
            return self._optional_field(node)
        given = [self.visit(one) for one in node.arguments]
        functions = self._environment.functions
        if node.target is None:
            name = node.function.removeprefix(".")
            return self._resolved(node, name, given) if name in functions else self._undeclared(node, node.function)
        prefix = qualified_name(node.target)
        name = f"{prefix}.{node.function}".removeprefix(".")
        if prefix is not None and name in functions:
            return self._resolved(node, name, given)
        target = self.visit(node.target)
        if node.function not in functions:
            return self._undeclared(node, node.function)
        return self._resolved(node, node.function, [target, *given], is_member=True)

    def _optional_field(self, node: Call) -> Type:
        operand, name = node.arguments
        self.types[name] = STRING
        text = name.text if isinstance(name, Literal) else ""
        return self._settled(self._field_of(node, operand, text, optional=True))

    def _resolved(self, node: Call, name: str, given: list[Type], *, is_member: bool = False) -> Type:
        """The result of a call: that of the overload that fits, `dyn` if several fit with different results."""
        if name in ("_&&_", "_||_"):
            return self._logical(node, given)
        result: Type | None = None
        for overload in self._environment.functions[name]:
            if overload.is_member is not is_member:
                continue
            fresh = {one: self._unknown() for one in overload.parameters}
            wanted = [substitute(fresh, one) for one in overload.arguments]
            if not self._fits(given, wanted):
                continue
            found = self._settled(substitute(fresh, overload.result))
            if result is None:
                result = found
            elif not is_dyn(result) and found != result:
                result = DYN
        if result is not None:
            return result
        shown = [str(substitute(self.known, one, unknown_is_dyn=True)) for one in given]
        signature = f"{shown[0]}.({', '.join(shown[1:])})" if is_member else f"({', '.join(shown)})"
        self._report(node, f"found no matching overload for '{name}' applied to '{signature}'")
        return ERROR

    def _logical(self, node: Call, given: list[Type]) -> Type:
        result = BOOL
        for argument, found in zip(node.arguments, given, strict=True):
            if not self._fits((found,), (BOOL,)):
                self._mismatch(argument, BOOL, found)
                result = ERROR
        return result

    def _without_optional(self, node: Node, found: Type) -> Type:
        """What is put in if an optional value is there."""
        held, was_optional = without_optional(found)
        if not was_optional and not is_dyn(held):
            self._mismatch(node, optional_of(held), held)
        return held

    def _joined(self, before: Type | None, found: Type) -> Type:
        """The type of several items. Of different ones it is `dyn`, which `validators` refuses where it is not wanted."""
        if before is None:
            return found
        if self._fits((before,), (found,)):
            return most_general(before, found)
        return DYN

    def _list(self, node: ListLiteral) -> Type:
        held: Type | None = None
        for index, item in enumerate(node.items):
            found = self.visit(item)
            if index in node.optional:
                found = self._without_optional(item, found)
            held = self._joined(held, found)
        return list_of(held or self._unknown())

    def _map(self, node: MapLiteral) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for entry in node.entries:
            keys = self._joined(keys, self.visit(entry.key))
            found = self.visit(entry.value)
            if entry.optional:
                found = self._without_optional(entry.value, found)
            values = self._joined(values, found)
        if keys is None or values is None:
            keys, values = self._unknown(), self._unknown()
        return map_of(keys, values)

    def _struct(self, node: StructLiteral) -> Type:
        declared = self._declared(node.type_name)
        if declared is None:
            return self._undeclared(node, node.type_name)
        made = ERROR
        if declared.kind is not TypeKind.TYPE or not declared.parameters:
            self._report(node, f"'{declared.name}' is not a type")
        elif declared.parameters[0].kind is not TypeKind.STRUCT:
            self._report(node, f"'{declared.parameters[0].name}' is not a message type")
        else:
            made = declared.parameters[0]
        for one in node.fields:
            self._new_field(one, node.type_name.removeprefix("."))
        return made

    def _new_field(self, one: FieldValue, holder: str) -> None:
        found = self.visit(one.value)
        wanted = self._declared_field(one, holder, one.name) or ERROR
        if one.optional:
            found = self._without_optional(one.value, found)
        if not self._fits((wanted,), (found,)):
            self._report(one, f"expected type of field '{one.name}' is '{wanted}' but provided type is '{found}'")

    def _comprehension(self, node: Comprehension) -> Type:
        self.visit(node.range)
        start = self.visit(node.start)
        variables = self._loop_variables(node, self._settled(self.types[node.range]))
        self._scopes.append({node.accumulator: start})
        self._scopes.append(variables)
        for part, wanted in ((node.condition, BOOL), (node.step, start)):
            found = self.visit(part)
            if not self._fits((wanted,), (found,)):
                self._mismatch(part, wanted, found)
        self._scopes.pop()
        result = self.visit(node.result)
        self._scopes.pop()
        return self._settled(result)

    def _loop_variables(self, node: Comprehension, over: Type) -> dict[str, Type]:
        """The variables of a loop: items, or keys; of two variables index and item, or key and value."""
        if over.kind is TypeKind.LIST:
            first, second = (INT, over.parameters[0]) if node.second_variable else (over.parameters[0], DYN)
        elif over.kind is TypeKind.MAP:
            first, second = over.parameters
        elif over.kind in (TypeKind.DYN, TypeKind.ERROR, TypeKind.PARAMETER):
            self._fits((DYN,), (over,))
            first = second = DYN
        else:
            text = "cannot be range of a comprehension (must be list, map, or dynamic)"
            self._report(node.range, f"expression of type '{over}' {text}")
            first = second = ERROR
        found = {node.variable: first}
        return {**found, node.second_variable: second} if node.second_variable else found
