"""Persistent volume claims."""

from __future__ import annotations

import msgspec

from bayplan.api import quantity
from bayplan.api.defaults.quantities import canonical_list
from bayplan.api.defaults.volumes import default_claim_spec
from bayplan.api.errors import FieldError, forbidden, invalid, required, unsupported
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import core_v1
from bayplan.api.validation.devices.claims import check_claim_spec, claim_spec_warnings
from bayplan.api.validation.differences import difference
from bayplan.api.validation.fields import check_unchanged
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.resources import is_native
from bayplan.api.validation.values import formats

_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_IMMUTABLE = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
_replace = msgspec.structs.replace


class PersistentVolumeClaimStrategy(Strategy):
    """Rules of persistent volume claims. `dataSource` and `dataSourceRef` say the same where they can."""

    update_checks = UpdateChecks(whole=1, change_first=True)
    has_status = True
    returns_object_on_delete = True

    def default(self, obj: core_v1.PersistentVolumeClaim) -> None:
        default_claim_spec(obj.spec)
        status = obj.status
        status.phase = status.phase or "Pending"
        canonical_list(status.capacity)
        canonical_list(status.allocated_resources)

    def prepare_create(self, obj: core_v1.PersistentVolumeClaim) -> None:
        obj.status = core_v1.PersistentVolumeClaimStatus(phase="Pending")
        _drop_sources(obj.spec)
        _pair_sources(obj.spec)

    def prepare_update(self, obj: core_v1.PersistentVolumeClaim, old: core_v1.PersistentVolumeClaim) -> None:
        obj.status = old.status
        if old.spec.data_source is None and old.spec.data_source_ref is None:
            _drop_sources(obj.spec)
        _pair_sources(obj.spec)

    def validate(self, obj: core_v1.PersistentVolumeClaim) -> list[FieldError]:
        errors: list[FieldError] = []
        check_claim_spec(errors, "spec", obj.spec)
        return errors

    def validate_update(
        self, obj: core_v1.PersistentVolumeClaim, old: core_v1.PersistentVolumeClaim
    ) -> list[FieldError]:
        errors: list[FieldError] = []
        annotation, former_annotation = (one.metadata.annotations.get(_BETA_CLASS, "") for one in (obj, old))
        if annotation != former_annotation and not _takes_class_from_annotation(obj, old):
            errors.append(invalid(f"metadata.annotations.{_BETA_CLASS}", annotation, "field is immutable"))
        new, before = _comparable(obj, old), old.spec
        if not before.volume_name:
            before = _replace(before, volume_name=new.volume_name)
        if new != before:
            errors.append(forbidden("spec", f"{_IMMUTABLE}\n{difference(before, new)}"))
        self._check_size(errors, obj, old)
        check_unchanged(errors, "volumeMode", obj.spec.volume_mode, old.spec.volume_mode)
        name, former = obj.spec.volume_attributes_class_name, old.spec.volume_attributes_class_name
        if old.status.current_volume_attributes_class_name is not None and former != name and not name:
            target = "nil" if name is None else "empty string"
            text = f"update to {target} is forbidden when status.currentVolumeAttributesClassName is not nil"
            errors.append(forbidden("spec.volumeAttributesClassName", text))
        return errors

    def _check_size(
        self, errors: list[FieldError], obj: core_v1.PersistentVolumeClaim, old: core_v1.PersistentVolumeClaim
    ) -> None:
        size, former = (quantity.parse(one.spec.resources.requests.get("storage", "0")) for one in (obj, old))
        if size < former:
            granted = quantity.parse(old.status.capacity.get("storage", "0"))
            if size <= granted:
                errors.append(
                    forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
                )

    def validate_status_update(
        self, obj: core_v1.PersistentVolumeClaim, old: core_v1.PersistentVolumeClaim
    ) -> list[FieldError]:
        errors: list[FieldError] = []
        if not obj.metadata.resource_version:
            errors.append(required("resourceVersion"))
        if not obj.spec.access_modes:
            errors.append(required("Spec.accessModes"))
        status = obj.status
        for name, value in sorted(status.capacity.items()):
            _check_amount(errors, f"status.capacity[{name}]", value)
        for name, progress in sorted(status.allocated_resource_statuses.items()):
            where = "status.allocatedResourceStatuses"
            _check_resource_key(errors, where, name)
            if progress not in _RESIZE_STATUSES:
                errors.append(unsupported(where, name, _RESIZE_STATUSES))
        for name, value in sorted(status.allocated_resources.items()):
            if _check_resource_key(errors, "status.allocatedResources", name):
                _check_amount(errors, f"status.allocatedResources[{name}]", value)
        return errors

    def warnings(self, obj: core_v1.PersistentVolumeClaim, old: core_v1.PersistentVolumeClaim | None) -> list[str]:
        found = []
        if _BETA_CLASS in obj.metadata.annotations:
            found.append(
                f'metadata.annotations[{_BETA_CLASS}]: deprecated since v1.8; use "storageClassName" attribute instead'
            )
        return found + claim_spec_warnings("spec", obj.spec)


_RESIZE_STATUSES = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)


def _check_amount(errors: list[FieldError], path: str, value: str | int | float) -> None:
    parsed = quantity.parse(value)
    if parsed.value() < 0:
        errors.append(invalid(path, parsed.value(), "must be a valid resource quantity"))


def _check_resource_key(errors: list[FieldError], path: str, name: str) -> bool:
    """A resource that a claim can have: storage, or one of somebody else. Returns whether it is right."""
    messages = formats.label_key(name)
    errors.extend(invalid(path, name, message) for message in messages)
    if not messages and is_native(name) and name != "storage":
        errors.append(unsupported(path, name, ("storage",)))
        return False
    return not messages


_SOURCES = (("PersistentVolumeClaim", ""), ("VolumeSnapshot", "snapshot.storage.k8s.io"))


def _drop_sources(spec: core_v1.PersistentVolumeClaimSpec) -> None:
    """Forget sources that a claim without one cannot get: in other namespaces (off by default), and of unknown kinds where only `dataSource` names one."""
    source, reference = spec.data_source, spec.data_source_ref
    if reference is not None and reference.namespace:
        spec.data_source_ref = reference = None
    if reference is None and source is not None and (source.kind, source.api_group or "") not in _SOURCES:
        spec.data_source = None


def _pair_sources(spec: core_v1.PersistentVolumeClaimSpec) -> None:
    source, reference = spec.data_source, spec.data_source_ref
    if source is not None and reference is None:
        spec.data_source_ref = core_v1.TypedObjectReference(
            api_group=source.api_group, kind=source.kind, name=source.name
        )
    elif reference is not None and source is None and not reference.namespace:
        spec.data_source = core_v1.TypedLocalObjectReference(
            api_group=reference.api_group, kind=reference.kind, name=reference.name
        )


def _takes_class_from_annotation(obj: core_v1.PersistentVolumeClaim, old: core_v1.PersistentVolumeClaim) -> bool:
    """Whether the claim gets as its class, for the first time, what its annotation said."""
    named, annotations = old.metadata.annotations.get(_BETA_CLASS), obj.metadata.annotations
    return (
        named is not None
        and old.spec.storage_class_name is None
        and obj.spec.storage_class_name == named
        and annotations.get(_BETA_CLASS, named) == named
    )


def _comparable(
    obj: core_v1.PersistentVolumeClaim, old: core_v1.PersistentVolumeClaim
) -> core_v1.PersistentVolumeClaimSpec:
    """The new spec with the old values of what may change."""
    new, before = obj.spec, old.spec
    changes: dict[str, object] = {}
    named = old.metadata.annotations.get(_BETA_CLASS, new.storage_class_name)
    if before.storage_class_name is None and new.storage_class_name == named:
        changes["storage_class_name"] = None
    if old.status.phase == "Bound":
        storage = before.resources.requests.get("storage")
        if storage is not None:
            changes["resources"] = _replace(new.resources, requests=new.resources.requests | {"storage": storage})
        changes["volume_attributes_class_name"] = before.volume_attributes_class_name
    return _replace(new, **changes) if changes else new


STRATEGY = PersistentVolumeClaimStrategy()
