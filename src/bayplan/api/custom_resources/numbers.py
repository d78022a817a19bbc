"""Numbers of JSON as Kubernetes keeps them: 64 bits each, and whole ones without a point."""

from __future__ import annotations

from typing import Any

from bayplan.api.json.writing import number_text

_INT64 = 1 << 63
LARGE_EXPONENTS = (b"e18", b"e19", b"e20")
"""Of floats that Go writes as integers and Python does not, among those that `settle_numbers` leaves."""


class NumberError(ValueError):
    """A number is too large for a float."""


def as_float(number: int) -> float:
    """An integer as a float. Raises NumberError if it is too large for that."""
    try:
        return float(number)
    except OverflowError:
        raise NumberError(f"json: cannot unmarshal number {str(number)[:400]} into Go value of type float64") from None


def _items(tree: Any) -> Any:
    return tree.items() if isinstance(tree, dict) else enumerate(tree)


def with_large_floats(tree: Any) -> None:
    """Bring whole numbers inside a tree that are too large for 64 bits into the form of floats, in place. Raises NumberError as `as_float`."""
    for key, value in _items(tree):
        if isinstance(value, dict | list):
            with_large_floats(value)
        elif type(value) is int and not -_INT64 <= value < _INT64:
            tree[key] = as_float(value)


def settle_numbers(tree: Any) -> bool:
    """Bring the numbers inside a tree into the form that they have once they have been written and read, in place: 1.0 is 1, and what is too large for an integer a
    float. Returns whether there are floats. Raises NumberError for what is too large for a float as well.
    """
    has_floats = False
    for key, value in _items(tree):
        if isinstance(value, dict | list):
            has_floats |= settle_numbers(value)
        elif type(value) is float or (type(value) is int and not -_INT64 <= value < _INT64):
            tree[key] = settled = _settled(as_float(value) if isinstance(value, int) else value)
            has_floats |= isinstance(settled, float)
    return has_floats


def _settled(number: float) -> float:
    whole = as_whole(number)
    return whole if whole is not None and -_INT64 <= whole < _INT64 else number


def as_whole(number: float) -> int | None:
    """A float as the integer that Go writes for it; None if Go writes none."""
    text = number_text(number)
    return int(text) if text.lstrip("-").isdigit() else None


def as_written(tree: Any) -> Any:
    """A copy of a tree in which floats that Go writes as integers are such."""
    if isinstance(tree, dict):
        return {key: as_written(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [as_written(item) for item in tree]
    if isinstance(tree, float) and (whole := as_whole(tree)) is not None:
        return whole
    return tree
