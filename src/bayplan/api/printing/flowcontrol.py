"""How flow schemas and priority levels look in tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bayplan.api.printing.base import NONE, object_age, printers
from bayplan.api.types import flowcontrol_v1


def _flow_schema(obj: flowcontrol_v1.FlowSchema, now: float) -> list[Any]:
    spec = obj.spec
    return [
        obj.metadata.name,
        spec.priority_level_configuration.name,
        spec.matching_precedence,
        NONE if spec.distinguisher_method is None else spec.distinguisher_method.type,
        object_age(obj, now),
        next((condition.status for condition in obj.status.conditions if condition.type == "Dangling"), "?"),
    ]


def _priority_level(obj: flowcontrol_v1.PriorityLevelConfiguration, now: float) -> list[Any]:
    shares: Any = NONE
    queues: list[Any] = [NONE, NONE, NONE]
    limited = obj.spec.limited
    if limited is not None:
        shares = limited.nominal_concurrency_shares
        queuing = limited.limit_response.queuing
        if queuing is not None:
            queues = [queuing.queues, queuing.hand_size, queuing.queue_length_limit]
    return [obj.metadata.name, obj.spec.type, shares, *queues, object_age(obj, now)]


def _matching_order(obj: flowcontrol_v1.FlowSchema) -> tuple[int, str]:
    return obj.spec.matching_precedence, obj.metadata.name


PRINTERS = printers("flowcontrol", {"FlowSchema": _flow_schema, "PriorityLevelConfiguration": _priority_level})
PRINTERS["FlowSchema"] = replace(PRINTERS["FlowSchema"], order=_matching_order)
