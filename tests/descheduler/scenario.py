"""Clusters and policies for tests of the descheduler, in a few words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bayplan.api.types import core_v1, meta_v1
from bayplan.descheduler.planner import Eviction, Outcome, Refusal, StrategyEnd, decisions
from bayplan.descheduler.policy import DeschedulerPolicy
from bayplan.descheduler.policy_reader import parse_policy
from bayplan.descheduler.registry import STRATEGIES
from bayplan.descheduler.snapshot import ClusterSnapshot
from bayplan.support.timestamps import parse_rfc3339, rfc3339
from bayplan.testing import builders

NOW = parse_rfc3339("2026-06-01T00:00:00Z")
OWNER = "web"


def ago(seconds: float) -> str:
    """A time before now."""
    return rfc3339(NOW - seconds)


def owners(name: str = OWNER, kind: str = "ReplicaSet") -> tuple[meta_v1.OwnerReference, ...]:
    """One owner."""
    return (meta_v1.OwnerReference(api_version="apps/v1", kind=kind, name=name, uid=f"{kind}-{name}", controller=True),)


def pod(
    name: str, node: str, *, owner: str = OWNER, kind: str = "ReplicaSet", age: float = 60.0, **more: Any
) -> core_v1.Pod:
    """A running pod of a replica set on a node; `owner=""`: of nobody. `more` is what the builder takes."""
    meta = {"uid": name, "created": ago(age), "owners": owners(owner, kind) if owner else (), **more.pop("meta", {})}
    status = more.pop("status", None) or core_v1.PodStatus(phase="Running", start_time=ago(age))
    return builders.pod(name, node_name=node, meta=meta, status=status, **more)


def zone(name: str, where: str, **more: Any) -> core_v1.Node:
    """A node in a zone."""
    return builders.node(name, meta={"labels": {"kubernetes.io/hostname": name, "zone": where}}, **more)


def nodes(*names: str) -> list[core_v1.Node]:
    """Nodes of the usual size."""
    return [builders.node(name) for name in names]


def policy(
    strategy: str, arguments: Mapping[str, Any] | None = None, evictor: Mapping[str, Any] | None = None, **top: Any
) -> DeschedulerPolicy:
    """A policy of one strategy, as a file would say it."""
    return parse_policy(
        {
            "apiVersion": "descheduler/v1alpha2",
            "kind": "DeschedulerPolicy",
            "profiles": [
                {
                    "name": "test",
                    "pluginConfig": [
                        {"name": strategy, "args": dict(arguments or {})},
                        {"name": "DefaultEvictor", "args": dict(evictor or {})},
                    ],
                    "plugins": {STRATEGIES[strategy].point: {"enabled": [strategy]}},
                }
            ],
            **top,
        }
    )


def snapshot(cluster: Sequence[core_v1.Node], pods: Iterable[core_v1.Pod], **more: Any) -> ClusterSnapshot:
    """A cluster now."""
    return ClusterSnapshot(NOW, cluster, pods, **more)


def evicted(
    wanted: DeschedulerPolicy,
    cluster: Sequence[core_v1.Node],
    pods: Iterable[core_v1.Pod],
    evict: Callable[[Eviction], Outcome] | None = None,
    **more: Any,
) -> list[str]:
    """The names of the pods that a pass evicts, in its order. No strategy may fail."""
    found = []
    outcomes: list[Outcome] = []

    def answer(eviction: Eviction) -> Outcome:
        outcomes.append(Outcome(True) if evict is None else evict(eviction))
        if outcomes[-1].evicted:
            found.append(eviction.pod.metadata.name)
        return outcomes[-1]

    made = decisions(wanted, snapshot(cluster, pods, **more), answer)
    assert not [one for one in made if isinstance(one, StrategyEnd) and one.error]
    return found


def refused(
    wanted: DeschedulerPolicy, cluster: Sequence[core_v1.Node], pods: Iterable[core_v1.Pod], **more: Any
) -> dict[str, tuple[str, ...]]:
    """The objections to pods that strategies would have evicted, by name."""
    made = decisions(wanted, snapshot(cluster, pods, **more))
    return {one.pod.metadata.name: one.objections for one in made if isinstance(one, Refusal)}
