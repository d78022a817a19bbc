"""How good nodes are that a pod fits on: the scores of the default profile with their weights, as Kubernetes documents them."""

from __future__ import annotations

import math

from tests.scheduler.reference.filters import constraints_of, counts_for, matching_on
from tests.scheduler.reference.world import (
    HOSTNAME,
    Tree,
    World,
    affinity_terms,
    labels_of,
    name_of,
    node_term_holds,
    of_resource,
    requests,
    taints_of,
    term_means,
    tolerates,
)

Scores = dict[str, int]
"""By node."""
WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "ImageLocality": 1,
}
_NON_ZERO = {"cpu": 100, "memory": 200 * 1024 * 1024}
_MEBIBYTE = 1024 * 1024


def _scaled(raw: Scores, *, reverse: bool = False) -> Scores:
    """To 0..100 by the largest."""
    most = max(raw.values())
    if most == 0:
        return dict.fromkeys(raw, 100 if reverse else 0)
    scaled = {node: 100 * value // most for node, value in raw.items()}
    return {node: 100 - value for node, value in scaled.items()} if reverse else scaled


def taint_toleration(pod: Tree, feasible: list[Tree], world: World) -> Scores:
    tolerations = [
        one for one in pod["spec"].get("tolerations", ()) if one.get("effect", "") in ("", "PreferNoSchedule")
    ]
    soft = {
        name_of(node): sum(
            taint["effect"] == "PreferNoSchedule" and not tolerates(tolerations, taint) for taint in taints_of(node)
        )
        for node in feasible
    }
    return _scaled(soft, reverse=True)


def node_affinity(pod: Tree, feasible: list[Tree], world: World) -> Scores:
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution", ())
    return _scaled(
        {
            name_of(node): sum(one["weight"] for one in preferred if node_term_holds(one["preference"], node))
            for node in feasible
        }
    )


def least_allocated(pod: Tree, feasible: list[Tree], world: World) -> Scores:
    found = {}
    wanted = requests(pod, at_least=_NON_ZERO)
    for node in feasible:
        scores = []
        for name in ("cpu", "memory"):
            capacity = of_resource(name, node["status"]["allocatable"].get(name, "0"))
            if capacity:
                used = sum(requests(other, at_least=_NON_ZERO)[name] for other in world.on(node)) + wanted[name]
                scores.append((capacity - used) * 100 // capacity if used <= capacity else 0)
        found[name_of(node)] = sum(scores) // len(scores) if scores else 0
    return found


def balanced(pod: Tree, feasible: list[Tree], world: World) -> Scores:
    own = requests(pod)
    if not own.get("cpu") and not own.get("memory"):
        return {name_of(node): 0 for node in feasible}

    def balance(node: Tree, *, with_pod: bool) -> int:
        shares = []
        for name in ("cpu", "memory"):
            capacity = of_resource(name, node["status"]["allocatable"].get(name, "0"))
            used = sum(requests(other).get(name, 0) for other in world.on(node)) + (own.get(name, 0) if with_pod else 0)
            if capacity:
                shares.append(min(used / capacity, 1.0))
        deviation = abs((shares[0] - shares[1]) / 2) if len(shares) == 2 else 0.0
        return int((1 - deviation) * 100)

    found = {}
    for node in feasible:
        gain = 50 + balance(node, with_pod=True) - balance(node, with_pod=False)
        found[name_of(node)] = 50 + int(gain / 2)
    return found


def spread(pod: Tree, feasible: list[Tree], world: World) -> Scores:
    soft = constraints_of(pod, "ScheduleAnyway")
    if not soft:
        return {name_of(node): 0 for node in feasible}
    keys = [one["topologyKey"] for one in soft]
    chosen = [node for node in feasible if all(key in labels_of(node) for key in keys)]
    costs: dict[str, int] = {}
    for node in chosen:
        total = 0.0
        for one in soft:
            key = one["topologyKey"]
            if key == HOSTNAME:
                count, domains = matching_on(one, pod, node, world), len(chosen)
            else:
                same = [
                    other
                    for other in world.nodes
                    if labels_of(other).get(key) == labels_of(node)[key]
                    and all(each in labels_of(other) for each in keys)
                    and counts_for(one, pod, other)
                ]
                count = sum(matching_on(one, pod, other, world) for other in same)
                domains = len({labels_of(other)[key] for other in chosen})
            total += count * math.log(domains + 2) + (one["maxSkew"] - 1)
        costs[name_of(node)] = math.floor(total + 0.5)
    found = {name_of(node): 0 for node in feasible}
    if costs:
        most, least = max(costs.values()), min(costs.values())
        found |= {name: 100 if most == 0 else 100 * (most + least - cost) // most for name, cost in costs.items()}
    return found


def pod_affinity(pod: Tree, feasible: list[Tree], world: World) -> Scores:
    credit: dict[tuple[str, str], int] = {}

    def give(term: Tree, other: Tree, weight: int) -> None:
        """The domain of a pod gains or loses."""
        key = term["topologyKey"]
        value = labels_of(world.node_of(other)).get(key)
        if value is not None:
            credit[key, value] = credit.get((key, value), 0) + weight

    for other in world.pods:
        for side, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
            for weight, term in affinity_terms(pod, side, required=False):
                if term_means(term, pod, other, world):
                    give(term, other, sign * weight)
            for weight, term in affinity_terms(other, side, required=False):
                if term_means(term, other, pod, world):
                    give(term, other, sign * weight)
        for _, term in affinity_terms(other, "podAffinity", required=True):
            if term_means(term, other, pod, world):
                give(term, other, 1)
    raw = {
        name_of(node): sum(value for (key, domain), value in credit.items() if labels_of(node).get(key) == domain)
        for node in feasible
    }
    low, high = min(raw.values()), max(raw.values())
    if high == low:
        return dict.fromkeys(raw, 0)
    return {name: int(100 * ((value - low) / (high - low))) for name, value in raw.items()}


def images(pod: Tree, feasible: list[Tree], world: World) -> Scores:
    def full(image: str) -> str:
        return image if ":" in image.rpartition("/")[2] else f"{image}:latest"

    sizes = [
        {name: image["sizeBytes"] for image in node["status"].get("images", ()) for name in image["names"]}
        for node in world.nodes
    ]
    containers = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
    found = {}
    for node in feasible:
        own = {name for image in node["status"].get("images", ()) for name in image["names"]}
        local = 0
        for container in containers:
            name = full(container["image"])
            having = [one[name] for one in sizes if name in one]
            if name in own:
                local += int(having[0] * (len(having) / len(world.nodes)))
        low, high = 23 * _MEBIBYTE, 1000 * _MEBIBYTE * len(containers)
        found[name_of(node)] = 100 * (min(max(local, low), high) - low) // (high - low)
    return found


SCORES = {
    "TaintToleration": taint_toleration,
    "NodeAffinity": node_affinity,
    "NodeResourcesFit": least_allocated,
    "NodeResourcesBalancedAllocation": balanced,
    "PodTopologySpread": spread,
    "InterPodAffinity": pod_affinity,
    "ImageLocality": images,
}


def scores(pod: Tree, feasible: list[Tree], world: World) -> dict[str, dict[str, int]]:
    """Weighted scores by node and plugin."""
    by_plugin = {plugin: score(pod, feasible, world) for plugin, score in SCORES.items()}
    return {
        name_of(node): {plugin: by_plugin[plugin][name_of(node)] * weight for plugin, weight in WEIGHTS.items()}
        for node in feasible
    }
