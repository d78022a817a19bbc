"""Whether the expression of a device selector compiles, and says yes or no.

Source of the behaviour: Kubernetes' `dynamic-resource-allocation/cel/compile.go`. What an expression may cost is not estimated.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from bayplan.support.memory.memo import memoized

if TYPE_CHECKING:
    from bayplan.api.cel.checker import Environment

LONGEST = 10 * 1024
"""Bytes of an expression."""


@functools.cache
def environment() -> Environment:
    """What expressions can refer to: a device."""
    from bayplan.api.cel.checker import Environment  # not needed by clusters without devices
    from bayplan.api.cel.types import BOOL, DYN, STRING, map_of, named_type, struct

    fields = {
        "driver": STRING,
        "attributes": map_of(STRING, map_of(STRING, DYN)),
        "capacity": map_of(STRING, map_of(STRING, named_type("kubernetes.Quantity"))),
        "allowMultipleAllocations": BOOL,
    }
    name = "kubernetes.DRADevice"
    return Environment({"device": struct(name)}, {name: fields}, has_bindings=True)


@memoized(1024)
def expression_problem(text: str) -> str:
    """Why an expression is refused, empty if it is not."""
    from bayplan.api.cel.checker import check
    from bayplan.api.cel.issues import display
    from bayplan.api.cel.types import BOOL, DYN
    from bayplan.api.cel.validators import unreadable, validate

    checked = check(text, environment())
    issues = checked.issues
    if not issues and checked.root is not None:
        issues = [*unreadable(checked.root), *validate(checked.root, checked.types)]
    if issues:
        return f"compilation failed: {display(text, issues)}"
    if checked.type not in (BOOL, DYN):
        return f"must evaluate to bool or the unknown type, not {checked.type}"
    return ""
