"""Bayplan's own feature gates. All are off unless they are named: then the API is that of Kubernetes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

AFFINITY_DURING_EXECUTION: Final = "AffinityDuringExecution"
"""Affinity rules that hold while a pod runs (`execution_rules`): fields of the API, and the controller that evicts."""

ALL_GATES: Final = frozenset((AFFINITY_DURING_EXECUTION,))
_MARK: Final = b"RequiredDuringExecution"
"""In the names of all fields of gates."""


def may_have_gated_fields(data: bytes, gates: Collection[str]) -> bool:
    """Whether JSON may have fields of a gate that is not among those that are on. Costs one search for a text."""
    return _MARK in data and AFFINITY_DURING_EXECUTION not in gates
