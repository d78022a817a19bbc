"""Namespaces."""

from __future__ import annotations

from msgspec.structs import replace

from bayplan.api.errors import FieldError, TypedText, invalid
from bayplan.api.managedfields.fieldset import FieldSet, recursive_difference
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import core_v1
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.values import formats

_NAME_LABEL = "kubernetes.io/metadata.name"


class NamespaceStrategy(Strategy):
    """Rules of namespaces. The finalizer `kubernetes` in the spec keeps one until it is empty."""

    has_status = True
    name_is_checked_as = "dns-1123-label"
    selectable_field_names = frozenset(("status.phase",))
    update_checks = UpdateChecks(whole=1)

    def default(self, obj: core_v1.Namespace) -> None:
        if obj.metadata.name and obj.metadata.labels.get(_NAME_LABEL) != obj.metadata.name:
            obj.metadata.labels[_NAME_LABEL] = obj.metadata.name
        if not obj.status.phase:
            obj.status.phase = "Active"

    def prepare_create(self, obj: core_v1.Namespace) -> None:
        obj.status = core_v1.NamespaceStatus(phase="Active")
        if "kubernetes" not in obj.spec.finalizers:
            obj.spec.finalizers += ("kubernetes",)
        self.default(obj)

    def begin_deletion(self, obj: core_v1.Namespace, now: str) -> bool:
        """The first deletion only says that it is terminating: what is in it goes first."""
        obj.status = replace(obj.status, phase="Terminating")
        return True

    def prepare_update(self, obj: core_v1.Namespace, old: core_v1.Namespace) -> None:
        obj.spec = core_v1.NamespaceSpec(finalizers=old.spec.finalizers)
        obj.status = old.status

    def prepare_subresource_update(self, subresource: str, obj: core_v1.Namespace, old: core_v1.Namespace) -> None:
        obj.status = old.status  # `finalize`

    def ownable(self, subresource: str, fields: FieldSet) -> FieldSet:
        """See Strategy; `finalize` writes all but the status."""
        return (
            recursive_difference(fields, self.reset_by_update)
            if subresource == "finalize"
            else super().ownable(subresource, fields)
        )

    def validate(self, obj: core_v1.Namespace) -> list[FieldError]:
        return self._finalizer_errors(obj, "spec.finalizers")

    @staticmethod
    def _finalizer_errors(obj: core_v1.Namespace, place: str) -> list[FieldError]:
        """place: where they are said to be; may have the index in it."""
        errors: list[FieldError] = []
        for index, finalizer in enumerate(obj.spec.finalizers):
            path = place.format(index)
            errors.extend(invalid(path, finalizer, message) for message in formats.label_key(finalizer))
            if "/" not in finalizer and finalizer not in ("kubernetes", "orphan", "foregroundDeletion"):
                text = "name is neither a standard finalizer name nor is it fully qualified"
                errors.append(invalid(path, finalizer, text))
        return errors

    def validate_status_update(self, obj: core_v1.Namespace, old: core_v1.Namespace) -> list[FieldError]:
        phase = TypedText(obj.status.phase)
        if obj.metadata.deletion_timestamp is None:
            if phase != "Active":
                return [invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")]
        elif phase != "Terminating":
            return [invalid("status.Phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")]
        return []

    def validate_subresource_update(
        self, subresource: str, obj: core_v1.Namespace, old: core_v1.Namespace
    ) -> list[FieldError]:
        return self._finalizer_errors(obj, "spec.finalizers[{}]")

    def selectable_fields(self, obj: core_v1.Namespace) -> dict[str, str]:
        return {"status.phase": obj.status.phase}


STRATEGY = NamespaceStrategy()
