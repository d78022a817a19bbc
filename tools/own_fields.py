"""Fields of built-in kinds that Kubernetes does not have: Bayplan's own, each behind a feature gate of its own.

`generate_api` adds them to the published definitions. Their schemas carry `x-bayplan-feature-gate`, the name of the gate: a server without the gate treats
them as unknown fields. They have protobuf numbers far from those of Kubernetes; a client that does not know a number passes over the field.
"""

from __future__ import annotations

from typing import Any

GATE = "AffinityDuringExecution"
_CORE = "io.k8s.api.core.v1."
_REQUIRED = "requiredDuringSchedulingRequiredDuringExecution"
_PREFERRED = "preferredDuringSchedulingRequiredDuringExecution"
_LEAVES = "A pod for which it ceases to hold while the pod runs, for example because labels change, is evicted in the end, as disruption budgets allow."


def _list(item: str, text: str) -> dict[str, Any]:
    return {
        "description": text,
        "items": {"$ref": _CORE + item},
        "type": "array",
        "x-bayplan-feature-gate": GATE,
        "x-kubernetes-list-type": "atomic",
    }


def _of_pods(what: str) -> dict[str, tuple[dict[str, Any], tuple[str, ...]]]:
    required = f"The {what} requirements that a node has to meet when the pod is scheduled and while it runs. {_LEAVES}"
    preferred = f"The {what} rules that the scheduler prefers nodes by. One that has held for a pod is required of its node from then on. {_LEAVES}"
    return {
        _REQUIRED: (_list("PodAffinityTerm", required), ("o", "1001", "bytes", "[]v1.PodAffinityTerm", "")),
        _PREFERRED: (
            _list("WeightedPodAffinityTerm", preferred),
            ("o", "1002", "bytes", "[]v1.WeightedPodAffinityTerm", ""),
        ),
    }


_OF_NODES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    _REQUIRED: (
        {
            "$ref": _CORE + "NodeSelector",
            "description": f"The requirements that a node has to meet when the pod is scheduled and while it runs. {_LEAVES}",
            "x-bayplan-feature-gate": GATE,
        },
        ("po", "1001", "bytes", "v1.NodeSelector", ""),
    ),
    _PREFERRED: (
        _list(
            "PreferredSchedulingTerm",
            f"The terms that the scheduler prefers nodes by. One that has held for a pod is required of its node from then on. {_LEAVES}",
        ),
        ("o", "1002", "bytes", "[]v1.PreferredSchedulingTerm", ""),
    ),
}
OWN_FIELDS: dict[str, dict[str, tuple[dict[str, Any], tuple[str, ...]]]] = {
    _CORE + "NodeAffinity": _OF_NODES,
    _CORE + "PodAffinity": _of_pods("affinity"),
    _CORE + "PodAntiAffinity": _of_pods("anti-affinity"),
}
"""Definition -> field -> (schema, what `field_facts.json` says of fields: flags, protobuf number and wire type, Go type, inlined structs)."""


def with_own_fields(definitions: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    """The definitions with the fields of this table; `facts` get their rows."""
    changed = dict(definitions)
    for name, fields in OWN_FIELDS.items():
        old = definitions[name]
        added = {field: schema for field, (schema, _) in fields.items()}
        changed[name] = {**old, "properties": dict(sorted({**old["properties"], **added}.items()))}
        known = {row[0] for row in facts[name]}
        facts[name] = [*facts[name], *((field, *row) for field, (_, row) in fields.items() if field not in known)]
    return changed
