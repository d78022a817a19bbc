"""Arithmetic on resource lists: resource name -> exact quantity. Names that are missing count as absent, not as zero, unless a function says otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bayplan.api.quantity import Quantity, parse

Amounts = dict[str, Quantity]
"""Resource name -> amount."""
ONE = Quantity(1)
ZERO = Quantity(0)


def parsed(wire: Mapping[str, str | int | float]) -> Amounts:
    """A resource list of the wire. Raises ValueError for what is no quantity."""
    return {name: parse(amount) for name, amount in wire.items()}


def to_wire(amounts: Amounts) -> dict[str, str | int | float]:
    """A resource list for the wire, in order of name."""
    return {name: str(amounts[name]) for name in sorted(amounts)}


def add(left: Amounts, right: Amounts) -> Amounts:
    """Sums; a name in one list only keeps its amount."""
    result = dict(left)
    for name, amount in right.items():
        result[name] = result[name].add(amount) if name in result else amount
    return result


def largest(left: Amounts, right: Amounts) -> Amounts:
    """The larger amount of each name."""
    result = dict(left)
    for name, amount in right.items():
        if name not in result or amount > result[name]:
            result[name] = amount
    return result


def increase(new: Amounts, old: Amounts) -> Amounts:
    """What `new` has more than `old`; names without more are left out."""
    result = {}
    for name, amount in new.items():
        more = amount.sub(old[name]) if name in old else amount
        if more.sign() > 0:
            result[name] = more
    return result


def masked(amounts: Amounts, names: Iterable[str]) -> Amounts:
    """The amounts of these names."""
    wanted = set(names)
    return {name: amount for name, amount in amounts.items() if name in wanted}


def negative(amounts: Amounts) -> list[str]:
    """Names of amounts below zero, in order."""
    return sorted(name for name, amount in amounts.items() if amount.sign() < 0)


def exceeded(amounts: Amounts, limits: Amounts) -> list[str]:
    """Names whose amount is over its limit, in order; without a limit nothing is over it."""
    return sorted(name for name, amount in amounts.items() if name in limits and amount > limits[name])


def shown(amounts: Amounts) -> str:
    """`cpu=1,memory=1Gi`, in order of name, as messages have it."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))
