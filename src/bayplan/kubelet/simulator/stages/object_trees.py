"""Objects as expressions of kwok see them: decoded JSON whose labels and annotations are there, if only empty, and whose resources are numbers."""

from __future__ import annotations

from typing import Any

from bayplan.api.codec import to_tree
from bayplan.api.quantity import parse
from bayplan.api.types import core_v1


def pod_tree(pod: core_v1.Pod) -> dict[str, Any]:
    """A pod."""
    return prepared_pod(to_tree(pod))


def prepared_pod(tree: dict[str, Any]) -> dict[str, Any]:
    """A pod, made of its JSON, which is changed."""
    for member in ("containers", "initContainers"):
        for container in _with_maps(tree)["spec"].get(member, ()):
            prepared_container(container)
    return tree


def node_tree(node: core_v1.Node) -> dict[str, Any]:
    """A node."""
    tree = _with_maps(to_tree(node))
    _make_numbers(tree.setdefault("status", {}), "capacity", "allocatable")
    return tree


def prepared_container(tree: dict[str, Any]) -> dict[str, Any]:
    """A container, made of its JSON, which is changed."""
    _make_numbers(tree.setdefault("resources", {}), "requests", "limits")
    return tree


def _with_maps(tree: dict[str, Any]) -> dict[str, Any]:
    for member in ("labels", "annotations"):
        tree["metadata"].setdefault(member, {})
    return tree


def _make_numbers(holder: dict[str, Any], *members: str) -> None:
    for member in members:
        amounts = {name: parse(str(text)) for name, text in (holder.get(member) or {}).items()}
        holder[member] = {name: amount.unscaled / 10**amount.scale for name, amount in amounts.items()}
