"""Numbers of JSON as Kubernetes keeps them: 64 bits each, and whole ones without a point."""

from __future__ import annotations

from typing import Any

_INT64 = 1 << 63


class NumberError(ValueError):
    """A number does not fit into 64 bits."""


def settle_numbers(tree: Any) -> None:
    """Bring the numbers inside a tree into form, in place: 1.0 is kept as 1, and what is too large for an integer as a float.

    Raises NumberError for what is too large for a float as well.
    """
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        if isinstance(value, dict | list):
            settle_numbers(value)
        elif type(value) is float or (type(value) is int and not -_INT64 <= value < _INT64):
            tree[key] = _settled(value)


def _settled(number: float) -> float:
    if -_INT64 <= number < _INT64 and float(number).is_integer():
        return int(number)
    try:
        return float(number)
    except OverflowError:
        raise NumberError(f"json: cannot unmarshal number {str(number)[:400]} into Go value of type float64") from None
