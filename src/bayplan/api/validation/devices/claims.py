"""Rules for the spec of a PersistentVolumeClaim, also inside StatefulSets and ephemeral volumes."""

from __future__ import annotations

from bayplan.api import quantity
from bayplan.api.errors import forbidden, invalid, required, unsupported
from bayplan.api.types import core_v1
from bayplan.api.validation.fields import Errors, check_format, check_label_selector
from bayplan.api.validation.values import formats

_PATH_OBJECT: dict[str, str] = {}
"""What Kubernetes names as the value where sources contradict each other: the path itself, which prints as an empty object."""
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def check_access_modes(errors: Errors, path: str, modes: tuple[str, ...]) -> None:
    """Known modes; the one for a single pod stands alone."""
    for mode in modes:
        if mode not in ACCESS_MODES:
            errors.append(unsupported(path, mode, ACCESS_MODES))
    if "ReadWriteOncePod" in modes and any(mode in ACCESS_MODES and mode != "ReadWriteOncePod" for mode in modes):
        errors.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))


def check_storage_amount(errors: Errors, path: str, value: str | int | float) -> None:
    """An amount of storage above zero."""
    parsed = quantity.parse(value)
    if parsed.sign() <= 0:
        errors.append(invalid(path, str(parsed), "must be greater than zero"))


def check_claim_spec(errors: Errors, path: str, spec: core_v1.PersistentVolumeClaimSpec) -> None:
    """The spec of a claim or a claim template."""
    if not spec.access_modes:
        errors.append(required(f"{path}.accessModes", "at least 1 access mode is required"))
    if spec.selector is not None:
        check_label_selector(errors, f"{path}.selector", spec.selector)
    check_access_modes(errors, f"{path}.accessModes", spec.access_modes)
    storage = spec.resources.requests.get("storage")
    if storage is None:
        errors.append(required(f"{path}.resources[storage]"))
    else:
        check_storage_amount(errors, f"{path}.resources[storage]", storage)
    if spec.storage_class_name:
        check_format(errors, f"{path}.storageClassName", spec.storage_class_name, formats.dns_subdomain)
    if spec.volume_mode not in (None, "Block", "Filesystem"):
        errors.append(unsupported(f"{path}.volumeMode", spec.volume_mode, ("Block", "Filesystem")))
    _check_data_sources(errors, path, spec)
    name = spec.volume_attributes_class_name
    if name:
        check_format(errors, f"{path}.volumeAttributesClassName", name, formats.dns_subdomain)


def claim_spec_warnings(path: str, spec: core_v1.PersistentVolumeClaimSpec) -> list[str]:
    """Warnings about the spec of a claim or claim template: bytes cannot be split."""
    storage = spec.resources.requests.get("storage")
    if storage is None or not quantity.parse(storage).scale:
        return []
    text = f'fractional byte value "{quantity.canonical(storage)}" is invalid, must be an integer'
    return [f"{path}.resources.requests[storage]: {text}"]


def _check_data_sources(errors: Errors, path: str, spec: core_v1.PersistentVolumeClaimSpec) -> None:
    for field, source in (("dataSource", spec.data_source), ("dataSourceRef", spec.data_source_ref)):
        if source is None:
            continue
        where = f"{path}.{field}"
        if not source.name:
            errors.append(required(f"{where}.name"))
        if not source.kind:
            errors.append(required(f"{where}.kind"))
        if not source.api_group and source.kind != "PersistentVolumeClaim":
            errors.append(
                invalid(where, source.kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
            )
        if source.api_group:
            check_format(errors, f"{where}.apiGroup", source.api_group, formats.dns_subdomain)
        if isinstance(source, core_v1.TypedObjectReference) and source.namespace:
            check_format(errors, f"{where}.namespace", source.namespace, formats.dns_label)
    first, second = spec.data_source, spec.data_source_ref
    if first is None or second is None:
        return
    if second.namespace:
        errors.append(invalid(path, _PATH_OBJECT, "may not be specified when dataSourceRef.namespace is specified"))
    elif (first.api_group, first.kind, first.name) != (second.api_group, second.kind, second.name):
        errors.append(invalid(path, _PATH_OBJECT, "must match dataSourceRef"))
