"""How long something takes, as users write it: a number of seconds or a distribution.

    2, 2s, 1m30s          always that long
    1..3                  anything between, evenly
    normal(5,1)           mean and standard deviation, never below zero
    exponential(3)        mean
    lognormal(5,0.5)      median, and standard deviation of the logarithm

A draw is a function of a number in [0, 1), which `chance` makes of names: the same pod has the same fate in every run with the same uids, however often it is asked.
"""

from __future__ import annotations

import hashlib
import math
import re
from statistics import NormalDist

from bayplan.support.durations import go_seconds

_CALL = re.compile(r"(normal|exponential|lognormal)\(([^()]*)\)")
_EDGE = 1e-9
"""How close to 0 and 1 a chance may come where a distribution has no end."""


def chance(*names: str) -> float:
    """A number in [0, 1) that looks random and always is the same for the same names."""
    digest = hashlib.blake2b("\0".join(names).encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64


def parse_seconds(text: str) -> float:
    """Seconds of a plain duration. Raises ValueError."""
    text = text.strip()
    try:
        return go_seconds(f"{text}s" if text[-1:].isdigit() else text)
    except ValueError:
        raise ValueError(f"{text!r} is no duration such as 2, 1.5s or 1m30s") from None


def draw(text: str, part: float) -> float:
    """Seconds that a text says, for a number in [0, 1). Raises ValueError."""
    if match := _CALL.fullmatch(text.strip()):
        return _distribution(match[1], [parse_seconds(one) for one in match[2].split(",")], part)
    low, between, high = text.partition("..")
    if not between:
        return parse_seconds(text)
    first, last = parse_seconds(low), parse_seconds(high)
    return first + (last - first) * part


def _distribution(name: str, parameters: list[float], part: float) -> float:
    inside = min(max(part, _EDGE), 1.0 - _EDGE)
    if name == "exponential":
        if len(parameters) != 1:
            raise ValueError("exponential takes one number, the mean")
        return -parameters[0] * math.log(1.0 - inside)
    if len(parameters) != 2:
        raise ValueError(f"{name} takes two numbers")
    first, spread = parameters
    deviation = NormalDist().inv_cdf(inside)
    if name == "normal":
        return max(first + spread * deviation, 0.0)
    return first * math.exp(spread * deviation)
