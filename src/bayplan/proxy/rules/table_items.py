"""What a table of the kernel consists of: chains, sets and their elements, as values that can be compared. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple


class ItemKind(IntEnum):
    """What an item is."""

    CHAIN = 0
    SET = 1
    """A set or a map."""
    ELEMENT = 2


class Item(NamedTuple):
    """What identifies a part of the table."""

    kind: ItemKind
    name: str
    """Of the chain or the set; of an element, its set's."""
    key: str = ""
    """Of an element, such as `10.96.0.1 . tcp . 80`."""


class Chain(NamedTuple):
    """A chain's content."""

    rules: tuple[str, ...]
    hook: str = ""
    """Where the kernel calls it, such as `type nat hook output priority -100`; "" if only rules jump to it."""


class SetDefinition(NamedTuple):
    """A set or a map, without elements."""

    definition: str
    """Such as `type ipv4_addr`."""
    is_map: bool = False
    comment: str = ""


class Element(NamedTuple):
    """An element besides its key."""

    verdict: str = ""
    """Of maps."""
    comment: str = ""


Value = Chain | SetDefinition | Element
Items = dict[Item, Value]


def chain(name: str) -> Item:
    """The identity of a chain."""
    return Item(ItemKind.CHAIN, name)


def named_set(name: str) -> Item:
    """The identity of a set or map."""
    return Item(ItemKind.SET, name)


def element(container: str, key: str) -> Item:
    """The identity of an element."""
    return Item(ItemKind.ELEMENT, container, key)


def as_items(pairs: Iterable[tuple[Item, Value | None]]) -> Items:
    """The items that are there."""
    return {item: value for item, value in pairs if value is not None}
