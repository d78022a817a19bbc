"""The condition `Dangling` of flow schemas: whether the priority level that they name is missing.

Source: Kubernetes' `apiserver/pkg/util/flowcontrol/apf_controller.go`, which applies the condition under a manager of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api.codec import encode
from bayplan.api.kinds import Kind
from bayplan.api.types import flowcontrol_v1
from bayplan.apiserver.bootstrap.flow_control import CONSUMER
from bayplan.apiserver.bootstrap.flow_control_table import dangling
from bayplan.apiserver.bootstrap.publishing import LOOPBACK, kind_of
from bayplan.apiserver.context import Call, Context
from bayplan.apiserver.reads.watching import Selection
from bayplan.apiserver.requests import Request, ResourcePath
from bayplan.apiserver.verbs import patch
from bayplan.support.timestamps import rfc3339

_API_VERSION = "flowcontrol.apiserver.k8s.io/v1"


class DanglingFlowSchemas:
    """Every flow schema says whether its priority level exists."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._schemas = kind_of(context, _API_VERSION, "FlowSchema")
        self._levels = kind_of(context, _API_VERSION, "PriorityLevelConfiguration")

    def inputs(self) -> Sequence[tuple[Kind, Selection | None]]:
        """Schemas and levels."""
        return ((self._schemas, None), (self._levels, None))

    async def settle(self) -> None:
        """Correct the conditions that say something else. Raises ApiError."""
        objects = self.context.objects
        schemas, levels = objects.cache(self._schemas), objects.cache(self._levels)
        now = rfc3339(self.context.clock.now())
        for entry in list(schemas.all()):
            schema = schemas.shared(entry)
            level = schema.spec.priority_level_configuration.name
            wanted = dangling(level, now, exists=levels.get("", level) is not None)
            if schema.metadata.deletion_timestamp is None and not _says(schema, wanted):
                await self._apply(entry.name, entry.uid, wanted)

    async def _apply(self, name: str, uid: str, wanted: flowcontrol_v1.FlowSchemaCondition) -> None:
        intent = {
            "apiVersion": _API_VERSION,
            "kind": self._schemas.kind,
            "metadata": {"name": name, "uid": uid},
            "status": {"conditions": [wanted]},
        }
        status = next(one for one in self._schemas.subresources if one.name == "status")
        request = Request(
            "PATCH",
            f"{self._schemas.path('', name)}/status",
            {"fieldManager": CONSUMER, "force": "true"},
            LOOPBACK,
            body=encode(intent),
            content_type="application/apply-patch+yaml",
        )
        await patch.patch(Call.of(self.context, request, ResourcePath(self._schemas, "", name, status)))


def _says(schema: flowcontrol_v1.FlowSchema, wanted: flowcontrol_v1.FlowSchemaCondition) -> bool:
    return any(
        (one.type, one.status, one.reason, one.message) == (wanted.type, wanted.status, wanted.reason, wanted.message)
        for one in schema.status.conditions
    )
