"""What the functions of expressions do, one module per group; their types are in `library`.

Each module has a `TABLE`. Operators are not functions here: `arithmetic` has those on numbers, the others are built where expressions are put together
(`bayplan.api.cel.evaluation`).
"""

from __future__ import annotations

import functools

from bayplan.api.cel.functions.registry import Function


@functools.cache
def implementations() -> dict[tuple[str, bool], Function]:
    """All functions by name, and whether they are called on something. Loaded when the first expression is."""
    from bayplan.api.cel.functions import (
        addresses,
        authorization,
        conversions,
        lists,
        named_formats,
        optionals,
        quantities,
        regular_expressions,
        simulation,
        strings,
        times,
        urls,
        versions,
    )

    groups = (
        addresses,
        authorization,
        conversions,
        lists,
        named_formats,
        optionals,
        quantities,
        regular_expressions,
        simulation,
        strings,
        times,
        urls,
        versions,
    )
    found: dict[tuple[str, bool], Function] = {}
    for group in groups:
        for key, function in group.TABLE.functions.items():
            if key in found:
                found[key].extend(function)
            else:
                found[key] = function
    return found
