"""How concurrency is divided among priority levels that want different amounts of it.

Each level has a target between two bounds. The allocation gives every level the same proportion of its target, unless a bound forbids it, and hands out exactly
what there is. Worked example: 30 seats for targets 10 (between 5 and 12) and 20 (between 0 and 100): proportion 1 would do. For 60 seats the first one stops at 12,
so the proportion is 48 / 20 = 2.4, and the second one gets 48.

Source: Kubernetes' `apiserver/pkg/util/flowcontrol/conc_alloc.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

MINIMUM_TARGET: Final = 0.001
"""Smaller targets are taken for this, so that a proportion of them exists."""
_ROUNDING: Final = 1e-7


class Share(NamedTuple):
    """What one level may get, in seats."""

    target: float
    lowest: float
    """At most the target."""
    highest: float


class Allocation(NamedTuple):
    """What each level gets, in the order of the shares, and the proportion of their targets that this is where no bound decides."""

    seats: list[float]
    proportion: float


def allocate(total: int, shares: Sequence[Share]) -> Allocation:
    """Divide `total` seats. Raises ValueError if the bounds do not allow it or make no sense."""
    if total < 0:
        raise ValueError("negative sums are not supported")
    _check(total, shares)
    if total == 0:
        return Allocation([0.0] * len(shares), 0.0)
    proportion = _proportion(total, shares)
    seats = [min(one.highest, max(one.lowest, proportion * _target(one))) for one in shares]
    return Allocation(seats, proportion)


def _target(share: Share) -> float:
    return max(share.target, MINIMUM_TARGET)


def _check(total: int, shares: Sequence[Share]) -> None:
    for index, one in enumerate(shares):
        if one.lowest < 0:
            raise ValueError(f"lower bound {index} is {one.lowest} but negative lower bounds are not allowed")
        if one.target < one.lowest:
            raise ValueError(f"target {index} is {one.target}, which is below its lower bound of {one.lowest}")
        if one.highest < one.lowest:
            raise ValueError(
                f"upper bound {index} is {one.highest} but should not be less than the lower bound {one.lowest}"
            )
    lowest, highest = sum(one.lowest for one in shares), sum(one.highest for one in shares)
    if lowest - total > _ROUNDING:
        raise ValueError(f"lower bounds sum to {lowest}, which is higher than the required sum of {total}")
    if total - highest > _ROUNDING:
        raise ValueError(f"upper bounds sum to {highest}, which is lower than the required sum of {total}")


def _proportion(total: int, shares: Sequence[Share]) -> float:
    """The proportion at which the levels get `total` together: their sum grows with it, in straight lines between the proportions at which a bound is met."""
    bounds = [(one.lowest / _target(one), _target(one)) for one in shares]
    bounds += [(one.highest / _target(one), -_target(one)) for one in shares]
    bounds.sort(key=lambda bound: bound[0])
    given, slope, proportion = sum(one.lowest for one in shares), 0.0, bounds[0][0]
    for bound, change in bounds:
        step = (bound - proportion) * slope
        if given + step >= total:
            break
        given += step
        proportion = bound
        slope += change
    return proportion + (total - given) / slope if slope > _ROUNDING * MINIMUM_TARGET else proportion
