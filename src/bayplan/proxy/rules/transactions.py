"""Transactions for `nft -f`: the difference between two states of a table, and a whole table. Pure.

Statements come in an order that the kernel takes at once: what refers to others goes first, what others refer to comes first. A chain that is not needed
any more is only emptied: kernels before 6.2 believe for a moment after a map has lost an element that its chain is still in use. It is deleted later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bayplan.proxy.families import Family
from bayplan.proxy.rules.names import AFFINITY, TABLE
from bayplan.proxy.rules.table_items import Chain, Element, Item, ItemKind, SetDefinition, Value


class Transaction(NamedTuple):
    """Commands that succeed or fail together."""

    commands: tuple[str, ...]
    stale_chains: tuple[str, ...]
    """Chains that are empty afterwards, and to be deleted a second later."""

    @property
    def text(self) -> str:
        """Input of `nft`."""
        return "".join(f"{command}\n" for command in self.commands)


class KernelSet(NamedTuple):
    """What the kernel has of a set or map."""

    is_map: bool
    timeout_seconds: int
    """After which elements go; 0: never."""


class KernelNames(NamedTuple):
    """What a table of the kernel has, by names."""

    chains: frozenset[str]
    sets: Mapping[str, KernelSet]
    """Without anonymous ones, which are parts of rules."""


def difference(family: Family, before: Mapping[Item, Value], after: Mapping[Item, Value]) -> Transaction:
    """Commands that make `after` of `before`.

    Both are parts of a table: whatever is in neither stays as it is. A set whose definition changes needs all rules that name it in both.
    """
    place = f"{family.nft} {TABLE}"
    changed = [item for item in {**before, **after} if before.get(item) != after.get(item)]
    sets = [item for item in changed if item.kind is ItemKind.SET]
    chains = [item for item in changed if item.kind is ItemKind.CHAIN]
    chains += _naming({item.name for item in sets if item in before and item in after}, before, after, set(chains))
    removed = {item: before[item] for item in changed if item in before}
    added = {item: after[item] for item in changed if item in after}
    stale = tuple(item.name for item in chains if item not in after)
    commands = [f"flush chain {place} {item.name}" for item in chains if item in before]
    commands += _elements("delete", place, {item: Element() for item in removed if item.kind is ItemKind.ELEMENT})
    commands += [_delete_set(place, item.name, _definition(before, item).is_map) for item in sets if item in before]
    new_chains = [item for item in chains if item in after and item not in before]
    commands += [_add_chain(place, item.name, _content(after, item)) for item in new_chains]
    commands += [_add_set(place, item.name, _definition(after, item)) for item in sets if item in after]
    for item in chains:
        if item in after:
            commands += [f"add rule {place} {item.name} {rule}" for rule in _content(after, item).rules]
    commands += _elements("add", place, {item: value for item, value in added.items() if isinstance(value, Element)})
    return Transaction(tuple(commands), stale)


def whole(family: Family, kernel: KernelNames, desired: Mapping[Item, Value]) -> Transaction:
    """Commands that make a table exactly what is desired, whatever is in it now. Only affinity sets keep their elements: clients keep their endpoints."""
    place = f"{family.nft} {TABLE}"
    wanted = {item.name: value for item, value in desired.items() if isinstance(value, Chain)}
    definitions = {item.name: value for item, value in desired.items() if isinstance(value, SetDefinition)}
    commands = [f'add table {place} {{ comment "rules for kube-proxy" ; }}']
    commands += [f"flush chain {place} {name}" for name in sorted(kernel.chains)]
    # A base chain cannot be changed, only made anew.
    hooked = sorted(name for name, content in wanted.items() if content.hook and name in kernel.chains)
    commands += [f"delete chain {place} {name}" for name in hooked]
    for name, known in sorted(kernel.sets.items()):
        if not _keeps(name, known, definitions.get(name)):
            commands.append(_delete_set(place, name, known.is_map))
    added = difference(family, {}, desired).commands
    return Transaction((*commands, *added), tuple(sorted(kernel.chains - wanted.keys())))


def deletion(family: Family, chains: Iterable[str]) -> Transaction:
    """Commands that delete empty chains."""
    return Transaction(tuple(f"delete chain {family.nft} {TABLE} {name}" for name in chains), ())


def removal(family: Family) -> Transaction:
    """Commands that remove the table, also if it is not there."""
    place = f"{family.nft} {TABLE}"
    return Transaction((f"add table {place}", f"delete table {place}"), ())


def _naming(names: set[str], before: Mapping[Item, Value], after: Mapping[Item, Value], known: set[Item]) -> list[Item]:
    """Chains besides those known whose rules name one of the sets: the kernel deletes no set that a rule uses."""
    if not names:
        return []
    marks = {f"@{name}" for name in names}
    return [
        item
        for item, value in before.items()
        if isinstance(value, Chain)
        and item in after
        and item not in known
        and any(word in marks for rule in value.rules for word in rule.split())
    ]


def _keeps(name: str, known: KernelSet, definition: SetDefinition | None) -> bool:
    """Whether a set of the kernel may stay."""
    if definition is None or not name.startswith(AFFINITY) or known.is_map:
        return False
    return definition.definition.endswith(f"timeout {known.timeout_seconds}s")


def _content(items: Mapping[Item, Value], item: Item) -> Chain:
    value = items[item]
    assert isinstance(value, Chain)
    return value


def _definition(items: Mapping[Item, Value], item: Item) -> SetDefinition:
    value = items[item]
    assert isinstance(value, SetDefinition)
    return value


def _add_chain(place: str, name: str, content: Chain) -> str:
    return f"add chain {place} {name}" + (f" {{ {content.hook} ; }}" if content.hook else "")


def _add_set(place: str, name: str, value: SetDefinition) -> str:
    comment = f' comment "{value.comment}" ;' if value.comment else ""
    return f"add {'map' if value.is_map else 'set'} {place} {name} {{ {value.definition} ;{comment} }}"


def _delete_set(place: str, name: str, is_map: bool) -> str:
    return f"delete {'map' if is_map else 'set'} {place} {name}"


def _elements(verb: str, place: str, elements: Mapping[Item, Element]) -> list[str]:
    """One command for each container."""
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for item, value in elements.items():
        comment = f' comment "{value.comment}"' if value.comment else ""
        verdict = f" : {value.verdict}" if value.verdict else ""
        texts[item.name].append(f"{item.key}{comment}{verdict}")
    return [f"{verb} element {place} {container} {{ {', '.join(parts)} }}" for container, parts in texts.items()]
