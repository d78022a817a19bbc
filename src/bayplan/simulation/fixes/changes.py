"""Single changes that might let a pod be placed: of the pod, of a node, of what else runs.

A change is a function from one supposed state of affairs (`Supposed`) to another; nothing is written anywhere. Which
changes come into question follows from what the scheduler said about the nodes.

Sizes rank changes by how much they touch: 10 for a switch that somebody left on, 20 to 45 for something that the pod
need not insist on, 50 and more for what costs other pods or money.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from bayplan.api.quantity import Format, Quantity, parse
from bayplan.api.types import core_v1
from bayplan.scheduler.decision import Decision
from bayplan.scheduler.planning.capacity import Limit
from bayplan.simulation.fixes.base import Apply, Candidate, Change, Range, change_node, of_spec
from bayplan.simulation.fixes.selectors import affinity_expressions, selector_entries

_CONDITION_TAINTS: Final = "node.kubernetes.io/"
_MOST_SKEW: Final = 50
_WHOLE: Final = -1
"""Stands for the pod where containers are counted from 0."""
_TRIED_NODES: Final = 5


def candidates(
    pod: core_v1.Pod, decision: Decision, nodes: Mapping[str, core_v1.Node], limits: Iterable[Limit]
) -> Iterator[Candidate]:
    """The changes of pod and nodes that come into question after the scheduler refused all nodes. limits: all that stands in the way."""
    if decision.gate is not None:
        yield _without_gates(pod)
        return
    refused: dict[str, list[str]] = {}
    reasons: list[str] = []
    for limit in limits:
        refused.setdefault(limit.plugin, []).extend(limit.nodes)
        reasons += limit.reasons
    yield from _requests(pod, reasons)
    if "TaintToleration" in refused:
        yield from _tolerations(refused["TaintToleration"], nodes)
    if "NodeUnschedulable" in refused:
        yield from (_uncordoned(nodes[name]) for name in refused["NodeUnschedulable"][:_TRIED_NODES] if name in nodes)
    yield from selector_entries(pod)
    yield from affinity_expressions(pod)
    yield from _pod_terms(pod)
    yield from _spread(pod)
    yield from _ports(pod)
    yield from _volumes(pod)


def _without_gates(pod: core_v1.Pod) -> Change:
    names = [gate.name for gate in pod.spec.scheduling_gates]
    text = f"remove scheduling gate {', '.join(names)}"
    return Change("remove-gates", text, 10, {"gates": names}, of_spec(lambda spec: replace(spec, scheduling_gates=())))


# Requests


def _requests(pod: core_v1.Pod, reasons: list[str]) -> Iterator[Range]:
    for resource in sorted(
        {reason.removeprefix("Insufficient ") for reason in reasons if reason.startswith("Insufficient ")}
    ):
        whole = pod.spec.resources.requests.get(resource) if pod.spec.resources is not None else None
        if whole is not None and amount_of(resource, whole) > 0:
            yield _lower("the pod as a whole", _WHOLE, resource, amount_of(resource, whole))
            continue  # what containers ask for does not count then
        for index, container in enumerate(pod.spec.containers):
            asked = container.resources.requests.get(resource)
            if asked is not None and amount_of(resource, asked) > 0:
                yield _lower(f"container {container.name}", index, resource, amount_of(resource, asked))


def amount_of(resource: str, quantity: Any) -> int:
    """Thousandths of cpu, whole units of all else."""
    exact = parse(quantity)
    return exact.milli_value() if resource == "cpu" else exact.value()


def _step(resource: str, amount: int) -> int:
    """What people would round an amount to."""
    if resource == "cpu":
        return 10 if amount >= 100 else 1
    if resource == "memory" or resource.startswith(("ephemeral-storage", "hugepages-")):
        return 1 << 20 if amount >= 1 << 22 else 1
    return 1


def amount_text(resource: str, amount: int) -> str:
    """An amount as people write it."""
    if resource == "cpu":
        return str(Quantity(amount, 3))
    if resource == "memory" or resource.startswith(("ephemeral-storage", "hugepages-")):
        return str(Quantity(amount, 0, Format.BINARY_SI))
    return str(amount)


def _lower(whose: str, index: int, resource: str, asked: int) -> Range:
    """Strengths count the steps by which the request is lowered."""
    step = _step(resource, asked)

    def at(strength: int) -> Change:
        left = max(asked // step - strength, 0) * step
        new = amount_text(resource, left)
        part = (asked - left) / asked
        text = f"lower the {resource} request of {whose} from {amount_text(resource, asked)} to {new}"
        detail = {"of": whose, "resource": resource, "from": amount_text(resource, asked), "to": new}
        return Change(
            "lower-request",
            text,
            20 + round(40 * part),
            detail,
            of_spec(lambda spec: _with_request(spec, index, resource, new)),
        )

    return Range(1 if asked % step == 0 else 0, asked // step, at)


def _with_request(spec: core_v1.PodSpec, index: int, resource: str, amount: str) -> core_v1.PodSpec:
    changed: dict[str, Any] = {resource: amount}
    if index == _WHOLE:
        assert spec.resources is not None
        return replace(spec, resources=replace(spec.resources, requests={**spec.resources.requests, **changed}))
    containers = list(spec.containers)
    container = containers[index]
    requests = {**container.resources.requests, **changed}
    limits = container.resources.limits
    if resource in limits and not resource.startswith(("cpu", "memory", "ephemeral-storage")):
        limits = {**limits, **changed}
    containers[index] = replace(container, resources=replace(container.resources, requests=requests, limits=limits))
    return replace(spec, containers=tuple(containers))


# Taints and cordons


def _tolerations(refused: list[str], nodes: Mapping[str, core_v1.Node]) -> Iterator[Change]:
    found: dict[tuple[str, str, str], int] = {}
    for name in refused:
        for taint in nodes[name].spec.taints if name in nodes else ():
            if taint.effect != "PreferNoSchedule" and not taint.key.startswith(_CONDITION_TAINTS):
                which = (taint.key, taint.value, taint.effect)
                found[which] = found.get(which, 0) + 1
    for (key, value, effect), count in sorted(found.items()):
        toleration = core_v1.Toleration(key=key, operator="Equal" if value else "Exists", value=value, effect=effect)
        shown = f"{key}={value}:{effect}" if value else f"{key}:{effect}"
        yield Change(
            "add-toleration",
            f"tolerate the taint {shown} ({count} {'node has' if count == 1 else 'nodes have'} it)",
            25,
            {"key": key, "value": value, "effect": effect},
            of_spec(partial(_tolerating, toleration)),
        )


def _uncordoned(node: core_v1.Node) -> Change:
    name = node.metadata.name
    detail = {"node": name, "command": f"kubectl uncordon {name}"}
    return Change("uncordon-node", f"uncordon node {name}", 15, detail, partial(change_node, node=node, change=_open))


def _open(node: core_v1.Node) -> core_v1.Node:
    keep = tuple(one for one in node.spec.taints if one.key != "node.kubernetes.io/unschedulable")
    return replace(node, spec=replace(node.spec, unschedulable=False, taints=keep))


# What other pods have to do with it


def _pod_terms(pod: core_v1.Pod) -> Iterator[Change]:
    affinity = pod.spec.affinity
    for name, kind in (("pod_affinity", "affinity"), ("pod_anti_affinity", "anti-affinity")):
        rules = getattr(affinity, name) if affinity is not None else None
        terms = rules.required_during_scheduling_ignored_during_execution if rules is not None else ()
        for index, term in enumerate(terms):
            yield Change(
                f"drop-pod-{kind}",
                f"drop the required pod {kind} to {_selected(term)} within {term.topology_key}, or only prefer it",
                40,
                {"topologyKey": term.topology_key, "index": index},
                of_spec(partial(_without_term, name=name, term=term)),
            )


def _selected(term: core_v1.PodAffinityTerm) -> str:
    selector = term.label_selector
    if selector is None:
        return "no pods"
    parts = [f"{key}={value}" for key, value in selector.match_labels.items()]
    parts += [f"{one.key} {one.operator} {','.join(one.values)}".strip() for one in selector.match_expressions]
    return " and ".join(parts) or "all pods"


def _without_term(spec: core_v1.PodSpec, name: str, term: core_v1.PodAffinityTerm) -> core_v1.PodSpec:
    affinity = spec.affinity
    rules = getattr(affinity, name) if affinity is not None else None
    if affinity is None or rules is None:
        return spec
    left = tuple(one for one in rules.required_during_scheduling_ignored_during_execution if one != term)
    changed: dict[str, Any] = {name: replace(rules, required_during_scheduling_ignored_during_execution=left)}
    return replace(spec, affinity=replace(affinity, **changed))


def _spread(pod: core_v1.Pod) -> Iterator[Candidate]:
    constraints = pod.spec.topology_spread_constraints
    for index, one in enumerate(constraints):
        if one.when_unsatisfiable != "DoNotSchedule":
            continue

        def at(strength: int, index: int = index, one: core_v1.TopologySpreadConstraint = one) -> Change:
            skew = one.max_skew + strength
            text = f"raise maxSkew over {one.topology_key} from {one.max_skew} to {skew}"
            detail = {"topologyKey": one.topology_key, "from": one.max_skew, "to": skew}
            return Change("raise-max-skew", text, 25 + min(strength, 10), detail, _constraint(index, max_skew=skew))

        yield Range(1, _MOST_SKEW, at)
        text = f"let the spread over {one.topology_key} be ScheduleAnyway"
        detail = {"topologyKey": one.topology_key}
        yield Change(
            "relax-spread", text, 38, detail, _constraint(index, when_unsatisfiable="ScheduleAnyway", min_domains=None)
        )


def _constraint(index: int, **fields: Any) -> Apply:
    def change(spec: core_v1.PodSpec) -> core_v1.PodSpec:
        constraints = list(spec.topology_spread_constraints)
        constraints[index] = replace(constraints[index], **fields)
        return replace(spec, topology_spread_constraints=tuple(constraints))

    return of_spec(change)


def _ports(pod: core_v1.Pod) -> Iterator[Change]:
    for index, container in enumerate(pod.spec.containers):
        for number, port in enumerate(container.ports):
            if port.host_port:
                yield Change(
                    "drop-host-port",
                    f"drop host port {port.host_port}/{port.protocol or 'TCP'} of container {container.name}",
                    45,
                    {"container": container.name, "hostPort": port.host_port},
                    of_spec(partial(_without_port, index=index, number=number)),
                )


def _without_port(spec: core_v1.PodSpec, index: int, number: int) -> core_v1.PodSpec:
    containers = list(spec.containers)
    ports = list(containers[index].ports)
    ports[number] = replace(ports[number], host_port=0)
    containers[index] = replace(containers[index], ports=tuple(ports))
    return replace(spec, containers=tuple(containers))


def _volumes(pod: core_v1.Pod) -> Iterator[Change]:
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            claim = volume.persistent_volume_claim.claim_name
            yield Change(
                "drop-volume",
                f"do without volume {volume.name} (claim {claim})",
                70,
                {"volume": volume.name, "claim": claim},
                of_spec(partial(_without_volume, volume.name)),
            )


def _tolerating(toleration: core_v1.Toleration, spec: core_v1.PodSpec) -> core_v1.PodSpec:
    return replace(spec, tolerations=(*spec.tolerations, toleration))


def _without_volume(name: str, spec: core_v1.PodSpec) -> core_v1.PodSpec:
    return replace(spec, volumes=tuple(one for one in spec.volumes if one.name != name))
