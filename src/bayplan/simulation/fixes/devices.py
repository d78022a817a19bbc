"""Evictions that free devices: those of resource claims that nobody uses once their pods are gone.

Preemption never frees devices, so it does not find these. Here all pods on nodes whose pods have devices are supposed
to be gone, which says where the pod could go; there, as many as possible are put back, the most important first. If no
node alone suffices (devices may be reached over the network, and claims shared), pods of all these nodes are looked at.

    pods 1 2 3 4, least important first; without 2 it fits -> spare 3 4? yes; spare 2? no; spare 1? yes -> evict 2
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace as changed
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from bayplan.api.types import core_v1, resource_v1
from bayplan.scheduler.snapshot.extended_resources import class_behind
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.scheduler.snapshot.snapshot import Snapshot
from bayplan.simulation.fixes.base import Change, Fix, Supposed
from bayplan.simulation.questions.consolidate_rules import Budgets
from bayplan.simulation.replay.figures import asked_for

if TYPE_CHECKING:
    from bayplan.simulation.fixes.trial import Trial

_TRIED_NODES: Final = 20
_NODES_ASKED: Final = 20_000
"""Tried nodes times all nodes, beyond which fewer are tried: a try asks about all of them."""
_CRITICAL: Final = 2_000_000_000
_BASE: Final = 50
_PER_POD: Final = 8
"""How large an eviction is; see `fixes_changes`."""

Keys = tuple[str, ...]


class Holders:
    """Who uses which claims, as the copy has it. Pods are named `namespace/name`."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._claims: dict[str, list[str]] = {}
        for key, claim in snapshot.catalog.resource_claims.items():
            for user in claim.status.reserved_for if claim.status.allocation is not None else ():
                if user.resource == "pods":
                    self._claims.setdefault(f"{claim.metadata.namespace}/{user.name}", []).append(key)

    def __bool__(self) -> bool:
        return bool(self._claims)

    def __contains__(self, key: str) -> bool:
        return key in self._claims

    @contextmanager
    def without(self, keys: Iterable[str]) -> Iterator[None]:
        """For a while, these pods use no claims, and claims that nobody uses are allocated no more."""
        claims = self._snapshot.catalog.resource_claims
        before = {claim: claims[claim] for key in keys for claim in self._claims.get(key, ())}
        for key in keys:
            for claim in self._claims.get(key, ()):
                self._snapshot.put_object("ResourceClaim", _left(claims[claim], key.partition("/")[2]))
        try:
            yield
        finally:
            for known in before.values():
                self._snapshot.put_object("ResourceClaim", known)


def _left(claim: resource_v1.ResourceClaim, name: str) -> resource_v1.ResourceClaim:
    """The claim without the pod of this name among its users."""
    users = tuple(user for user in claim.status.reserved_for if user.name != name or user.resource != "pods")
    allocation = claim.status.allocation if users else None
    return replace(claim, status=replace(claim.status, reserved_for=users, allocation=allocation))


def freeing_devices(trial: Trial, changes: tuple[Change, ...], most: int) -> Iterator[Fix]:
    """Evictions that free the devices that a pod lacks after some changes, the smallest first."""
    state = trial.after(changes)
    if not _needs_devices(trial, state.pod):
        return
    pods = _movable(trial, frozenset(state.evicted))
    everybody = tuple(pods)
    if not everybody:
        return
    decision = trial.decide(changed(state, evicted=(*state.evicted, *everybody)))
    if decision.node is None:
        return
    verdicts = zip(decision.names, decision.codes.tolist(), strict=False)
    names = {name for name, code in verdicts if code == 0 and name}
    groups = [tuple(key for key in everybody if pods[key].node_name == name) for name in sorted(names)]
    most_nodes = max(most, min(_TRIED_NODES, _NODES_ASKED // max(len(trial.nodes), 1)))
    ordered = sorted((group for group in groups if group), key=lambda keys: (len(keys), keys))[:most_nodes]
    found: list[Fix] = []
    for keys in ordered:
        if sum(fix.changes[-1].size == _BASE + _PER_POD for fix in found) >= most:
            break  # nothing is smaller than to evict one pod
        if (fix := _smallest(trial, changes, state, keys)) is not None:
            found.append(fix)
    if not found and (fix := _smallest(trial, changes, state, everybody)) is not None:
        found = [fix]
    yield from sorted(found, key=lambda fix: fix.size)[:most]


def _needs_devices(trial: Trial, pod: core_v1.Pod) -> bool:
    """Whether a pod asks for devices: in claims, or as a resource for which some class of devices stands."""
    classes = trial.planner.snapshot.catalog.device_classes
    return bool(pod.spec.resource_claims) or any(class_behind(name, classes) for name in asked_for(pod))


def _movable(trial: Trial, gone: frozenset[str]) -> dict[str, PodInfo]:
    """The pods that may be evicted on nodes where pods have devices: first whom no disruption budget protects, then by priority."""
    snapshot = trial.planner.snapshot
    running = snapshot.pods
    nodes = {info.node_name for key, info in running.items() if key in trial.holders}
    budgets = Budgets(snapshot.catalog.disruption_budgets.values(), (info.pod for info in running.values()))
    pods = [
        (any(not budgets.allows(one) for one in budgets.of(info.pod)), info.pod.spec.priority or 0, key)
        for key, info in running.items()
        if info.node_name in nodes and key not in gone and not trial.is_kept(info.pod)
    ]
    return {key: running[key] for _, _, key in sorted(pods)}


def _smallest(trial: Trial, changes: tuple[Change, ...], state: Supposed, keys: Keys) -> Fix | None:
    """The eviction of as few of these pods as suffice; None if not even all do."""

    def works(evicted: Keys) -> bool:
        return trial.decide(changed(state, evicted=(*state.evicted, *evicted))).node is not None

    if not works(keys):
        return None
    needed = _needed(works, keys, ())
    pods = [trial.planner.snapshot.pods[key] for key in needed]
    places = ", ".join(sorted({info.node_name for info in pods}))
    change = eviction([info.pod for info in pods], places, _violations(trial.planner.snapshot, pods))
    node = trial.works((*changes, change))
    return Fix((*changes, change), node) if node else None


def _violations(snapshot: Snapshot, pods: Iterable[PodInfo]) -> int:
    """How many of the evictions a disruption budget does not allow."""
    budgets = Budgets(snapshot.catalog.disruption_budgets.values())
    evicted: Counter[tuple[str, str]] = Counter()
    violations = 0
    for info in pods:
        covering = budgets.of(info.pod)
        evicted.update((one.metadata.namespace, one.metadata.name) for one in covering)
        violations += any(
            evicted[one.metadata.namespace, one.metadata.name] > one.status.disruptions_allowed for one in covering
        )
    return violations


def _needed(works: Callable[[Keys], bool], keys: Keys, others: Keys) -> Keys:
    """The least important of `keys` that are needed besides `others`; all of them together suffice."""
    if works(others):
        return ()
    if len(keys) == 1:
        return keys
    middle = len(keys) // 2
    lesser, greater = keys[:middle], keys[middle:]
    needed = _needed(works, greater, (*others, *lesser))
    return (*_needed(works, lesser, (*others, *needed)), *needed)


def eviction(pods: Sequence[core_v1.Pod], node: str, violations: int) -> Change:
    """The change that evicts pods from a node, so many of them against their disruption budget."""
    keys = tuple(f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods)
    against = f", {violations} of them against their disruption budget" if violations else ""
    shown = ", ".join(keys[:3]) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")
    critical = any((pod.spec.priority or 0) >= _CRITICAL for pod in pods)
    return Change(
        "evict",
        f"evict {shown} from {node}{against}",
        _BASE + _PER_POD * len(keys) + 30 * violations + (100 if critical else 0),
        {"from": node, "pods": list(keys), "budgetViolations": violations},
        lambda state: changed(state, evicted=(*state.evicted, *keys)),
    )


def evicted_by(fix: Fix) -> frozenset[str]:
    """The pods that a fix evicts."""
    return frozenset(key for change in fix.changes if change.kind == "evict" for key in change.detail["pods"])
