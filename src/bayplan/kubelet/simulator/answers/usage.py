"""What containers use, as kwok's objects say."""

from __future__ import annotations

import logging
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from bayplan.api.codec import to_tree
from bayplan.api.quantity import Quantity
from bayplan.api.simulated_usage import ANNOTATIONS, rounded
from bayplan.api.types import core_v1
from bayplan.kubelet.simulator.answers.rules import Rules, Target
from bayplan.kubelet.simulator.answers.usage_values import amount_of
from bayplan.kubelet.simulator.errors import KwokFileError
from bayplan.kubelet.simulator.stages.object_trees import node_tree, pod_tree, prepared_container

logger = logging.getLogger(__name__)

Usage = dict[str, dict[str, Quantity]]
"""Container -> resource -> amount."""


def usage_of(rules: Rules, pod: core_v1.Pod, node: core_v1.Node, now: float, chance: Callable[[], float]) -> Usage:
    """What the containers that rules are about use, of the resources that they name. An expression that fails counts as nothing used, as in kwok."""
    found: Usage = {}
    trees: dict[str, Any] = {}
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        rule = rules.usage(Target(pod.metadata.namespace, pod.metadata.name, container.name))
        if rule is None:
            continue
        trees = trees or {"pod": pod_tree(pod), "node": node_tree(node)}
        objects = {**trees, "container": prepared_container(to_tree(container))}
        amounts = found.setdefault(container.name, {})
        for resource in ANNOTATIONS:
            if (given := rule.usage.get(resource)) is None:
                continue
            try:
                amounts[resource] = rounded(amount_of(given, objects, now, chance), resource)
            except KwokFileError as error:
                logger.warning("%s of %s/%s: %s", resource, pod.metadata.namespace, pod.metadata.name, error)
                amounts[resource] = rounded(Fraction(0), resource)
    return found
