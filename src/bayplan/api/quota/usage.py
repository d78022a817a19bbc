"""What the objects of a namespace use of a quota, counted from nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from bayplan.api.quantity import Quantity
from bayplan.api.quota.amounts import Amounts, add, masked
from bayplan.api.quota.evaluators import Evaluator
from bayplan.api.types import core_v1


def usage(quota: core_v1.ResourceQuota, counted: Iterable[tuple[Evaluator, Iterable[Any]]], now: float) -> Amounts:
    """What the objects of a namespace use of a quota that limits what its spec says, zeros included."""
    seen = msgspec.structs.replace(quota, status=core_v1.ResourceQuotaStatus(hard=quota.spec.hard))
    total: Amounts = dict.fromkeys(quota.spec.hard, Quantity(0))
    for evaluator, objects in counted:
        if not evaluator.matching(quota.spec.hard):
            continue
        for obj in objects:
            if evaluator.matches(seen, obj):
                total = add(total, masked(evaluator.usage(obj, now), quota.spec.hard))
    return total
