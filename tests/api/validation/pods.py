"""Pods and claims as the server keeps them, for tests of their rules."""

from __future__ import annotations

from typing import Any

from bayplan.api import codec
from bayplan.api.errors import FieldError
from bayplan.api.strategies.core.pods import STRATEGY
from bayplan.api.types import core_v1


def pod(spec: dict[str, Any] | None = None, annotations: dict[str, str] | None = None, **container: Any) -> core_v1.Pod:
    """A new pod of one container `c`, defaulted and prepared."""
    tree = {
        "metadata": {"name": "p", "namespace": "n", "annotations": annotations or {}},
        "spec": {
            "containers": [{"name": "c", "image": "x", **container}],
            "serviceAccountName": "default",
            **(spec or {}),
        },
    }
    found: core_v1.Pod = codec.from_tree(core_v1.Pod, tree)
    STRATEGY.default(found)
    STRATEGY.prepare_create(found)
    return found


def told(errors: list[FieldError]) -> list[str]:
    """Fields and kinds of errors."""
    return [f"{error.field} {error.type.name}" for error in errors]


def problems(one: core_v1.Pod) -> list[str]:
    """What is wrong with a new pod."""
    return told([*STRATEGY.validate(one), *STRATEGY.validate_create(one)])
