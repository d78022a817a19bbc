"""Names of objects that bring only the beginning of one (`generateName`). Source: Kubernetes' `names.SimpleNameGenerator`."""

from __future__ import annotations

from bayplan.support.randomness import Randomness

_SUFFIX = 5
_LONGEST_BASE = 63 - _SUFFIX


def generated_name(randomness: Randomness, base: str) -> str:
    """A name that begins with `base`, as far as that fits."""
    return base[:_LONGEST_BASE] + randomness.suffix(_SUFFIX)
