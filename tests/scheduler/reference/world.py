"""Objects as plain dicts, and what the reference wants to know about them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Tree = dict[str, Any]
_UNITS = {"": 1, "k": 1000, "M": 10**6, "G": 10**9, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}
HOSTNAME = "kubernetes.io/hostname"


@dataclass
class World:
    """A cluster: nodes in any order, pods that have a node, labels of namespaces."""

    nodes: list[Tree]
    pods: list[Tree] = field(default_factory=list)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)

    def on(self, node: Tree) -> list[Tree]:
        """The pods on a node."""
        return [pod for pod in self.pods if pod["spec"]["nodeName"] == name_of(node)]

    def node_of(self, pod: Tree) -> Tree:
        """The node of a pod that has one."""
        return next(node for node in self.nodes if name_of(node) == pod["spec"]["nodeName"])


def name_of(obj: Tree) -> str:
    return str(obj["metadata"]["name"])


def labels_of(obj: Tree) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def namespace_of(pod: Tree) -> str:
    return str(pod["metadata"].get("namespace", "default"))


def is_going(pod: Tree) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def amount(text: str, milli: bool = False) -> int:
    """A quantity in whole units, or in thousandths."""
    if text.endswith("m"):
        number = int(text[:-1])
        return number if milli else -(-number // 1000)
    digits = text.rstrip("kMGi")
    value = int(digits) * _UNITS[text[len(digits) :]]
    return value * 1000 if milli else value


def of_resource(name: str, text: str) -> int:
    """CPU counts in thousandths, all else in units."""
    return amount(text, milli=name == "cpu")


def requests(pod: Tree, *, at_least: dict[str, int] | None = None) -> dict[str, int]:
    """What a pod asks for: the sum of its containers, or its largest init container if that is more. `at_least`: what a container without a request counts as."""
    least = at_least or {}

    def of(container: Tree) -> dict[str, int]:
        given = container.get("resources", {}).get("requests", {})
        return {name: of_resource(name, given[name]) if name in given else least[name] for name in {*given, *least}}

    total: dict[str, int] = {}
    for container in pod["spec"]["containers"]:
        for name, value in of(container).items():
            total[name] = total.get(name, 0) + value
    for container in pod["spec"].get("initContainers", ()):
        for name, value in of(container).items():
            total[name] = max(total.get(name, 0), value)
    for name, text in pod["spec"].get("overhead", {}).items():
        total[name] = total.get(name, 0) + of_resource(name, text)
    return total


def expression_holds(item: Tree, value: str | None) -> bool:
    """Whether a label with this value (None: no such label) satisfies a match expression."""
    operator, values = item["operator"], item.get("values", [])
    if operator == "In":
        return value is not None and value in values
    if operator == "NotIn":
        return value is None or value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    try:
        return value is not None and (int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0]))
    except ValueError:
        return False


def selects(selector: Tree | None, labels: dict[str, str]) -> bool:
    """Whether a label selector matches; none matches nothing, an empty one everything."""
    if selector is None:
        return False
    exact = all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())
    return exact and all(
        expression_holds(item, labels.get(item["key"])) for item in selector.get("matchExpressions", ())
    )


def node_term_holds(term: Tree, node: Tree) -> bool:
    """Whether a node satisfies a term of a node selector; an empty term matches nothing."""
    expressions, fields = term.get("matchExpressions", []), term.get("matchFields", [])
    if not expressions and not fields:
        return False
    return all(expression_holds(item, labels_of(node).get(item["key"])) for item in expressions) and all(
        expression_holds(item, name_of(node)) for item in fields
    )


def wants_node(pod: Tree, node: Tree) -> bool:
    """Whether node selector and required node affinity allow a node."""
    spec = pod["spec"]
    if any(labels_of(node).get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
        return False
    required = spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(node_term_holds(term, node) for term in required["nodeSelectorTerms"])


def tolerates(tolerations: Iterable[Tree], taint: Tree) -> bool:
    """Whether one of the tolerations matches a taint."""
    for one in tolerations:
        if one.get("effect") and one["effect"] != taint["effect"]:
            continue
        if one.get("key") and one["key"] != taint["key"]:
            continue
        if one.get("operator") == "Exists" or (one.get("key") and one.get("value", "") == taint.get("value", "")):
            return True
    return False


def taints_of(node: Tree) -> list[Tree]:
    found: list[Tree] = node.get("spec", {}).get("taints", [])
    return found


def term_means(term: Tree, owner: Tree, other: Tree, world: World) -> bool:
    """Whether a pod affinity term of `owner` is about the pod `other`."""
    selector = term.get("namespaceSelector")
    namespaces = set(term.get("namespaces", ()))
    if not namespaces and selector is None:
        namespaces = {namespace_of(owner)}
    there = namespace_of(other)
    known = world.namespaces.get(there, {})
    in_scope = there in namespaces or (selector is not None and selects(selector, known))
    if not in_scope or not selects(term.get("labelSelector"), labels_of(other)):
        return False
    mine, theirs = labels_of(owner), labels_of(other)
    same = all(theirs.get(key) == mine[key] for key in term.get("matchLabelKeys", ()) if key in mine)
    return same and all(theirs.get(key) != mine[key] for key in term.get("mismatchLabelKeys", ()) if key in mine)


def affinity_terms(pod: Tree, side: str, *, required: bool) -> list[tuple[int, Tree]]:
    """Terms of `podAffinity` or `podAntiAffinity` with their weights (0 for required ones)."""
    part = pod["spec"].get("affinity", {}).get(side, {})
    if required:
        return [(0, term) for term in part.get("requiredDuringSchedulingIgnoredDuringExecution", ())]
    preferred = part.get("preferredDuringSchedulingIgnoredDuringExecution", ())
    return [(one["weight"], one["podAffinityTerm"]) for one in preferred]
