"""Pods count for themselves and for what they request and may use, until they have ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayplan.api.kinds import Kind
from bayplan.api.pods.resources import pod_level, pod_total
from bayplan.api.quota.amounts import ONE, Amounts, parsed
from bayplan.api.quota.evaluators import CREATE, UPDATE, Evaluator
from bayplan.api.quota.scopes import Requirement, has_deadline, pod_matches
from bayplan.api.types import core_v1
from bayplan.api.validation.resources import is_native
from bayplan.support.timestamps import parse_rfc3339

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_NAMES = (
    *_COMPUTE,
    *(f"requests.{name}" for name in _COMPUTE),
    *(f"limits.{name}" for name in _COMPUTE),
    "pods",
)
_MUST_SPECIFY = frozenset(("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"))
"""A quota for one of these makes every container say it."""


class PodEvaluator(Evaluator):
    """See the module."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(kind)
        self.names = (self.count_name, *_NAMES)

    def handles(self, operation: str, subresource: str) -> bool:
        if subresource == "resize":
            return operation == UPDATE
        return operation in (CREATE, UPDATE) and not subresource

    def is_affected(self, old: Any, new: Any, subresource: str) -> bool:
        return old is None or bool(subresource) or self.moves(old, new)

    def moves(self, old: Any, new: Any) -> bool:
        return has_deadline(old) != has_deadline(new)

    def matching(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in self.names or _is_prefixed(name)]

    def in_scope(self, obj: Any, scope: Requirement) -> bool:
        return pod_matches(obj, scope)

    def missing(self, required: Iterable[str], obj: Any) -> str:
        wanted = _MUST_SPECIFY.intersection(required)
        spec: core_v1.PodSpec = obj.spec
        wanted = wanted - _compute(pod_level(spec, "requests"), pod_level(spec, "limits")).keys()
        lacking: dict[str, set[str]] = {}
        for container in spec.containers + spec.init_containers:
            resources = container.resources
            given = _compute(parsed(resources.requests), parsed(resources.limits))
            for name in wanted - given.keys():
                lacking.setdefault(name, set()).add(container.name)
        parts = (f"{name} for: {','.join(sorted(lacking[name]))}" for name in sorted(lacking))
        return "; ".join(parts)

    def usage(self, obj: Any, now: float) -> Amounts:
        result = {self.count_name: ONE}
        if is_charged(obj, now):
            result["pods"] = ONE
            spec = obj.spec
            result.update(
                _compute(pod_total(spec, "requests", overhead=True), pod_total(spec, "limits", overhead=True))
            )
        return result


def is_charged(pod: core_v1.Pod, now: float) -> bool:
    """Whether a pod still holds resources: it has not ended, and its time to end is not over."""
    if pod.status.phase in ("Succeeded", "Failed"):
        return False
    metadata = pod.metadata
    if metadata.deletion_timestamp is None or metadata.deletion_grace_period_seconds is None:
        return True
    return now <= parse_rfc3339(metadata.deletion_timestamp) + metadata.deletion_grace_period_seconds


def _compute(requests: Amounts, limits: Amounts) -> Amounts:
    """Requests and limits under the names by which quotas count them."""
    result: Amounts = {}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            result[name] = result[f"requests.{name}"] = amount
        elif not is_native(name):
            result[f"requests.{name}"] = amount
    for name in _COMPUTE:
        if name in limits:
            result[f"limits.{name}"] = limits[name]
    return result


def _is_prefixed(name: str) -> bool:
    """Huge pages and extended resources: counted by prefix, not by a list of names."""
    if name.startswith(("hugepages-", "requests.hugepages-")):
        return True
    return name.startswith("requests.") and not is_native(name)
