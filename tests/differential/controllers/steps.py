"""What scenarios are made of: actions on one side, grouped in steps after each of which both sides come to rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.differential.controllers.playing import Side, Tree

Action = Callable[[Side, str], Awaitable[None]]
"""Does something on a side, in the scenario's namespace."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Steps one after the other, in a namespace that is named like it."""

    name: str
    steps: Sequence[Sequence[Action]]


def create(kind: str, name: str, tree: Tree | None = None, **parts: Any) -> Action:
    """parts: `metadata`, `spec`, `status` and the like."""
    metadata = {"name": name, **parts.pop("metadata", {})}
    whole = {"kind": kind, "metadata": metadata, **(tree or {}), **parts}
    return lambda side, namespace: side.create(namespace, whole)


def patch(kind: str, name: str, change: Tree, subresource: str = "") -> Action:
    """A merge patch."""
    return lambda side, namespace: side.patch(namespace, kind, name, change, subresource)


def delete(kind: str, name: str, propagation: str | None = None) -> Action:
    """propagation: Foreground, Background or Orphan."""
    return lambda side, namespace: side.delete(namespace, kind, name, propagation)


def run(prefix: str = "", most: int = 1000) -> Action:
    """Pods that wait get a node, run and are ready."""
    return lambda side, namespace: side.run(namespace, prefix, most)


def end(prefix: str = "", most: int = 1000, *, code: int = 0, reason: str = "") -> Action:
    """Pods that run end."""
    return lambda side, namespace: side.end(namespace, prefix, most, code=code, reason=reason)


def unready(prefix: str = "", most: int = 1000) -> Action:
    """Pods that run are not ready any more."""
    return lambda side, namespace: side.unready(namespace, prefix, most)


def reap() -> Action:
    """Pods that are being deleted go."""
    return lambda side, namespace: side.reap(namespace)


def rest(seconds: float) -> Action:
    """Nothing, for some time."""
    return lambda side, namespace: side.settle(seconds)


def template(app: str, *, image: str = "image:1", metadata: Tree | None = None, **spec: Any) -> Tree:
    """A pod template."""
    containers = spec.pop("containers", [{"name": "c", "image": image, "resources": {"requests": {"cpu": "100m"}}}])
    return {
        "metadata": {"labels": {"app": app}, **(metadata or {})},
        "spec": {"containers": containers, "terminationGracePeriodSeconds": 5, **spec},
    }


def selecting(app: str) -> Tree:
    """A label selector for the pods of `template`."""
    return {"matchLabels": {"app": app}}
