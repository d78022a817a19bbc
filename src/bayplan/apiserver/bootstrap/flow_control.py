"""Publishing priority levels and flow schemas; the specs of those whose annotation says so are brought up to date."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from bayplan.api.types import flowcontrol_v1, meta_v1
from bayplan.apiserver.bootstrap.flow_control_table import AUTO_UPDATE, dangling, flow_schemas, priority_levels
from bayplan.apiserver.bootstrap.publishing import change, ensure, kind_of
from bayplan.apiserver.context import Context
from bayplan.support.timestamps import rfc3339

API_VERSION = "flowcontrol.apiserver.k8s.io/v1"
PRODUCER = "api-priority-and-fairness-config-producer-v1"
"""Manager of the specs."""
CONSUMER = "api-priority-and-fairness-config-consumer-v1"
"""Manager of the condition."""
_CONDITION_FIELDS = (
    b'{"f:status":{"f:conditions":{"k:{\\"type\\":\\"Dangling\\"}":{".":{},"f:lastTransitionTime":{},"f:message":{},"f:reason":{},'
    b'"f:status":{},"f:type":{}}}}}'
)


async def publish_flow_control(context: Context) -> None:
    """Create or correct all of them: the levels before the schemas that name them. Raises ApiError."""
    await asyncio.gather(*(_publish(context, level) for level in priority_levels()))
    await asyncio.gather(*(_publish(context, schema) for schema in flow_schemas()))


async def _publish(context: Context, obj: Any) -> None:
    kind, name, spec = type(obj).__name__, obj.metadata.name, obj.spec
    created = await ensure(context, obj, API_VERSION, PRODUCER)
    if created and isinstance(obj, flowcontrol_v1.FlowSchema):
        level, now = obj.spec.priority_level_configuration.name, rfc3339(context.clock.now())
        await change(context, API_VERSION, kind, "", name, lambda schema: _settled(schema, level, now), track=False)
    elif not created and _is_stale(context, kind, name, spec):
        await change(
            context,
            API_VERSION,
            kind,
            "",
            name,
            lambda current: _with(current, "spec", spec),
            plain=False,
            manager=PRODUCER,
        )


def _settled(schema: flowcontrol_v1.FlowSchema, level: str, now: str) -> flowcontrol_v1.FlowSchema:
    """A new schema with the condition that its level exists, and the manager that applied it."""
    schema.status = flowcontrol_v1.FlowSchemaStatus(conditions=(dangling(level, now, exists=True),))
    entry = meta_v1.ManagedFieldsEntry(
        manager=CONSUMER,
        operation="Apply",
        api_version=API_VERSION,
        time=now,
        fields_type="FieldsV1",
        fields_v1=msgspec.Raw(_CONDITION_FIELDS),
        subresource="status",
    )
    schema.metadata.managed_fields = (entry, *schema.metadata.managed_fields)
    return schema


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
