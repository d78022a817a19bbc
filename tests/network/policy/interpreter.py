"""Tables as the kernel judges by them: a small interpreter of the rules that this package writes, and of transactions.

It knows no more than it has to; a rule that it cannot read is an error.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Any

from bayplan.network.policy.table import Table


@dataclass(frozen=True)
class Connection:
    """What conntrack knows of a connection. Without a port it is one of ICMP."""

    client: str
    server: str
    protocol: str = "tcp"
    port: int | None = None


@dataclass
class Kernel:
    """The tables of a kernel: sets by name, rules by chain."""

    sets: dict[str, dict[str, str]] = field(default_factory=dict)
    intervals: set[str] = field(default_factory=set)
    chains: dict[str, list[str]] = field(default_factory=dict)

    def load(self, transaction: str) -> None:
        """Carry out a transaction about one table. Raises what the kernel would refuse."""
        for line in transaction.splitlines():
            self._command(line)

    def _command(self, line: str) -> None:
        verb, thing, _, _, *rest = line.split(" ", 5 if line.startswith(("add rule",)) else 4)
        if thing == "table":
            if verb == "delete":
                self.__init__()  # type: ignore[misc]
            return
        text = " ".join(rest)
        name, _, body = text.partition(" ")
        match verb, thing:
            case ("add", "set" | "map"):
                assert name not in self.sets, line
                self.sets[name] = {}
                if "interval" in body:
                    self.intervals.add(name)
            case ("add", "element"):
                for one in body.strip("{} ").split(", "):
                    key, _, verdict = one.partition(" : ")
                    assert self.sets[name].get(key, verdict) == verdict, line
                    assert not verdict or verdict.removeprefix("jump ") in self.chains, line
                    self.sets[name][key] = verdict
            case ("delete", "element"):
                for one in body.strip("{} ").split(", "):
                    del self.sets[name][one]
            case ("add", "chain"):
                self.chains.setdefault(name, [])
            case ("flush", "chain"):
                self.chains[name].clear()
            case ("add", "rule"):
                assert all(one in self.sets for one in re.findall(r"@(\S+)", body)), line
                self.chains[name].append(body)
            case ("delete", "chain"):
                assert f"jump {name}" not in {to for elements in self.sets.values() for to in elements.values()}, line
                del self.chains[name]
            case ("delete", "set"):
                assert not any(f"@{name}" in rule.split() for rules in self.chains.values() for rule in rules), line
                del self.sets[name]
                self.intervals.discard(name)
            case _:
                raise AssertionError(line)

    def passes(self, connection: Connection, hook: str = "forward") -> bool:
        """Whether the packets of a connection pass a hook."""
        return self._run(hook, connection) != "drop"

    def _run(self, chain: str, connection: Connection) -> str:
        for rule in self.chains[chain]:
            verdict = self._rule(rule, connection)
            if verdict == "return":
                return "return"
            if verdict.startswith("jump ") and self._run(verdict.removeprefix("jump "), connection) == "drop":
                return "drop"
            if verdict == "drop":
                return "drop"
        return "return"

    def _rule(self, rule: str, connection: Connection) -> str:
        """The verdict of a rule, "" if it does not match."""
        text = re.sub(r' comment ".*"$', "", rule)
        while True:
            judge, found = next(
                ((judge, found) for pattern, judge in _MATCHES if (found := pattern.match(text))), (None, None)
            )
            if judge is None or found is None:
                break
            verdict = judge(self, connection, found)
            if verdict is False:
                return ""
            if isinstance(verdict, str):
                return verdict
            text = text[found.end() :]
        assert text in ("return", "drop", "counter drop") or text.startswith("jump "), rule
        return text.removeprefix("counter ")

    def contains(self, name: str, value: str | int) -> bool:
        """Whether a set has an element, or a range around it."""
        if name not in self.intervals:
            return str(value) in self.sets[name]
        for element in self.sets[name]:
            first, _, last = element.partition("-")
            if isinstance(value, int):
                if int(first) <= value <= int(last or first):
                    return True
            else:
                low, high = ipaddress.ip_address(first), ipaddress.ip_address(last or first)
                if int(low) <= int(ipaddress.ip_address(value)) <= int(high):
                    return True
        return False


def _side(connection: Connection, side: str) -> str:
    return connection.client if side == "original" else connection.server


def _vmap(kernel: Kernel, connection: Connection, found: re.Match[str]) -> Any:
    return kernel.sets[found[2]].get(_side(connection, found[1]), False)


def _in_range(_: Kernel, connection: Connection, found: re.Match[str]) -> bool:
    first, last = ipaddress.ip_address(found[2]), ipaddress.ip_address(found[3] or found[2])
    return int(first) <= int(ipaddress.ip_address(_side(connection, found[1]))) <= int(last)


def _in_port_range(_: Kernel, connection: Connection, found: re.Match[str]) -> bool:
    return connection.port is not None and int(found[1]) <= connection.port <= int(found[2] or found[1])


def _in_network(_: Kernel, connection: Connection, found: re.Match[str]) -> bool:
    return ipaddress.ip_address(_side(connection, found[1])) in ipaddress.ip_network(found[2])


_ADDRESS = r"ct (original|reply) ip6? saddr"
_PORT = r"ct reply proto-src"
_MATCHES: list[tuple[re.Pattern[str], Any]] = [
    (re.compile(pattern + r" ?"), judge)
    for pattern, judge in (
        (r"ct state invalid,untracked goto \S+", lambda *_: False),
        (rf"{_ADDRESS} vmap @(\S+)", _vmap),
        (
            r"ct original ip6? saddr \. ct reply ip6? saddr @(\S+)",
            lambda kernel, one, found: kernel.contains(found[1], f"{one.client} . {one.server}"),
        ),
        (rf"{_ADDRESS} ([0-9a-f:.]+/\d+)", _in_network),
        (rf"{_ADDRESS} ([0-9a-f:][0-9a-f:.]*)(?:-([0-9a-f:.]+))?(?= |$)", _in_range),
        (rf"{_PORT} (\d+)(?:-(\d+))?(?= |$)", _in_port_range),
        (rf"{_ADDRESS} != @(\S+)", lambda kernel, one, found: not kernel.contains(found[2], _side(one, found[1]))),
        (rf"{_ADDRESS} @(\S+)", lambda kernel, one, found: kernel.contains(found[2], _side(one, found[1]))),
        (r"ct protocol (\w+)", lambda _, one, found: one.protocol == found[1]),
        (
            rf"ct reply ip6? saddr \. {_PORT} @(\S+)",
            lambda kernel, one, found: kernel.contains(found[1], f"{one.server} . {one.port}"),
        ),
        (rf"{_PORT} @(\S+)", lambda kernel, one, found: kernel.contains(found[1], one.port)),
    )
]


def same_as(kernel: Kernel, table: Table) -> bool:
    """Whether a kernel has what a table says, no more and no less."""
    sets = {name: one.elements for name, one in table.sets.items()}
    chains = {name: list(one.rules) for name, one in table.chains.items()}
    return kernel.sets == sets and kernel.chains == chains
