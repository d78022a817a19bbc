"""Taints and tolerations (`spec.taints`, `spec.tolerations`): who tolerates what."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Toleration
    from bayplan.api.types.resource_v1 import DeviceToleration

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"


class TaintKey(NamedTuple):
    """What of a taint matters for scheduling."""

    key: str
    value: str
    effect: str


UNSCHEDULABLE: Final = TaintKey("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)


def tolerates(toleration: Toleration | DeviceToleration, taint: TaintKey) -> bool:
    """Whether one toleration tolerates one taint; empty key, effect and operator are wildcards as in Kubernetes."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def tolerated(tolerations: Iterable[Toleration], taint: TaintKey) -> bool:
    """Whether any toleration tolerates the taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def has_untolerated(tolerations: tuple[Toleration, ...], taints: Iterable[TaintKey]) -> bool:
    """Whether a NoSchedule or NoExecute taint is left that nothing tolerates."""
    return any(taint.effect in (NO_SCHEDULE, NO_EXECUTE) and not tolerated(tolerations, taint) for taint in taints)
