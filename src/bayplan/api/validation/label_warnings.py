"""Warnings about node labels that are no longer in use, wherever nodes are chosen by them.

Source: Kubernetes' `pkg/api/node`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bayplan.api.types import core_v1, meta_v1
from bayplan.api.validation.values import formats

_DEPRECATED: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}


def deprecated_label_warning(key: str) -> str:
    """What to say of a node label; "" if nothing is wrong with it."""
    return _DEPRECATED.get(key, "")


def term_warnings(path: str, term: core_v1.NodeSelectorTerm, *, checks_values: bool = False) -> Iterator[str]:
    """Warnings about the expressions of a term; `checks_values`: also about values that no label can have."""
    for index, expression in enumerate(term.match_expressions):
        where = f"{path}.matchExpressions[{index}]"
        text = deprecated_label_warning(expression.key)
        if text:
            yield f"{where}.key: {expression.key} is {text}"
        for position, value in enumerate(expression.values if checks_values else ()):
            for message in formats.label_value(value):
                yield f"{where}.values[{position}]: {value} is invalid, {message}"


def selector_warnings(path: str, selector: meta_v1.LabelSelector | None) -> Iterator[str]:
    """Warnings about a label selector that chooses nodes."""
    if selector is None:
        return
    for index, expression in enumerate(selector.match_expressions):
        text = deprecated_label_warning(expression.key)
        if text:
            yield f"{path}.matchExpressions[{index}].key: {expression.key} is {text}"
    for key in sorted(selector.match_labels):
        text = deprecated_label_warning(key)
        if text:
            yield f"{path}.matchLabels.{key}: {text}"
