"""Publishing priority levels and flow schemas; the specs of mandatory ones, and of those whose annotation says so, are brought up to date."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import msgspec

from bayplan.api.types import flowcontrol_v1, meta_v1
from bayplan.apiserver.bootstrap.flow_control_table import (
    AUTO_UPDATE,
    MANDATORY,
    dangling,
    flow_schemas,
    priority_levels,
)
from bayplan.apiserver.bootstrap.publishing import change, ensure, kind_of, remove
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
    """Create or correct all of them: the levels before the schemas that name them; and remove what earlier releases published. Raises ApiError."""
    levels, schemas = priority_levels(), flow_schemas()
    await asyncio.gather(*(_publish(context, level) for level in levels))
    await asyncio.gather(*(_publish(context, schema) for schema in schemas))
    for kind, wanted in (("FlowSchema", schemas), ("PriorityLevelConfiguration", levels)):
        await _remove_unwanted(context, kind, {one.metadata.name for one in wanted})


async def _publish(context: Context, obj: Any) -> None:
    kind, name, spec = type(obj).__name__, obj.metadata.name, obj.spec
    created = await ensure(context, obj, API_VERSION, PRODUCER)
    if created and isinstance(obj, flowcontrol_v1.FlowSchema):
        level, now = obj.spec.priority_level_configuration.name, rfc3339(context.clock.now())
        await change(context, API_VERSION, kind, "", name, lambda schema: _settled(schema, level, now), track=False)
    if created:
        return
    cache = context.objects.cache(kind_of(context, API_VERSION, kind))
    entry = cache.get("", name)
    revision = Revision.of(cache.shared(entry), spec) if entry is not None else None
    if revision is not None and revision.is_needed:
        await change(context, API_VERSION, kind, "", name, revision.apply, plain=False, manager=PRODUCER)


class Revision(NamedTuple):
    """What is to be changed of an object that every cluster has. Pure.

    Source: Kubernetes' `registry/flowcontrol/ensurer/strategy.go`.
    """

    annotation: str
    """What the annotation should say, whether the server keeps the spec; "" if it says so."""
    spec: Any
    """The spec that it should have; None if it has that, or a user's that is not to be touched."""

    @classmethod
    def of(cls, current: Any, spec: Any) -> Revision:
        """spec: the one that the server publishes. An object without a valid annotation is the server's if its spec was never changed; mandatory ones always are."""
        said = _parse_bool(current.metadata.annotations.get(AUTO_UPDATE, ""))
        is_kept = current.metadata.name in MANDATORY or (current.metadata.generation == 1 if said is None else said)
        is_stale = is_kept and not _equals(current, spec)
        annotation = "" if said is is_kept else "true" if is_kept else "false"
        return cls(annotation, spec if is_stale else None)

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to change."""
        return bool(self.annotation) or self.spec is not None

    def apply(self, current: Any) -> Any:
        """Change an object."""
        if self.spec is not None:
            current.spec = self.spec
        if self.annotation:
            current.metadata.annotations = {**current.metadata.annotations, AUTO_UPDATE: self.annotation}
        return current


def _equals(current: Any, spec: Any) -> bool:
    """Whether an object has a spec. What users give the level `exempt` is theirs."""
    if current.metadata.name == "exempt" and isinstance(spec, flowcontrol_v1.PriorityLevelConfigurationSpec):
        if current.spec.exempt is None:
            return False
        spec = msgspec.structs.replace(spec, exempt=current.spec.exempt)
    return bool(current.spec == spec)


def _parse_bool(text: str) -> bool | None:
    """What Go's ParseBool makes of a text; None for an error."""
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    return False if text in ("0", "f", "F", "FALSE", "false", "False") else None


async def _remove_unwanted(context: Context, kind_name: str, wanted: set[str]) -> None:
    """Remove objects that say that the server keeps them, and that it does not know. Raises ApiError."""
    kind = kind_of(context, API_VERSION, kind_name)
    cache = context.objects.cache(kind)
    for entry in list(cache.ordered()):
        if entry.name not in wanted:
            annotations = cache.shared(entry).metadata.annotations
            if _parse_bool(annotations.get(AUTO_UPDATE, "")):
                await remove(context, kind, entry)


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
