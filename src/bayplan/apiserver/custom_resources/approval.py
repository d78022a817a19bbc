"""Whether definitions in groups of the Kubernetes project are approved: the condition `KubernetesAPIApprovalPolicyConformant`.

Source of the behaviour: Kubernetes' `apiextensions-apiserver/pkg/controller/apiapproval`.
"""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from bayplan.api.validation.custom_resource_definitions.names import Approval, approval, needs_approval
from bayplan.apiserver.bootstrap.publishing import own_call
from bayplan.apiserver.custom_resources.definitions import (
    Condition,
    Definition,
    DefinitionRule,
    condition,
    with_conditions,
)
from bayplan.apiserver.verbs.update import modify
from bayplan.support.timestamps import rfc3339

CONFORMANT = "KubernetesAPIApprovalPolicyConformant"


class CustomResourceApproval(DefinitionRule):
    """Definitions in these groups say what their annotation means."""

    async def settle(self) -> None:
        """Correct the conditions that say something else. Raises ApiError."""
        now = rfc3339(self.context.clock.now())
        for definition in list(self.definitions()):
            wanted = conformance(definition, now)
            if wanted is not None and not _says(condition(definition, CONFORMANT), wanted):
                call = own_call(self.context, self.kind, "", definition.metadata.name)
                await modify(call, partial(_with_condition, wanted), subresource="status", fresh=False)


def conformance(definition: Definition, now: str) -> Condition | None:
    """The condition of a definition, None in other groups. now: RFC 3339."""
    if not needs_approval(definition.spec.group):
        return None
    state, message = approval(definition.metadata.annotations)
    status = "True" if state is Approval.APPROVED else "False"
    return Condition(type=CONFORMANT, status=status, last_transition_time=now, reason=state.value, message=message)


def _says(found: Condition | None, wanted: Condition) -> bool:
    return found is not None and (found.status, found.reason, found.message) == (
        wanted.status,
        wanted.reason,
        wanted.message,
    )


def _with_condition(wanted: Condition, definition: Definition) -> Definition:
    conditions = with_conditions(definition.status.conditions, replace(wanted))
    status = replace(definition.status, conditions=conditions)
    return replace(definition, metadata=replace(definition.metadata), status=status)
