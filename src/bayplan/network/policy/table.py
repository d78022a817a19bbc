"""One nftables table as data: its sets, maps and chains, what has changed since it was last asked, and transactions for `nft -f -`. Pure.

Changes are net ones: an element that was added and removed again is in none of them. Example, with a set `pods` of which the kernel has {a, b}:

    table.put("pods", "c"); table.discard("pods", "a"); table.put("pods", "d"); table.discard("pods", "d")
    table.take_changes()  ->  added {"pods": {"c": ""}}, removed {"pods": ["a"]}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from bayplan.network.policy.addresses import Family

NAME: Final = "bayplan-network-policy"
"""Of the tables, one in each family. Nothing else writes there."""
_LINE: Final = 500
"""Elements in one command: nft takes any number, people read the transaction in a log."""

Elements = dict[str, str]
"""Element -> verdict, "" in sets."""


@dataclass(slots=True)
class NamedSet:
    """A set, or a map to verdicts."""

    is_map: bool
    header: str
    """Its type and flags, as nftables writes them."""
    elements: Elements


@dataclass(slots=True)
class Chain:
    """A chain. Rules without the ending `;`."""

    header: str
    """Type, hook and priority of a base chain; "" for others."""
    rules: tuple[str, ...]


@dataclass(slots=True)
class Changes:
    """What turns a table as it was into one as it is."""

    new_sets: dict[str, NamedSet] = field(default_factory=dict)
    new_chains: dict[str, Chain] = field(default_factory=dict)
    """Chains that are new or have other rules."""
    added: dict[str, Elements] = field(default_factory=dict)
    """Set -> elements that are new or have another verdict."""
    removed: dict[str, list[str]] = field(default_factory=dict)
    """Set -> elements that are gone or have another verdict."""
    dropped_chains: list[str] = field(default_factory=list)
    dropped_sets: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any((self.new_sets, self.new_chains, self.added, self.removed, self.dropped_chains, self.dropped_sets))


class Table:
    """What a table is to contain. `take_changes` tells what to do to one that was equal when it was last called."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.sets: dict[str, NamedSet] = {}
        self.chains: dict[str, Chain] = {}
        self._before: dict[str, dict[str, str | None]] = {}
        """Set -> element -> its verdict when changes were last taken, None if it was not there."""
        self._changes = Changes()

    def add_set(self, name: str, header: str, elements: Iterable[str] = (), *, is_map: bool = False) -> None:
        """A set that is not there."""
        self.sets[name] = self._changes.new_sets[name] = NamedSet(is_map, header, dict.fromkeys(elements, ""))

    def drop_set(self, name: str) -> None:
        """Remove a set. It may not be added again before changes are taken."""
        del self.sets[name]
        self._before.pop(name, None)
        if self._changes.new_sets.pop(name, None) is None:
            self._changes.dropped_sets.append(name)

    def put(self, name: str, element: str, verdict: str = "") -> None:
        """Add an element, or give it another verdict."""
        elements = self.sets[name].elements
        before = elements.get(element)
        if before != verdict:
            elements[element] = verdict
            self._note(name, element, before)

    def discard(self, name: str, element: str) -> None:
        """Remove an element, if it is there."""
        before = self.sets[name].elements.pop(element, None)
        if before is not None:
            self._note(name, element, before)

    def put_chain(self, name: str, rules: Iterable[str], header: str = "") -> None:
        """Add a chain, or give it other rules."""
        chain = Chain(header, tuple(rules))
        if self.chains.get(name) != chain:
            self.chains[name] = self._changes.new_chains[name] = chain

    def drop_chain(self, name: str) -> None:
        """Remove a chain that was there when changes were last taken."""
        del self.chains[name]
        self._changes.dropped_chains.append(name)

    def take_changes(self) -> Changes:
        """What has changed since the last call."""
        changes, self._changes = self._changes, Changes()
        for name, before in self._before.items():
            elements = self.sets[name].elements
            added = {one: elements[one] for one, was in before.items() if one in elements and elements[one] != was}
            removed = [one for one, was in before.items() if was is not None and elements.get(one) != was]
            if added:
                changes.added[name] = added
            if removed:
                changes.removed[name] = removed
        self._before.clear()
        return changes

    def _note(self, name: str, element: str, before: str | None) -> None:
        if name not in self._changes.new_sets:
            self._before.setdefault(name, {}).setdefault(element, before)


def whole(table: Table) -> str:
    """A transaction that makes the table, whatever was there of its name."""
    everything = Changes(new_sets=dict(table.sets), new_chains=dict(table.chains))
    return f"{removal(table.family)}add table {table.family} {NAME}\n{partial(table.family, everything)}"


def removal(family: Family) -> str:
    """A transaction that removes the table, if it is there."""
    return f"add table {family} {NAME}\ndelete table {family} {NAME}\n"


def partial(family: Family, changes: Changes) -> str:
    """A transaction that makes the changes. Things are made before they are named, and unnamed before they are removed."""
    return "".join(f"{command}\n" for command in _commands(f"{family} {NAME}", changes))


def _commands(table: str, changes: Changes) -> Iterator[str]:
    for name, made in changes.new_sets.items():
        if not made.is_map:
            yield f"add set {table} {name} {{ {made.header}; }}"
            yield from _add_elements(table, name, made.elements)
    for name, elements in changes.removed.items():
        yield from _delete_elements(table, name, elements)
    for name, chain in changes.new_chains.items():
        yield f"add chain {table} {name} {{ {chain.header} }}" if chain.header else f"add chain {table} {name}"
        yield f"flush chain {table} {name}"
    for name, made in changes.new_sets.items():
        if made.is_map:
            yield f"add map {table} {name} {{ {made.header}; }}"
            yield from _add_elements(table, name, made.elements)
    for name, chain in changes.new_chains.items():
        for rule in chain.rules:
            yield f"add rule {table} {name} {rule}"
    for name, added in changes.added.items():
        yield from _add_elements(table, name, added)
    for name in changes.dropped_chains:
        yield f"flush chain {table} {name}"
        yield f"delete chain {table} {name}"
    for name in changes.dropped_sets:
        yield f"delete set {table} {name}"


def _add_elements(table: str, name: str, elements: Mapping[str, str]) -> Iterator[str]:
    texts = [f"{element} : {verdict}" if verdict else element for element, verdict in elements.items()]
    for begin in range(0, len(texts), _LINE):
        yield f"add element {table} {name} {{ {', '.join(texts[begin : begin + _LINE])} }}"


def _delete_elements(table: str, name: str, elements: list[str]) -> Iterator[str]:
    for begin in range(0, len(elements), _LINE):
        yield f"delete element {table} {name} {{ {', '.join(elements[begin : begin + _LINE])} }}"
