"""Pods as real clusters have them: many applications of very different sizes, in random order.

`mix` has 1,000 applications whose sizes follow Zipf's law. Each has its own labels, requests, environment, ports and
template hash; a quarter spreads softly over zones or nodes, a quarter has a soft anti-affinity against itself, a tenth
has node affinity or a toleration, a twentieth a hard spreading or anti-affinity. `different` are pods of which no two
have requests, labels and environment in common. Both are the same for equal seeds.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import Any, Final

from benchmarks.workloads import HOSTNAME, ZONE

APPLICATIONS: Final = 1_000
ZONES: Final = ("zone1", "zone2", "zone3")
"""Of the nodes of `benchmarks.workloads.node`."""
LIVE_ZONES: Final = ("zone-a", "zone-b", "zone-c")
"""Of the nodes of `bayplan up`."""

_SOFT_SPREADING: Final = 0.25
_SOFT_ANTI_AFFINITY: Final = 0.50
_NODE_RULES: Final = 0.60
_HARD_RULES: Final = 0.65
"""Shares of the applications, added up."""


def mix(
    count: int, *, applications: int = APPLICATIONS, zones: Sequence[str] = ZONES, seed: int = 1
) -> list[dict[str, Any]]:
    """So many pods of the applications, larger ones more often, randomly interleaved."""
    source = random.Random(seed)
    templates = [_application(number, zones, source) for number in range(applications)]
    weights = [1 / (rank + 1) for rank in range(applications)]
    source.shuffle(weights)
    _make_exclusive_ones_small(templates, weights)
    chosen = source.choices(range(applications), weights, k=count)
    return [_pod(f"{_name(number)}-{index}", *templates[number]) for index, number in enumerate(chosen)]


def _make_exclusive_ones_small(templates: list[tuple[dict[str, str], dict[str, Any]]], weights: list[float]) -> None:
    """Swap weights until none of the largest tenth of the applications wants a node for each of its pods: there would be too few nodes."""
    by_weight = sorted(range(len(weights)), key=weights.__getitem__, reverse=True)
    large, small = by_weight[: len(weights) // 10], by_weight[len(weights) // 10 :]
    others = (number for number in small if not _is_exclusive(templates[number][1]))
    for number in large:
        if _is_exclusive(templates[number][1]):
            other = next(others)
            weights[number], weights[other] = weights[other], weights[number]


def _is_exclusive(spec: dict[str, Any]) -> bool:
    return "requiredDuringSchedulingIgnoredDuringExecution" in spec.get("affinity", {}).get("podAntiAffinity", {})


def different(count: int, *, seed: int = 2) -> list[dict[str, Any]]:
    """So many pods, each of an application of its own, without rules about other pods or nodes."""
    source = random.Random(seed)
    return [_pod(f"one-{index}", *_bare(f"one-{index}", index, source)) for index in range(count)]


def _name(number: int) -> str:
    return f"app-{number:04d}"


def _bare(name: str, number: int, source: random.Random) -> tuple[dict[str, str], dict[str, Any]]:
    """Labels and spec of an application without rules."""
    template_hash = hashlib.sha256(name.encode()).hexdigest()[:10]
    labels = {"app.kubernetes.io/name": name, "team": f"team-{number % 40}", "pod-template-hash": template_hash}
    requests = {"cpu": f"{source.randint(50, 400)}m", "memory": f"{source.randint(64, 2048)}Mi"}
    container = {
        "name": "main",
        "image": f"registry.example/{name}:1.{source.randint(0, 99)}",
        "ports": [{"containerPort": 8000 + source.randint(0, 999)}],
        "env": [{"name": f"OPTION_{item}", "value": f"{name}-{source.randint(0, 10**6)}"} for item in range(5)],
        "resources": {"requests": requests, "limits": {"memory": requests["memory"]}},
    }
    return labels, {"containers": [container]}


def _application(number: int, zones: Sequence[str], source: random.Random) -> tuple[dict[str, str], dict[str, Any]]:
    """Labels and spec of one application of the mix."""
    name = _name(number)
    labels, spec = _bare(name, number, source)
    selector = {"matchLabels": {"app.kubernetes.io/name": name}}
    kind = source.random()
    if kind < _SOFT_SPREADING:
        spec["topologySpreadConstraints"] = [_constraint(source.choice((ZONE, HOSTNAME)), "ScheduleAnyway", selector)]
    elif kind < _SOFT_ANTI_AFFINITY:
        term = {"weight": 100, "podAffinityTerm": {"labelSelector": selector, "topologyKey": HOSTNAME}}
        spec["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    elif kind < _NODE_RULES:
        spec |= _node_rule(zones, source)
    elif kind < _HARD_RULES:
        spec |= _hard_rule(source, selector)
    return labels, spec


def _constraint(topology_key: str, action: str, selector: dict[str, Any]) -> dict[str, Any]:
    return {"maxSkew": 5, "topologyKey": topology_key, "whenUnsatisfiable": action, "labelSelector": selector}


def _node_rule(zones: Sequence[str], source: random.Random) -> dict[str, Any]:
    if source.random() < 0.5:
        return {"tolerations": [{"key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"}]}
    expression = {"key": ZONE, "operator": "In", "values": source.sample(zones, 2)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _hard_rule(source: random.Random, selector: dict[str, Any]) -> dict[str, Any]:
    if source.random() < 0.5:
        return {"topologySpreadConstraints": [_constraint(ZONE, "DoNotSchedule", selector)]}
    term = {"labelSelector": selector, "topologyKey": HOSTNAME}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _pod(name: str, labels: dict[str, str], spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
