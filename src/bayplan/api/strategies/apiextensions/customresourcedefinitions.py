"""CustomResourceDefinitions."""

from __future__ import annotations

import msgspec

from bayplan.api.defaults.custom_resource_definitions import default_definition, stored_version
from bayplan.api.errors import FieldError
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import apiextensions_v1

_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
Definition = apiextensions_v1.CustomResourceDefinition


class CustomResourceDefinitionStrategy(Strategy):
    """Rules of definitions."""

    knows_finalizers = False
    counts_generation = True
    allow_unconditional_update = False
    has_status = True
    tells_every_error = False

    def default(self, obj: Definition) -> None:
        default_definition(obj)

    def prepare_create(self, obj: Definition) -> None:
        stored = stored_version(obj.spec.versions)
        obj.status = apiextensions_v1.CustomResourceDefinitionStatus(stored_versions=stored)

    def prepare_update(self, obj: Definition, old: Definition) -> None:
        known = old.status.stored_versions
        new = tuple(one for one in stored_version(obj.spec.versions) if one not in known)
        obj.status = msgspec.structs.replace(old.status, stored_versions=(*known, *new)) if new else old.status

    # The rules are imported when they are needed: they bring a compiler of expressions along, and every server has this strategy.

    def name_errors(self, obj: Definition) -> list[FieldError]:
        from bayplan.api.validation.custom_resource_definitions.names import object_name_errors

        return object_name_errors(obj)

    def validate_create(self, obj: Definition) -> list[FieldError]:
        from bayplan.api.validation.custom_resource_definitions.definitions import validate_definition

        return validate_definition(obj)

    def validate_update(self, obj: Definition, old: Definition) -> list[FieldError]:
        from bayplan.api.validation.custom_resource_definitions.definitions import validate_definition_update

        return validate_definition_update(obj, old)

    def validate_status_update(self, obj: Definition, old: Definition) -> list[FieldError]:
        from bayplan.api.validation.custom_resource_definitions.definitions import validate_definition_status

        return validate_definition_status(obj)

    def warnings(self, obj: Definition, old: Definition | None) -> list[str]:
        """Formats that nobody checks; an update tells of those that it brings along."""
        from bayplan.api.validation.custom_resource_definitions.formats import unknown_formats

        known = () if old is None else unknown_formats(old.spec)
        return [f'unrecognized format "{one}"' for one in unknown_formats(obj.spec) if one not in known]

    def begin_deletion(self, obj: Definition, now: str) -> bool:
        """Its objects go first, so it stays until that is done."""
        if _CLEANUP not in obj.metadata.finalizers:
            obj.metadata.finalizers = (*obj.metadata.finalizers, _CLEANUP)
        pending = apiextensions_v1.CustomResourceDefinitionCondition(
            type="Terminating",
            status="True",
            last_transition_time=now,
            reason="InstanceDeletionPending",
            message="CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        )
        others = tuple(one for one in obj.status.conditions if one.type != pending.type)
        obj.status = msgspec.structs.replace(obj.status, conditions=(*others, pending))
        return True


STRATEGY = CustomResourceDefinitionStrategy()
