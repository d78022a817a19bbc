"""How simulated nodes are marked, so that nobody takes them for machines."""

from __future__ import annotations

from bayplan.api.types import core_v1

SIMULATED = "bayplan.dev/simulated"
"""Annotation of a node whose pods run no programs."""


def is_simulated(node: core_v1.Node) -> bool:
    """Whether the pods of a node run no programs."""
    return SIMULATED in node.metadata.annotations
