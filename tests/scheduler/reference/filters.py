"""Which nodes a pod fits on: the filters of the default profile in their order, as Kubernetes documents them."""

from __future__ import annotations

from collections.abc import Callable

from tests.scheduler.reference.world import (
    Tree,
    World,
    affinity_terms,
    is_going,
    labels_of,
    name_of,
    namespace_of,
    of_resource,
    requests,
    selects,
    taints_of,
    term_means,
    tolerates,
    wants_node,
)

Refusal = tuple[str, list[str]]
"""Plugin and reasons."""
_UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def unschedulable(pod: Tree, node: Tree, world: World) -> list[str]:
    if not node.get("spec", {}).get("unschedulable") or tolerates(pod["spec"].get("tolerations", ()), _UNSCHEDULABLE):
        return []
    return ["node(s) were unschedulable"]


def node_name(pod: Tree, node: Tree, world: World) -> list[str]:
    wanted = pod["spec"].get("nodeName")
    return ["node(s) didn't match the requested node name"] if wanted and wanted != name_of(node) else []


def taints(pod: Tree, node: Tree, world: World) -> list[str]:
    tolerations = pod["spec"].get("tolerations", ())
    hard = [taint for taint in taints_of(node) if taint["effect"] in ("NoSchedule", "NoExecute")]
    return [] if all(tolerates(tolerations, taint) for taint in hard) else ["node(s) had untolerated taint(s)"]


def node_affinity(pod: Tree, node: Tree, world: World) -> list[str]:
    return [] if wants_node(pod, node) else ["node(s) didn't match Pod's node affinity/selector"]


def _host_ports(pod: Tree) -> list[tuple[str, str, int]]:
    return [
        (port.get("hostIP") or "0.0.0.0", port.get("protocol", "TCP"), port["hostPort"])
        for container in pod["spec"]["containers"]
        for port in container.get("ports", ())
        if port.get("hostPort")
    ]


def ports(pod: Tree, node: Tree, world: World) -> list[str]:
    taken = [port for other in world.on(node) for port in _host_ports(other)]
    for address, protocol, number in _host_ports(pod):
        for other, its_protocol, its_number in taken:
            same = (protocol, number) == (its_protocol, its_number)
            if same and (address == other or "0.0.0.0" in (address, other)):
                return ["node(s) didn't have free ports for the requested pod ports"]
    return []


def resources(pod: Tree, node: Tree, world: World) -> list[str]:
    allocatable = {name: of_resource(name, text) for name, text in node["status"]["allocatable"].items()}
    there = world.on(node)
    reasons = ["Too many pods"] if len(there) + 1 > allocatable.get("pods", 0) else []
    for name, wanted in sorted(requests(pod).items(), key=lambda item: (item[0] != "cpu", item[0])):
        used = sum(requests(other).get(name, 0) for other in there)
        if wanted and used + wanted > allocatable.get(name, 0):
            reasons.append(f"Insufficient {name}")
    return reasons


def with_match_labels(constraint: Tree, pod: Tree) -> Tree | None:
    """The selector of a spread constraint with the pod's own values of `matchLabelKeys`."""
    selector = constraint.get("labelSelector")
    keys = [key for key in constraint.get("matchLabelKeys", ()) if key in labels_of(pod)]
    if selector is None or not keys:
        return selector
    more = [{"key": key, "operator": "In", "values": [labels_of(pod)[key]]} for key in keys]
    return {**selector, "matchExpressions": [*selector.get("matchExpressions", ()), *more]}


def counts_for(constraint: Tree, pod: Tree, node: Tree) -> bool:
    """Whether a node is looked at for a spread constraint, as far as its policies say."""
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not wants_node(pod, node):
        return False
    honors = constraint.get("nodeTaintsPolicy", "Ignore") == "Honor"
    return not honors or not taints(pod, node, World([]))


def matching_on(constraint: Tree, pod: Tree, node: Tree, world: World) -> int:
    """Pods on a node that a spread constraint counts: of the pod's namespace, selected, not on their way out."""
    selector = with_match_labels(constraint, pod)
    if selector is None or not (selector.get("matchLabels") or selector.get("matchExpressions")):
        return 0
    return sum(
        namespace_of(other) == namespace_of(pod) and not is_going(other) and selects(selector, labels_of(other))
        for other in world.on(node)
    )


def constraints_of(pod: Tree, action: str) -> list[Tree]:
    every: list[Tree] = pod["spec"].get("topologySpreadConstraints", [])
    return [one for one in every if one["whenUnsatisfiable"] == action]


def spread(pod: Tree, node: Tree, world: World) -> list[str]:
    reason = "node(s) didn't match pod topology spread constraints"
    hard = constraints_of(pod, "DoNotSchedule")
    keys = [one["topologyKey"] for one in hard]
    for one in hard:
        key = one["topologyKey"]
        if key not in labels_of(node):
            return [f"{reason} (missing required label)"]
        domains: dict[str, int] = {}
        for other in world.nodes:
            if all(each in labels_of(other) for each in keys) and counts_for(one, pod, other):
                domain = labels_of(other)[key]
                domains[domain] = domains.get(domain, 0) + matching_on(one, pod, other, world)
        least = min(domains.values(), default=2**31 - 1)
        if len(domains) < one.get("minDomains", 1):
            least = 0
        itself = selects(with_match_labels(one, pod), labels_of(pod))
        if domains.get(labels_of(node)[key], 0) + itself - least > one["maxSkew"]:
            return [reason]
    return []


def _in_domain(node: Tree, key: str, pods: list[Tree], world: World) -> bool:
    value = labels_of(node).get(key)
    return value is not None and any(labels_of(world.node_of(pod)).get(key) == value for pod in pods)


def pod_affinity(pod: Tree, node: Tree, world: World) -> list[str]:
    together = [term for _, term in affinity_terms(pod, "podAffinity", required=True)]
    if together:
        meant = [other for other in world.pods if all(term_means(term, pod, other, world) for term in together)]
        anywhere = any(term["topologyKey"] in labels_of(world.node_of(other)) for term in together for other in meant)
        labelled = all(term["topologyKey"] in labels_of(node) for term in together)
        first = not anywhere and all(term_means(term, pod, pod, world) for term in together)
        if not labelled or not (first or all(_in_domain(node, term["topologyKey"], meant, world) for term in together)):
            return ["node(s) didn't match pod affinity rules"]
    for _, term in affinity_terms(pod, "podAntiAffinity", required=True):
        meant = [other for other in world.pods if term_means(term, pod, other, world)]
        if _in_domain(node, term["topologyKey"], meant, world):
            return ["node(s) didn't match pod anti-affinity rules"]
    for other in world.pods:
        for _, term in affinity_terms(other, "podAntiAffinity", required=True):
            if term_means(term, other, pod, world) and _in_domain(node, term["topologyKey"], [other], world):
                return ["node(s) didn't satisfy existing pods anti-affinity rules"]
    return []


FILTERS: dict[str, Callable[[Tree, Tree, World], list[str]]] = {
    "NodeUnschedulable": unschedulable,
    "NodeName": node_name,
    "TaintToleration": taints,
    "NodeAffinity": node_affinity,
    "NodePorts": ports,
    "NodeResourcesFit": resources,
    "PodTopologySpread": spread,
    "InterPodAffinity": pod_affinity,
}


def refusal(pod: Tree, node: Tree, world: World) -> Refusal | None:
    """The first filter that refuses a node, with its reasons; None if the pod fits."""
    for plugin, check in FILTERS.items():
        reasons = check(pod, node, world)
        if reasons:
            return plugin, sorted(reasons)
    return None
