"""Publishing priority levels and flow schemas; the specs of those whose annotation says so are brought up to date."""

from __future__ import annotations

import asyncio
from typing import Any

from bayplan.api.types import flowcontrol_v1
from bayplan.apiserver.bootstrap.flow_control_table import AUTO_UPDATE, dangling, flow_schemas, priority_levels
from bayplan.apiserver.bootstrap.publishing import change, ensure, kind_of
from bayplan.apiserver.context import Context
from bayplan.support.timestamps import rfc3339

API_VERSION = "flowcontrol.apiserver.k8s.io/v1"


async def publish_flow_control(context: Context) -> None:
    """Create or correct all of them: the levels before the schemas that name them. Raises ApiError."""
    await asyncio.gather(*(_publish(context, level) for level in priority_levels()))
    await asyncio.gather(*(_publish(context, schema) for schema in flow_schemas()))


async def _publish(context: Context, obj: Any) -> None:
    kind, name, spec = type(obj).__name__, obj.metadata.name, obj.spec
    created = await ensure(context, obj, API_VERSION)
    if created and isinstance(obj, flowcontrol_v1.FlowSchema):
        level = obj.spec.priority_level_configuration.name
        condition = dangling(level, rfc3339(context.clock.now()), exists=True)
        status = flowcontrol_v1.FlowSchemaStatus(conditions=(condition,))
        await change(context, API_VERSION, kind, "", name, lambda schema: _with(schema, "status", status))
    elif not created and _is_stale(context, kind, name, spec):
        await change(context, API_VERSION, kind, "", name, lambda current: _with(current, "spec", spec), plain=False)


def _is_stale(context: Context, kind: str, name: str, spec: Any) -> bool:
    cache = context.objects.cache(kind_of(context, API_VERSION, kind))
    entry = cache.get("", name)
    if entry is None:
        return False
    current = cache.shared(entry)
    return current.metadata.annotations.get(AUTO_UPDATE) == "true" and bool(current.spec != spec)


def _with(obj: Any, name: str, value: Any) -> Any:
    setattr(obj, name, value)
    return obj
