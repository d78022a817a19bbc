"""Makes steps of the nodes of a checked expression: literals, names and fields. Calls are in `building_calls`, loops in `building_loops`.

Costs are counted as cel-go does: a name costs one and each field, index or key behind it another one, constants cost nothing, and the branches of `?:` are looked
up without the one for their name. What is constant is worked out here, once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bayplan.api.cel import costs, library
from bayplan.api.cel.checker import Checked, Environment, qualified_name
from bayplan.api.cel.functions import implementations
from bayplan.api.cel.nodes import (
    Call,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
)
from bayplan.api.cel.steps import Frame, Step, is_present, reading, select, select_if_present
from bayplan.api.cel.types import DYN, Type
from bayplan.api.cel.values import (
    ABSENT,
    EvaluationError,
    MapValue,
    Optional,
    StructValue,
    TypeValue,
    no_such_overload,
    text_of,
)

_CONVERSIONS = frozenset(("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "uint"))
_QUALIFIERS = frozenset(("_[_]", "_?._", "_[?_]"))


class Builder:
    """What is known while an expression is compiled."""

    def __init__(self, checked: Checked, environment: Environment) -> None:
        self.names: dict[str, int] = {}
        """Slots of the variables that the expression looks at."""
        self.slots = 0
        self.functions = environment.functions
        self._types = checked.types
        self._environment = environment
        self._scopes: list[dict[str, Step]] = []
        self._constants: dict[Node, Any] = {}

    def type_of(self, node: Node) -> Type:
        """The type that the checker found."""
        return self._types.get(node, DYN)

    def new_slot(self) -> int:
        """Room for a variable."""
        self.slots += 1
        return self.slots - 1

    @contextmanager
    def scope(self, variables: dict[str, Step]) -> Iterator[None]:
        """Names that are known for a while, with the steps that read them."""
        self._scopes.append(variables)
        yield
        self._scopes.pop()

    def step(self, node: Node) -> Step:
        """The step of a node."""
        constant = self.constant(node)
        if constant is not ABSENT:
            return lambda frame: constant
        if self._is_attribute(node):
            return self._attribute(node)
        match node:
            case Call():
                from bayplan.api.cel.building_calls import build_call  # it builds its arguments here

                return build_call(self, node)
            case Comprehension():
                from bayplan.api.cel.building_loops import build_loop  # the same

                return build_loop(self, node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case StructLiteral():
                return self._struct(node)
        raise TypeError(f"{type(node).__name__} has no value")

    def constant(self, node: Node) -> Any:
        """The value of a node that has always the same, ABSENT of others. Raises EvaluationError."""
        if node not in self._constants:
            self._constants[node] = self._worked_out(node)
        return self._constants[node]

    def _worked_out(self, node: Node) -> Any:
        match node:
            case Literal():
                return node.value
            case Ident() | Select():
                return self._type_named(node)
            case ListLiteral():
                items = [self.constant(one) for one in node.items]
                return ABSENT if node.optional or any(one is ABSENT for one in items) else items
            case MapLiteral():
                pairs = [(self.constant(one.key), self.constant(one.value)) for one in node.entries]
                varies = any(one.optional for one in node.entries) or any(
                    key is ABSENT or value is ABSENT for key, value in pairs
                )
                return ABSENT if varies else MapValue(pairs)
            case Call(function=name, target=None, arguments=(only,)) if name in _CONVERSIONS:
                given = self.constant(only)
                return ABSENT if given is ABSENT else implementations()[name, False].resolve(given)(given)
        return ABSENT

    def _type_named(self, node: Node) -> Any:
        """The type that a name means, if it means one."""
        name = qualified_name(node)
        plain = None if name is None else name.removeprefix(".")
        if plain is None or self._variable(plain) is not None:
            return ABSENT
        if isinstance(node, Select) and (root := plain.partition(".")[0]) and self._variable(root) is not None:
            return ABSENT
        if plain in self._environment.structs or plain in library.type_names():
            return TypeValue(plain)
        return ABSENT

    def _variable(self, name: str) -> Step | None:
        """The step that reads a variable, without costs; None if there is no such variable."""
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        if name not in self._environment.variables:
            return None
        if name not in self.names:
            self.names[name] = self.new_slot()
        return reading(self.names[name])

    def _named(self, node: Node) -> Step | None:
        """The step of a node that is the name of a variable; names may have dots."""
        name = qualified_name(node)
        return None if name is None else self._variable(name.removeprefix("."))

    def _is_attribute(self, node: Node) -> bool:
        if isinstance(node, Call):
            return node.function in _QUALIFIERS or node.function == "_?_:_"
        return isinstance(node, Ident | Select)

    def _attribute(self, node: Node) -> Step:
        """A name and what is behind it, with the cost of the name."""
        if isinstance(node, Select) and node.test_only:
            return self._test(node)
        found = self.resolved(node)
        if self._is_conditional(node):
            return found

        def attribute(frame: Frame) -> Any:
            frame.cost += 1
            return found(frame)

        return self._quick(node) or attribute

    def _is_conditional(self, node: Node) -> bool:
        while True:
            if isinstance(node, Call) and node.function == "_?_:_":
                return True
            if isinstance(node, Select) and self._named(node) is None and not node.test_only:
                node = node.operand
            elif isinstance(node, Call) and node.function in _QUALIFIERS:
                node = node.arguments[0]
            else:
                return False

    def _quick(self, node: Node) -> Step | None:
        """The step of the most usual attributes: a variable with a field."""
        names: list[str] = []
        while isinstance(node, Select) and self._named(node) is None:
            names.append(node.field)
            node = node.operand
        read = self._named(node)
        if read is None or len(names) != 1:
            return None
        name = names[0]

        def one_field(frame: Frame) -> Any:
            frame.cost += 2
            holder = read(frame)
            return _optional_field(frame, holder, name) if type(holder) is Optional else select(holder, name)

        return one_field

    def resolved(self, node: Node) -> Step:
        """The value of a node where the cost of its name does not count: of branches and of indexes."""
        if not self._is_attribute(node) or (isinstance(node, Select) and node.test_only):
            return self.step(node)
        if self.constant(node) is not ABSENT:
            return self.step(node)
        named = self._named(node)
        if named is not None:
            return named
        if isinstance(node, Select):
            return _field(self.resolved(node.operand), node.field)
        if isinstance(node, Call):
            if node.function == "_?_:_":
                return self._conditional(node)
            holder, key = node.arguments
            return self._indexed(self.resolved(holder), key, optional=node.function != "_[_]")
        raise EvaluationError(f"no such attribute(s): {text_of(qualified_name(node))}")

    def _indexed(self, holder: Step, key: Node, *, optional: bool) -> Step:
        constant = self.constant(key)
        key_step = self.resolved(key)
        if optional:

            def if_present(frame: Frame) -> Any:
                found = holder(frame)
                return select_if_present(frame, found, key_step(frame))

            return if_present
        if constant is not ABSENT:
            return _field(holder, constant)

        def indexed(frame: Frame) -> Any:
            found = holder(frame)
            wanted = key_step(frame)
            if type(found) is Optional:
                return select_if_present(frame, found, wanted)
            frame.cost += 1
            return select(found, wanted)

        return indexed

    def _conditional(self, node: Call) -> Step:
        condition = self.step(node.arguments[0])
        chosen, other = self.resolved(node.arguments[1]), self.resolved(node.arguments[2])

        def conditional(frame: Frame) -> Any:
            found = condition(frame)
            if found is True:
                return chosen(frame)
            if found is False:
                return other(frame)
            raise no_such_overload()

        return conditional

    def _test(self, node: Select) -> Step:
        """Whether a field is there; the name of its holder is free."""
        holder, field = self.resolved(node.operand), node.field

        def test(frame: Frame) -> bool:
            frame.cost += 1
            return is_present(holder(frame), field)

        return test

    def _list(self, node: ListLiteral) -> Step:
        items = [(self.step(one), index in node.optional) for index, one in enumerate(node.items)]

        def made(frame: Frame) -> list[Any]:
            frame.cost += costs.LIST
            found = []
            for item, is_optional in items:
                value = item(frame)
                if is_optional:
                    if type(value) is not Optional:
                        what = "cannot initialize optional list element from non-optional value"
                        raise EvaluationError(f"{what} {text_of(value)}")
                    if not value.is_present:
                        continue
                    value = value.value
                found.append(value)
            return found

        return made

    def _map(self, node: MapLiteral) -> Step:
        entries = [(self.step(one.key), self.step(one.value), one.optional) for one in node.entries]

        def made(frame: Frame) -> MapValue:
            frame.cost += costs.MAP
            pairs = [(key(frame), value(frame), is_optional) for key, value, is_optional in entries]
            return MapValue(_present(pairs))

        return made

    def _struct(self, node: StructLiteral) -> Step:
        name = node.type_name.removeprefix(".")
        fields = [(one.name, self.step(one.value), one.optional) for one in node.fields]

        def made(frame: Frame) -> StructValue:
            frame.cost += costs.STRUCT
            return StructValue(name, _present([(key, value(frame), optional) for key, value, optional in fields]))

        return made


def _optional_field(frame: Frame, holder: Optional, key: Any) -> Optional:
    """A field of an optional value, whose cost was counted before it was known whether it is there."""
    frame.cost -= 1
    return select_if_present(frame, holder, key)


def _field(holder: Step, key: Any) -> Step:
    def field(frame: Frame) -> Any:
        found = holder(frame)
        if type(found) is Optional:
            return select_if_present(frame, found, key)
        frame.cost += 1
        return select(found, key)

    return field


def _present(entries: list[tuple[Any, Any, bool]]) -> list[tuple[Any, Any]]:
    """Entries that are there. Raises EvaluationError for one that should be optional and is not."""
    found = []
    for key, value, is_optional in entries:
        if is_optional:
            if type(value) is not Optional:
                what = f"cannot initialize optional entry '{text_of(key)}' from non-optional value"
                raise EvaluationError(f"{what} {text_of(value)}")
            if not value.is_present:
                continue
            value = value.value
        found.append((key, value))
    return found
