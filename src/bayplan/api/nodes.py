"""What everybody who deals with nodes has to agree on."""

from __future__ import annotations

from bayplan.api.types import core_v1

GROUP_LABEL = "bayplan.dev/node-group"
"""Label that names the group of a node that comes and goes with demand."""
SIMULATED = "bayplan.dev/simulated"
"""Annotation of a node whose pods run no programs."""


def is_simulated(node: core_v1.Node) -> bool:
    """Whether the pods of a node run no programs, so that nobody takes it for a machine."""
    return SIMULATED in node.metadata.annotations


def is_ready_node(node: core_v1.Node) -> bool:
    """Whether the node is ready."""
    return any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)
