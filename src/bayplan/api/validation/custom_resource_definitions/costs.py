"""What a rule costs at most, in units of CEL, before it ever runs.

The size of everything that a schema limits is known (`sizes`); what is not limited is as large as a request can be. A loop costs what
its body costs, as often as its list is long. Source: cel-go's `checker/cost.go`, where lower bounds are estimated as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.api.cel.checker import Checked, qualified_name
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
from bayplan.api.cel.types import STRING, Type, TypeKind
from bayplan.api.schema import Schema
from bayplan.api.validation.custom_resource_definitions.call_costs import Value, call_cost
from bayplan.api.validation.custom_resource_definitions.sizes import MOST, UNKNOWN, Size, exactly, size_at

_NEW_LIST, _NEW_MAP, _NEW_STRUCT = 10, 30, 40
_GATHERED = "@result"
_SCALARS = frozenset(
    (TypeKind.BOOL, TypeKind.DOUBLE, TypeKind.DURATION, TypeKind.INT, TypeKind.TIMESTAMP, TypeKind.UINT)
)
_HAS_FIELDS = frozenset((TypeKind.MAP, TypeKind.STRUCT, TypeKind.PARAMETER))
_NOTHING = Size(MOST, 0)
"""Joined with another size it is that size."""
_Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Entries:
    """How large the parts of a list or map are that an expression made."""

    is_list: bool
    key: Size
    value: Size

    def joined(self, other: _Entries) -> _Entries:
        """Those of either."""
        return _Entries(self.is_list, self.key.joined(other.key), self.value.joined(other.value))


@dataclass(frozen=True, slots=True)
class _Variable:
    """What is known of a variable of a loop."""

    path: _Path
    size: Size | None
    entries: _Entries | None = None


def estimated_cost(checked: Checked, schema: Schema) -> int:
    """The most that an expression about `self` can cost; `2**64 - 1` stands for more than can be counted."""
    return 0 if checked.root is None else min(_Walk(checked, schema).cost(checked.root), MOST)


class _Walk:
    """One walk over an expression, from its leaves up."""

    def __init__(self, checked: Checked, schema: Schema) -> None:
        self._types = checked.types
        self._schema = schema
        self._paths: dict[Node, _Path] = {}
        self._sizes: dict[Node, Size] = {}
        self._entries: dict[Node, _Entries] = {}
        self._scopes: dict[str, list[_Variable]] = {}

    def cost(self, node: Node) -> int:
        """What a node costs with all below it; paths and sizes of it are known afterwards."""
        match node:
            case Ident():
                variable = self._variable(node)
                self._paths[node] = (node.name,) if variable is None else variable.path
                return 1
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case StructLiteral():
                return sum(self.cost(one.value) for one in node.fields) + _NEW_STRUCT
            case Comprehension():
                is_bound = isinstance(node.range, ListLiteral) and not node.range.items
                return self._bind(node) if is_bound and node.accumulator != _GATHERED else self._loop(node)
        return 0

    def _variable(self, node: Node) -> _Variable | None:
        found = self._scopes.get(node.name) if isinstance(node, Ident) else None
        return found[-1] if found else None

    def _path(self, node: Node) -> _Path:
        variable = self._variable(node)
        return self._paths.get(node, ()) if variable is None else variable.path

    def _type(self, node: Node) -> Type:
        return self._types[node]

    def _select(self, node: Select) -> int:
        cost = self.cost(node.operand)
        if node.test_only:
            return cost
        self._paths[node] = (*self._path(node.operand), node.field)
        return cost + (self._type(node.operand).kind in _HAS_FIELDS)

    def _call(self, node: Call) -> int:
        if node.function == "dyn" and node.target is None:
            cost = self.cost(node.arguments[0]) + 1
            self._copy(node, node.arguments[0])
            return cost
        costs = [self.cost(one) for one in node.arguments]
        if node.function == "_?_:_":
            return costs[0] + max(costs[1:]) + self._choose(node)
        if node.function in ("_&&_", "_||_"):
            return sum(costs)
        target, name = node.target, node.function.removeprefix(".")
        if target is not None and target not in self._types:
            name = f"{qualified_name(target)}.{name}"  # the name of a namespace, such as `sets`
            target = None
        own = 0 if target is None else self.cost(target)
        found = call_cost(name, None if target is None else self._value(target), [*map(self._value, node.arguments)])
        self._note_result(node, name, found.size)
        return own + sum(costs) + found.most

    def _choose(self, node: Call) -> int:
        """Note the size of either value; choosing is free."""
        first, second = node.arguments[1:]
        self._sizes[node] = self._known_size(first).joined(self._known_size(second))
        self._join_entries(node, first, second)
        return 0

    def _join_entries(self, node: Node, first: Node, second: Node) -> None:
        left, right = self._entries_of(first), self._entries_of(second)
        if left is not None and right is not None:
            self._entries[node] = left.joined(right)

    def _note_result(self, node: Call, name: str, size: Size | None) -> None:
        if name == "_+_":
            self._join_entries(node, *node.arguments)
        if name == "_[_]":
            holder = node.arguments[0]
            entries = self._entries_of(holder)
            size = None if entries is None else entries.value
            kind = self._type(holder).kind
            if kind in (TypeKind.LIST, TypeKind.MAP, TypeKind.DYN):
                part = "@items" if kind is TypeKind.LIST else "@values"
                self._paths[node] = (*self._path(holder), part)
        found = self._size(node) if size is None else size
        if found is not None:
            self._sizes[node] = found

    def _value(self, node: Node) -> Value:
        kind = self._type(node)
        size = self._known_size(node)
        literal = node.value if isinstance(node, Literal) else None
        path = self._path(node)
        items = size_at(self._schema, (*path, "@items")) if kind.parameters and path and path[0] != _GATHERED else None
        return Value(kind, size, UNKNOWN if items is None else items, literal)

    def _list(self, node: ListLiteral) -> int:
        cost = sum(self.cost(one) for one in node.items)
        self._entries[node] = _Entries(True, exactly(1), self._joined(node.items))
        return cost + _NEW_LIST

    def _map(self, node: MapLiteral) -> int:
        cost = sum(self.cost(one.key) + self.cost(one.value) for one in node.entries)
        keys, values = [one.key for one in node.entries], [one.value for one in node.entries]
        self._entries[node] = _Entries(False, self._joined(keys), self._joined(values))
        return cost + _NEW_MAP

    def _joined(self, nodes: list[Node] | tuple[Node, ...]) -> Size:
        found = _NOTHING if nodes else Size(0, 0)
        for one in nodes:
            found = found.joined(self._known_size(one))
        return found

    def _bind(self, node: Comprehension) -> int:
        cost = self.cost(node.range) + self.cost(node.start)
        self._push(
            node.accumulator, _Variable(self._path(node.start), self._size(node.start), self._entries_of(node.start))
        )
        cost += self.cost(node.result)
        self._copy(node, node.result)
        self._scopes[node.accumulator].pop()
        return cost

    def _copy(self, node: Node, source: Node) -> None:
        size, entries = self._size(source), self._entries_of(source)
        if size is not None:
            self._sizes[node] = size
        if entries is not None:
            self._entries[node] = entries

    def _push(self, name: str, variable: _Variable) -> None:
        self._scopes.setdefault(name, []).append(variable)

    def _loop(self, node: Comprehension) -> int:
        cost = self.cost(node.range) + self.cost(node.start)
        gathered = _Variable(self._path(node.start), self._size(node.start), self._entries_of(node.start))
        self._push(node.accumulator, gathered)
        names = self._push_loop_variables(node)
        body = self.cost(node.condition) + self.cost(node.step)
        for name in names:
            self._scopes[name].pop()
        cost += self.cost(node.result)
        self._scopes[node.accumulator].pop()
        times = self._known_size(node.range)
        if isinstance(node.start, Literal):
            self._copy(node, node.start)
        elif isinstance(node.start, ListLiteral | MapLiteral):
            self._sizes[node] = times
            made = self._entries_of(node.step)
            if made is not None:
                self._entries[node] = made
        return min(cost + times.most * min(body, MOST), MOST)

    def _push_loop_variables(self, node: Comprehension) -> tuple[str, ...]:
        entries, path = self._entries_of(node.range), self._path(node.range)
        is_list = self._type(node.range).kind is TypeKind.LIST if entries is None else entries.is_list
        key = None if entries is None else entries.key
        value = None if entries is None else entries.value
        if not node.second_variable:
            part, size = ("@items", value) if is_list else ("@keys", key)
            self._push(node.variable, _Variable((*path, part), size))
            return (node.variable,)
        self._push(node.variable, _Variable((*path, "@indices" if is_list else "@keys"), key))
        self._push(node.second_variable, _Variable((*path, "@items" if is_list else "@values"), value))
        return node.variable, node.second_variable

    def _entries_of(self, node: Node) -> _Entries | None:
        found = self._entries.get(node)
        variable = self._variable(node)
        return variable.entries if found is None and variable is not None else found

    def _known_size(self, node: Node) -> Size:
        found = self._size(node)
        return UNKNOWN if found is None else found

    def _size(self, node: Node) -> Size | None:
        """How large the value of a node is: by what is written there, by the schema, or by its type."""
        if node in self._sizes:
            return self._sizes[node]
        written = _written_size(node)
        if written is not None:
            return written
        found = size_at(self._schema, self._path(node))
        if found is not None:
            self._sizes[node] = found
            return found
        if _is_scalar(self._type(node)):
            return exactly(1)
        variable = self._variable(node)
        return None if variable is None else variable.size


def _written_size(node: Node) -> Size | None:
    """The size of what stands there literally."""
    if isinstance(node, Literal):
        return exactly(len(node.value if isinstance(node.value, bytes) else node.text) if _is_text(node) else 1)
    if isinstance(node, ListLiteral):
        return exactly(len(node.items))
    return exactly(len(node.entries)) if isinstance(node, MapLiteral) else None


def _is_text(node: Literal) -> bool:
    return node.type == STRING or isinstance(node.value, bytes)


def _is_scalar(found: Type) -> bool:
    if found.kind is TypeKind.OPAQUE and found.name == "optional_type":
        return _is_scalar(found.parameters[0])
    return found.kind in _SCALARS
