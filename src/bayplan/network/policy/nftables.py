"""The kernel's tables: transactions are carried out, and what is there is compared with what should be."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable
from typing import Any

from bayplan.network.policy.addresses import Family
from bayplan.network.policy.errors import PolicyError, TransactionError
from bayplan.network.policy.table import NAME, Table, removal
from bayplan.support.system.programs import ProgramError, run


async def check_machine(families: Iterable[Family]) -> None:
    """Raise PolicyError if the machine can never enforce policies of these families."""
    if shutil.which("nft") is None:
        raise PolicyError("network policies need the program nft: apt-get install nftables, dnf install nftables")
    try:
        await run("nft", "--check", "-f", "-", stdin="".join(map(removal, families)).encode())
    except ProgramError as error:
        raise PolicyError(
            f"network policies need nftables, and root or the capability CAP_NET_ADMIN: {error}"
        ) from error


async def apply(transaction: str) -> None:
    """Carry out a transaction. Raises TransactionError; nothing is changed then."""
    try:
        await run("nft", "-f", "-", stdin=transaction.encode())
    except ProgramError as error:
        raise TransactionError(str(error)) from error


async def remove(families: Iterable[Family] = tuple(Family)) -> None:
    """Remove the tables, if they are there. Raises TransactionError."""
    await apply("".join(map(removal, families)))


async def difference(table: Table) -> str:
    """What of the kernel's table is not as it should be, "" if nothing. Raises TransactionError if it cannot be read for other reasons than that it is gone."""
    try:
        listed = json.loads(await run("nft", "--json", "list", "table", table.family, NAME))["nftables"]
    except ProgramError as error:
        if "No such file or directory" in str(error):
            return "the table is gone"
        raise TransactionError(str(error)) from error
    return compare(table, listed)


def compare(table: Table, listed: list[dict[str, Any]]) -> str:
    """The first difference between a table and what `nft --json list table` shows; "" if there is none. Pure.

    Elements are compared one by one, but for intervals, which the kernel may show in other words; rules by number and comments.
    """
    sets = {one["name"]: one for item in listed for one in (item.get("set"), item.get("map")) if one is not None}
    chains = {item["chain"]["name"] for item in listed if "chain" in item}
    if sets.keys() != table.sets.keys() or chains != table.chains.keys():
        changed = sorted((sets.keys() ^ table.sets.keys()) | (chains ^ table.chains.keys()))
        return f"{changed[0]} should not be there, or is missing"
    for name, wanted in table.sets.items():
        found = sets[name].get("elem", [])
        if "interval" in sets[name].get("flags", []):
            if len(found) != len(wanted.elements):
                return f"set {name} has other ranges"
        elif dict(map(_element, found)) != wanted.elements:
            return f"set {name} has other elements"
    rules = Counter((item["rule"]["chain"], item["rule"].get("comment", "")) for item in listed if "rule" in item)
    expected = Counter((name, _comment(rule)) for name, chain in table.chains.items() for rule in chain.rules)
    different = {chain for chain, _ in (rules - expected) + (expected - rules)}
    return f"chain {min(different)} has other rules" if different else ""


def _comment(rule: str) -> str:
    _, _, comment = rule.partition(' comment "')
    return comment.removesuffix('"')


def _element(shown: Any) -> tuple[str, str]:
    """An element and its verdict, as a Table has them."""
    key, verdict = shown if isinstance(shown, list) else (shown, None)
    if isinstance(key, dict):
        key = " . ".join(map(str, key["concat"]))
    return str(key), f"jump {verdict['jump']['target']}" if verdict is not None else ""
