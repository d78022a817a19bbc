"""What several controllers want to know about nodes."""

from __future__ import annotations

from bayplan.api.types import core_v1


def is_ready_node(node: core_v1.Node) -> bool:
    """Whether the node is ready."""
    return any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)
