"""What an object of each kind counts for.

An evaluator knows three things of its kind: which resources of a quota it feeds (`matching`), whether a quota is about an object (`matches`) and what
the object counts for (`usage`). Every kind is counted as `count/<resource>.<group>`; a few old ones under their bare name as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayplan.api.kinds import Kind
from bayplan.api.quota.amounts import ONE, Amounts
from bayplan.api.quota.scopes import Requirement, requirements_of
from bayplan.api.types import core_v1

CREATE, UPDATE = "CREATE", "UPDATE"
_BARE_NAMES = frozenset(("configmaps", "resourcequotas", "replicationcontrollers", "secrets"))


class Evaluator:
    """Counts objects of one kind; the base class counts them one by one."""

    def __init__(self, kind: Kind) -> None:
        self.count_name = f"count/{kind.group_resource}"
        self.names: tuple[str, ...] = (self.count_name,)
        """Resources that this kind feeds."""
        if not kind.group and kind.plural in _BARE_NAMES:
            self.names = (self.count_name, kind.plural)

    def handles(self, operation: str, subresource: str) -> bool:
        """Whether such a request can change usage."""
        return operation == CREATE and not subresource

    def is_affected(self, old: Any, new: Any, subresource: str) -> bool:
        """Whether a request that is handled has to be looked at. `old`: None for creations."""
        return True

    def moves(self, old: Any, new: Any) -> bool:
        """Whether a change takes an object from one scope into another."""
        return False

    def matching(self, names: Iterable[str]) -> list[str]:
        """Those of the resources that this kind feeds."""
        return [name for name in names if name in self.names]

    def matches(self, quota: core_v1.ResourceQuota, obj: Any) -> bool:
        """Whether the quota, as far as its status says what it limits, is about the object."""
        if not self.matching(quota.status.hard):
            return False
        return all(self.in_scope(obj, scope) for scope in requirements_of(quota))

    def in_scope(self, obj: Any, scope: Requirement) -> bool:
        """Whether an object is in a scope; kinds without scopes are in none."""
        return False

    def missing(self, required: Iterable[str], obj: Any) -> str:
        """What the object must say and does not, as in `must specify ...`; "" if nothing is missing."""
        return ""

    def usage(self, obj: Any, now: float) -> Amounts:
        """What the object counts for at a moment (Unix seconds). Raises ValueError for malformed quantities."""
        return dict.fromkeys(self.names, ONE)


def evaluator_for(kind: Kind) -> Evaluator:
    """The evaluator of a namespaced kind."""
    from bayplan.api.quota.claims import ClaimEvaluator
    from bayplan.api.quota.devices import DeviceClaimEvaluator
    from bayplan.api.quota.pods import PodEvaluator
    from bayplan.api.quota.services import ServiceEvaluator

    special = {
        ("", "pods"): PodEvaluator,
        ("", "services"): ServiceEvaluator,
        ("", "persistentvolumeclaims"): ClaimEvaluator,
        ("resource.k8s.io", "resourceclaims"): DeviceClaimEvaluator,
    }.get((kind.group, kind.plural), Evaluator)
    return special(kind)
