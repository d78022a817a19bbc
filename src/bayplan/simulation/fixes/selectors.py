"""Changes where a pod's node selector or required node affinity matches no node: ask for less, or label a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from msgspec.structs import replace

from bayplan.api.types import core_v1
from bayplan.simulation.fixes.base import Change, change_node, of_spec

_TRIED_NODES: Final = 5
"""Nodes for which a label is proposed."""


def selector_entries(pod: core_v1.Pod) -> Iterator[Change]:
    for key, value in pod.spec.node_selector.items():
        yield Change(
            "drop-node-selector",
            f"drop {key}={value} from the node selector",
            30,
            {"key": key, "value": value},
            of_spec(partial(_without_entry, key)),
        )


def required_terms(spec: core_v1.PodSpec) -> tuple[core_v1.NodeSelectorTerm, ...]:
    """The required terms of node affinity; a node has to match one of them."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return required.node_selector_terms if required is not None else ()


def with_terms(spec: core_v1.PodSpec, terms: tuple[core_v1.NodeSelectorTerm, ...]) -> core_v1.PodSpec:
    """A spec that requires other nodes; none: any."""
    if spec.affinity is None or spec.affinity.node_affinity is None:
        return spec
    required = core_v1.NodeSelector(node_selector_terms=terms) if terms else None
    node_affinity = replace(spec.affinity.node_affinity, required_during_scheduling_ignored_during_execution=required)
    return replace(spec, affinity=replace(spec.affinity, node_affinity=node_affinity))


def affinity_expressions(pod: core_v1.Pod) -> Iterator[Change]:
    for number, term in enumerate(required_terms(pod.spec)):
        for one in term.match_expressions:
            shown = f"{one.key} {one.operator} {','.join(one.values)}".strip()
            yield Change(
                "drop-node-affinity",
                f"drop the required node affinity {shown}",
                32,
                {"key": one.key, "operator": one.operator, "values": list(one.values)},
                of_spec(partial(_without_expression, number=number, expression=one)),
            )


def _without_expression(
    spec: core_v1.PodSpec, number: int, expression: core_v1.NodeSelectorRequirement
) -> core_v1.PodSpec:
    """A spec one of whose required terms asks for one thing less; a term that asks for nothing lets every node pass."""
    terms = required_terms(spec)
    if number >= len(terms):
        return spec
    left = tuple(other for other in terms[number].match_expressions if other != expression)
    if not left and not terms[number].match_fields:
        return with_terms(spec, ())
    return with_terms(spec, (*terms[:number], replace(terms[number], match_expressions=left), *terms[number + 1 :]))


def labelled(pod: core_v1.Pod, nodes: Mapping[str, core_v1.Node], names: list[str]) -> Iterator[Change]:
    """A label on a node that would fit but for one label. `names`: nodes that fit once selector and affinity are dropped."""
    found = 0
    for name in names:
        missing = _missing_labels(pod.spec, nodes[name].metadata.labels) if name in nodes else None
        if missing is None or len(missing) != 1 or found >= _TRIED_NODES:
            continue
        found += 1
        (key, value), node = next(iter(missing.items())), nodes[name]
        command = f"kubectl label node {name} {key}={value}" + (" --overwrite" if key in node.metadata.labels else "")
        detail = {"node": name, "key": key, "value": value, "command": command}
        yield Change(
            "label-node",
            f"label node {name} {key}={value}",
            35,
            detail,
            partial(change_node, node=node, change=partial(_with_label, key=key, value=value)),
        )


def _with_label(node: core_v1.Node, key: str, value: str) -> core_v1.Node:
    return replace(node, metadata=replace(node.metadata, labels={**node.metadata.labels, key: value}))


def _missing_labels(spec: core_v1.PodSpec, labels: Mapping[str, str]) -> dict[str, str] | None:
    """The labels that a node would need for selector and required affinity; None if labels alone cannot do it."""
    missing = {key: value for key, value in spec.node_selector.items() if labels.get(key) != value}
    terms = required_terms(spec)
    best: dict[str, str] | None = {} if not terms else None
    for term in terms:
        needed = _needed(term, labels)
        if needed is not None and (best is None or len(needed) < len(best)):
            best = needed
    return None if best is None else {**missing, **best}


def _needed(term: core_v1.NodeSelectorTerm, labels: Mapping[str, str]) -> dict[str, str] | None:
    if term.match_fields:
        return None
    needed: dict[str, str] = {}
    for one in term.match_expressions:
        if one.operator == "In":
            if labels.get(one.key) not in one.values and one.values:
                needed[one.key] = one.values[0]
        elif one.operator == "Exists":
            if one.key not in labels:
                needed[one.key] = "true"
        else:
            return None
    return needed


def _without_entry(key: str, spec: core_v1.PodSpec) -> core_v1.PodSpec:
    return replace(spec, node_selector={name: value for name, value in spec.node_selector.items() if name != key})
