"""Where a volume has to be usable, and where it is. Pure.

Source of the behaviour: external-provisioner `pkg/controller/topology.go`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from bayplan.api.types import core_v1, storage_v1
from bayplan.csi import messages as csi
from bayplan.csi_controller.errors import NodeGoneError, RequestError

Term = tuple[tuple[str, str], ...]
"""A topology as sorted (key, value) pairs."""
_FNV_OFFSET, _FNV_PRIME, _MASK = 0x811C9DC5, 0x01000193, 0xFFFFFFFF


def topology_keys(node: storage_v1.CSINode, driver: str) -> tuple[str, ...]:
    """The labels by which a driver says where a node is."""
    return next((one.topology_keys for one in node.spec.drivers if one.name == driver), ())


def term_of(labels: Mapping[str, str], keys: Iterable[str]) -> Term:
    """The topology that labels give for these keys; () if one is missing."""
    wanted = sorted(keys)
    return tuple((key, labels[key]) for key in wanted) if all(key in labels for key in wanted) else ()


def flatten(terms: Iterable[core_v1.TopologySelectorTerm]) -> list[Term]:
    """Each combination of values that allowedTopologies allow."""
    found = []
    for term in terms:
        choices = [[(one.key, value) for value in one.values] for one in term.match_label_expressions]
        found += [tuple(sorted(dict(chosen).items())) for chosen in itertools.product(*choices) if chosen]
    return found


def is_within(part: Term, whole: Term) -> bool:
    """Whether all pairs of one topology are among another's."""
    return set(part) <= set(whole)


def requirement(
    driver: str,
    claim_name: str,
    allowed: Sequence[core_v1.TopologySelectorTerm],
    selected_node: str,
    csi_nodes: Mapping[str, storage_v1.CSINode],
    nodes: Mapping[str, core_v1.Node],
    *,
    strict: bool,
    immediate: bool,
) -> csi.TopologyRequirement | None:
    """What CreateVolume is told; None for nothing. Raises NodeGoneError if the selected node has gone, RequestError."""
    selected: Term = ()
    keys: tuple[str, ...] = ()
    if selected_node:
        keys, selected = _selected(driver, selected_node, csi_nodes, nodes)
    flat = flatten(allowed)
    if selected_node and strict:
        if allowed and not any(is_within(one, selected) for one in flat):
            raise RequestError(
                f"selected node {selected_node!r} topology {dict(selected)} is not in allowed topologies: {[dict(one) for one in flat]}"
            )
        requisite = [selected]
    elif allowed:
        requisite = flat
    elif not selected_node and not immediate:
        return None
    else:
        requisite = _everywhere(driver, keys, csi_nodes, nodes)
        if not requisite:
            raise RequestError("no available topology found")
    requisite = sorted({one for one in requisite if one}, key=lambda one: (len(one), one))
    if not requisite:
        return None
    return csi.TopologyRequirement(
        _shown(requisite), _shown(_preferred(requisite, selected, claim_name, selected_node))
    )


def _selected(
    driver: str, name: str, csi_nodes: Mapping[str, storage_v1.CSINode], nodes: Mapping[str, core_v1.Node]
) -> tuple[tuple[str, ...], Term]:
    csi_node, node = csi_nodes.get(name), nodes.get(name)
    if csi_node is None or node is None:
        kind = "CSINode" if csi_node is None else "Node"
        raise NodeGoneError(f'error generating accessibility requirements: {kind} "{name}" not found')
    keys = topology_keys(csi_node, driver)
    if not keys:
        raise RequestError(f"error generating accessibility requirements: no topology key found for node {name}")
    found = term_of(node.metadata.labels, keys)
    if not found:
        raise RequestError(
            f"labels of the selected node {name} do not have all topology keys of its CSINode: {', '.join(keys)}"
        )
    return keys, found


def _everywhere(
    driver: str, keys: tuple[str, ...], csi_nodes: Mapping[str, storage_v1.CSINode], nodes: Mapping[str, core_v1.Node]
) -> list[Term]:
    if not keys:
        each = (topology_keys(csi_nodes[name], driver) for name in sorted(csi_nodes))
        keys = next((one for one in each if one), ())
    return [term for one in nodes.values() if (term := term_of(one.metadata.labels, keys))] if keys else []


def _preferred(requisite: list[Term], selected: Term, claim_name: str, selected_node: str) -> list[Term]:
    if not selected_node:
        code, offset = name_hash(claim_name)
        first = ((code + offset) & _MASK) % len(requisite)
        return requisite[first:] + requisite[:first]
    for index, one in enumerate(requisite):
        if is_within(one, selected):
            return requisite[index:] + requisite[:index]
    raise RequestError(f"topology {dict(selected)} from selected node {selected_node!r} is not in requisite")


def name_hash(claim_name: str) -> tuple[int, int]:
    """A hash of a claim's name, and its number in a StatefulSet: claims of one pod get one place, those of the next pod the next."""
    base, dash, number = claim_name.rpartition("-")
    index = 0
    if dash and number.isascii() and number.isdigit() and int(number) <= _MASK:
        index, claim_name = int(number), base.rpartition("-")[2]
    code = _FNV_OFFSET
    for byte in claim_name.encode():
        code = (code * _FNV_PRIME & _MASK) ^ byte
    return code, index


def _shown(terms: Iterable[Term]) -> tuple[csi.Topology, ...]:
    return tuple(csi.Topology(dict(one)) for one in terms)


def node_affinity(topologies: Iterable[csi.Topology]) -> core_v1.VolumeNodeAffinity | None:
    """Which nodes can use a volume that is accessible there; None for all."""
    terms = tuple(
        core_v1.NodeSelectorTerm(
            match_expressions=tuple(
                core_v1.NodeSelectorRequirement(key=key, operator="In", values=(value,))
                for key, value in sorted(one.segments.items())
            )
        )
        for one in topologies
        if one.segments
    )
    return core_v1.VolumeNodeAffinity(required=core_v1.NodeSelector(node_selector_terms=terms)) if terms else None


def is_accessible(affinity: core_v1.VolumeNodeAffinity | None, segments: Mapping[str, str]) -> bool:
    """Whether a volume with this affinity is usable where a node with these topology segments is."""
    if affinity is None or affinity.required is None or not segments:
        return True
    return any(
        all(one.operator == "In" and segments.get(one.key) in one.values for one in term.match_expressions)
        for term in affinity.required.node_selector_terms
    )


def allows(allowed: Sequence[core_v1.TopologySelectorTerm], segments: Mapping[str, str]) -> bool:
    """Whether a class may have volumes where these segments are."""
    here = tuple(sorted(segments.items()))
    return not allowed or any(is_within(one, here) for one in flatten(allowed))
