"""What an expression is made of. Every node knows where it stands; two nodes are equal only if they are the same node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayplan.api.cel.types import Type


@dataclass(eq=False, slots=True)
class Node:
    """Base of all nodes."""

    offset: int
    """Index of the character that stands for the node in messages: of an operator its sign, of a call its parenthesis."""


@dataclass(eq=False, slots=True)
class Literal(Node):
    """A constant."""

    type: Type
    text: str = ""
    """The value of a string."""
    value: Any = None
    """Its value."""


@dataclass(eq=False, slots=True)
class Ident(Node):
    """A name; with a dot in front it is not looked for in inner scopes."""

    name: str


@dataclass(eq=False, slots=True)
class Select(Node):
    """A field of something, or with `test_only` whether it is there."""

    operand: Node
    field: str
    test_only: bool = False


@dataclass(eq=False, slots=True)
class Call(Node):
    """A function or operator."""

    function: str
    target: Node | None
    """What a member function is called on."""
    arguments: tuple[Node, ...]


@dataclass(eq=False, slots=True)
class ListLiteral(Node):
    """A list."""

    items: tuple[Node, ...] = ()
    optional: frozenset[int] = frozenset()
    """Indexes of items that are left out when they are missing."""


@dataclass(eq=False, slots=True)
class Entry(Node):
    """A pair of a map."""

    key: Node
    value: Node
    optional: bool


@dataclass(eq=False, slots=True)
class MapLiteral(Node):
    """A map."""

    entries: tuple[Entry, ...] = ()


@dataclass(eq=False, slots=True)
class FieldValue(Node):
    """A field of a new object."""

    name: str
    value: Node
    optional: bool


@dataclass(eq=False, slots=True)
class StructLiteral(Node):
    """A new object."""

    type_name: str
    fields: tuple[FieldValue, ...]


@dataclass(eq=False, slots=True)
class Comprehension(Node):
    """A loop over a range that folds it into a result; made by macros."""

    range: Node
    variable: str
    second_variable: str
    """Empty for loops of one variable."""
    accumulator: str
    start: Node
    condition: Node
    step: Node
    result: Node
