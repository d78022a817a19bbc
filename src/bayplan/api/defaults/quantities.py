"""Quantities in the spelling in which the API server keeps them."""

from __future__ import annotations

from bayplan.api import codec, quantity
from bayplan.support.memory.memo import memoized


@memoized(65536)
def canonical(value: str | int | float) -> str:
    """The canonical spelling. Raises codec.DecodeError if the value is no quantity."""
    try:
        return quantity.canonical(value)
    except ValueError as error:
        raise codec.DecodeError(str(error)) from None


@memoized(65536)
def _rounded(value: str | int | float) -> str:
    try:
        parsed = quantity.parse(value)
    except ValueError as error:
        raise codec.DecodeError(str(error)) from None
    if parsed.scale > 3:
        parsed = quantity.Quantity(parsed.milli_value(), 3, parsed.format)
    return str(parsed)


def canonical_list(resources: dict[str, str | int | float]) -> None:
    """Make the values of a resource list canonical, rounded up to thousandths. Raises codec.DecodeError."""
    for name, value in resources.items():
        spelled = _rounded(value)
        if spelled is not value:
            resources[name] = spelled
