"""nftables as far as the proxy uses it: takes the commands of transactions, and refuses what the kernel refuses."""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bayplan.proxy.errors import RulesError
from bayplan.proxy.families import Family
from bayplan.proxy.rules.stale_connections import Connection
from bayplan.proxy.rules.transactions import KernelNames, KernelSet

_NAME = r"([\w./-]+)"
_COMMANDS = {
    re.compile(r"add table (\w+) kube-proxy(?: {.*})?"): "add_table",
    re.compile(r"delete table (\w+) kube-proxy"): "delete_table",
    re.compile(rf"add chain (\w+) kube-proxy {_NAME}(?: {{ (.*) ; }})?"): "add_chain",
    re.compile(rf"flush chain (\w+) kube-proxy {_NAME}"): "flush_chain",
    re.compile(rf"delete chain (\w+) kube-proxy {_NAME}"): "delete_chain",
    re.compile(rf"add (set|map) (\w+) kube-proxy {_NAME} {{ (.*) }}"): "add_set",
    re.compile(rf"delete (set|map) (\w+) kube-proxy {_NAME}"): "delete_set",
    re.compile(rf"add rule (\w+) kube-proxy {_NAME} (.*)"): "add_rule",
    re.compile(rf"(add|delete) element (\w+) kube-proxy {_NAME} {{ (.*) }}"): "elements",
}


@dataclass
class ModelSet:
    """A set or map."""

    kind: str
    definition: str
    elements: dict[str, str] = field(default_factory=dict)


@dataclass
class Table:
    """A table."""

    chains: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    """Name -> (hook, rules)."""
    sets: dict[str, ModelSet] = field(default_factory=dict)


class ModelKernel:
    """Tables by family. It stands for the kernel and for `nft`."""

    def __init__(self) -> None:
        self.tables: dict[str, Table] = {}
        self.commits: list[str] = []
        self.number = 1
        self.refuse: str = ""
        """Why the next transaction fails; "": it does not."""

    async def apply(self, text: str) -> None:
        """All commands, or none. Raises RulesError."""
        if self.refuse:
            reason, self.refuse = self.refuse, ""
            raise RulesError(reason)
        self.run(text)

    def run(self, text: str) -> None:
        """Likewise."""
        before = copy.deepcopy(self.tables)
        try:
            for command in text.splitlines():
                self._command(command)
            for table in self.tables.values():
                _check_names(table)
        except RulesError:
            self.tables = before
            raise
        self.commits.append(text)
        self.number += 1

    def generation(self) -> int:
        return self.number

    def names(self, family: Family) -> KernelNames:
        table = self.tables.get(family.nft, Table())
        return KernelNames(frozenset(table.chains), {name: _kernel_set(one) for name, one in table.sets.items()})

    def fingerprint(self, family: Family) -> bytes:
        return repr(self.tables.get(family.nft)).encode()

    def udp_connections(self, family: Family) -> list[Connection]:
        return []

    def forget(self, family: Family, connections: Iterable[Connection]) -> int:
        return len(list(connections))

    def _command(self, command: str) -> None:
        for pattern, name in _COMMANDS.items():
            found = pattern.fullmatch(command)
            if found is not None:
                getattr(self, f"_{name}")(*found.groups())
                return
        raise RulesError(f"no such command: {command}")

    def _add_table(self, family: str) -> None:
        self.tables.setdefault(family, Table())

    def _delete_table(self, family: str) -> None:
        del self.tables[family]

    def _add_chain(self, family: str, name: str, hook: str | None) -> None:
        known = self.tables[family].chains.setdefault(name, (hook or "", []))
        if known[0] != (hook or ""):
            raise RulesError(f"chain {name} is there, with hook {known[0]!r}")

    def _flush_chain(self, family: str, name: str) -> None:
        self._chain(family, name).clear()

    def _delete_chain(self, family: str, name: str) -> None:
        self._chain(family, name)
        table = self.tables[family]
        if name in set(_targets(table)):
            raise RulesError(f"chain {name} is in use")
        del table.chains[name]

    def _add_set(self, kind: str, family: str, name: str, definition: str) -> None:
        known = self.tables[family].sets.setdefault(name, ModelSet(kind, definition))
        if (known.kind, known.definition) != (kind, definition):
            raise RulesError(f"set {name} is there, as {known}")

    def _delete_set(self, kind: str, family: str, name: str) -> None:
        table = self.tables[family]
        if name not in table.sets or table.sets[name].kind != kind:
            raise RulesError(f"no {kind} {name}")
        if any(f"@{name}" in rule.split() for _, rules in table.chains.values() for rule in rules):
            raise RulesError(f"set {name} is in use")
        del table.sets[name]

    def _add_rule(self, family: str, name: str, rule: str) -> None:
        self._chain(family, name).append(rule)

    def _elements(self, verb: str, family: str, name: str, texts: str) -> None:
        container = self.tables[family].sets.get(name)
        if container is None:
            raise RulesError(f"no set {name}")
        for text in texts.split(", "):
            key, _, verdict = text.partition(" : ")
            key, _, comment = key.partition(" comment ")
            if verb == "add":
                value = f"{verdict} {comment}"
                if container.elements.setdefault(key, value) != value:
                    raise RulesError(f"element {key} of {name} is there")
            elif container.elements.pop(key, None) is None:
                raise RulesError(f"no element {key} in {name}")

    def _chain(self, family: str, name: str) -> list[str]:
        known = self.tables[family].chains.get(name)
        if known is None:
            raise RulesError(f"no chain {name}")
        return known[1]


def _targets(table: Table) -> Iterator[str]:
    """Chains that rules and elements lead to."""
    texts = [rule for _, rules in table.chains.values() for rule in rules]
    texts += [value for one in table.sets.values() for value in one.elements.values()]
    for text in texts:
        words = text.split()
        for verb, target in itertools.pairwise(words):
            if verb in ("goto", "jump"):
                yield target.rstrip(",")


def _check_names(table: Table) -> None:
    """Raises RulesError if something leads nowhere."""
    for target in _targets(table):
        if target not in table.chains:
            raise RulesError(f"no chain {target}")
    for _, rules in table.chains.values():
        for rule in rules:
            for word in rule.split():
                if word.startswith("@") and word[1:] not in table.sets:
                    raise RulesError(f"no set {word}")


def _kernel_set(one: ModelSet) -> KernelSet:
    found = re.search(r"timeout (\d+)s", one.definition)
    return KernelSet(one.kind == "map", int(found[1]) if found else 0)
