"""Rules for `metadata`, the same for all kinds but for the name.

Source: apimachinery's `api/validation` package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from bayplan.api.errors import FieldError, forbidden, invalid, required, too_long
from bayplan.api.types import meta_v1
from bayplan.api.validation.fields import check_labels, ip_messages
from bayplan.api.validation.values import formats

ANNOTATIONS_LIMIT: Final = 256 * 1024
"""Bytes that all annotations of an object may have together."""
STANDARD_FINALIZERS: Final = frozenset(("kubernetes", "orphan", "foregroundDeletion"))
NAME_RULES: Final[dict[str, Callable[[str], formats.Messages]]] = {
    "dns-1123-subdomain": formats.dns_subdomain,
    "long-name": formats.long_name,
    "dns-1123-label": formats.dns_label,
    "dns-1035-label": formats.dns_1035_label,
    "path-segment": formats.path_segment,
    "whole-path-segment": formats.path_segment,
    "ip-address": ip_messages,
    "config-map-key": formats.config_map_key,
    "storage-version": formats.storage_version_name,
    "any": lambda name: formats.OK,
}
"""What `Strategy.name_is_checked_as` may say."""


def name_messages(name: str, rule: str, *, prefix: bool = False) -> formats.Messages:
    """What is wrong with a name; a prefix for generated names may end with a dash, and consist of dots if only it is a `path-segment`."""
    if prefix and rule == "path-segment" and name in (".", ".."):
        return formats.OK
    if prefix and rule.startswith("dns-") and name.endswith("-"):
        name = name[:-2] + "a"
    return NAME_RULES[rule](name)


def validate_object_meta(
    metadata: meta_v1.ObjectMeta,
    *,
    namespaced: bool,
    name_rule: str,
    standard_finalizers: bool = True,
    generated_names: bool = True,
    name_errors: Sequence[FieldError] = (),
) -> list[FieldError]:
    """What is wrong with the metadata of a new object. `standard_finalizers`: finalizers without a domain must
    be known ones (built-in kinds). `generated_names`: the prefix of a generated name is checked as well as the name.
    `name_errors`: what else is wrong with the name, told after its form."""
    rule = NAME_RULES[name_rule]
    if (
        metadata.name
        and not rule(metadata.name)
        and not metadata.generate_name
        and not metadata.owner_references
        and not metadata.finalizers
        and not metadata.annotations
        and metadata.generation >= 0
        and not name_errors
    ):
        errors: list[FieldError] = []
        _check_namespace(errors, metadata, namespaced)
        for index, entry in enumerate(metadata.managed_fields):
            _check_managed_fields(errors, index, entry)
        if metadata.labels:
            check_labels(errors, "metadata.labels", metadata.labels)
        return errors
    errors = []
    if metadata.generate_name and generated_names:
        for message in name_messages(metadata.generate_name, name_rule, prefix=True):
            errors.append(invalid("metadata.generateName", metadata.generate_name, message))
    if not metadata.name:
        errors.append(required("metadata.name", "name or generateName is required"))
    else:
        errors.extend(invalid("metadata.name", metadata.name, message) for message in rule(metadata.name))
    errors.extend(name_errors)
    _check_namespace(errors, metadata, namespaced)
    if metadata.generation < 0:
        errors.append(invalid("metadata.generation", metadata.generation, "must be greater than or equal to 0"))
    _check_parts(errors, metadata)
    _check_finalizers(errors, metadata, standard=standard_finalizers)
    return errors


def validate_object_meta_update(
    new: meta_v1.ObjectMeta, old: meta_v1.ObjectMeta, *, standard_finalizers: bool = False
) -> list[FieldError]:
    """What is wrong with a change of metadata. `standard_finalizers`: see `validate_object_meta`."""
    errors: list[FieldError] = []
    if old.deletion_timestamp is not None and new.finalizers != old.finalizers:
        extra = sorted(set(new.finalizers) - set(old.finalizers))
        if extra:
            shown = ", ".join(f'"{one}"' for one in extra)
            detail = (
                "no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[]string{{{shown}}}"
            )
            errors.append(forbidden("metadata.finalizers", detail))
    if new.generation < old.generation:
        errors.append(invalid("metadata.generation", new.generation, "must not be decremented"))
    for field, attribute in _IMMUTABLE:
        value = getattr(new, attribute)
        if value != getattr(old, attribute):
            errors.append(invalid(field, value, "field is immutable"))
    if new.labels != old.labels or new.annotations != old.annotations or new.owner_references != old.owner_references:
        _check_parts(errors, new)
    if standard_finalizers and new.finalizers != old.finalizers:
        _check_standard_finalizers(errors, new.finalizers)
    return errors


class UpdateChecks(NamedTuple):
    """How often the rules of a kind look at the metadata of an update, besides those that hold for every kind: Kubernetes lists what they find again."""

    whole: int = 0
    """As `validate_object_meta` does."""
    change: int = 1
    """As `validate_object_meta_update` does."""
    change_first: bool = False
    """Whether what `change` finds is told first."""


def validate_updated_meta(
    new: meta_v1.ObjectMeta,
    old: meta_v1.ObjectMeta,
    checks: UpdateChecks,
    *,
    namespaced: bool,
    name_rule: str,
    standard_finalizers: bool = True,
) -> list[FieldError]:
    """What is wrong with the metadata of an update, as often as Kubernetes says it."""
    general = validate_object_meta(new, namespaced=namespaced, name_rule="path-segment", standard_finalizers=False)
    general += validate_object_meta_update(new, old)
    if not general and new.finalizers == old.finalizers and new.generate_name == old.generate_name:
        return []  # what the kind's own rules say more of names and finalizers they said when these were set
    whole = validate_object_meta(
        new, namespaced=namespaced, name_rule=name_rule, standard_finalizers=standard_finalizers
    )
    change = validate_object_meta_update(new, old, standard_finalizers=standard_finalizers)
    parts = (whole * checks.whole, change * checks.change)
    return [*general, *parts[checks.change_first], *parts[not checks.change_first]]


_IMMUTABLE: Final = (
    ("metadata.name", "name"),
    ("metadata.namespace", "namespace"),
    ("metadata.uid", "uid"),
    ("metadata.creationTimestamp", "creation_timestamp"),
    ("metadata.deletionTimestamp", "deletion_timestamp"),
    ("metadata.deletionGracePeriodSeconds", "deletion_grace_period_seconds"),
)


def _check_namespace(errors: list[FieldError], metadata: meta_v1.ObjectMeta, namespaced: bool) -> None:
    if not namespaced:
        if metadata.namespace:
            errors.append(forbidden("metadata.namespace", "not allowed on this type"))
    elif not metadata.namespace:
        errors.append(required("metadata.namespace"))
    else:
        messages = formats.dns_label(metadata.namespace)
        errors.extend(invalid("metadata.namespace", metadata.namespace, message) for message in messages)


def _check_parts(errors: list[FieldError], metadata: meta_v1.ObjectMeta) -> None:
    if metadata.labels:
        check_labels(errors, "metadata.labels", metadata.labels)
    if metadata.annotations:
        check_annotations(errors, "metadata.annotations", metadata.annotations)
    if metadata.owner_references:
        _check_owner_references(errors, metadata.owner_references)
    for index, entry in enumerate(metadata.managed_fields):
        _check_managed_fields(errors, index, entry)


def check_annotations(errors: list[FieldError], path: str, annotations: dict[str, str]) -> None:
    """Keys are label keys but for their case; all together have a limit."""
    size = 0
    for key, value in annotations.items():
        errors.extend(invalid(path, key, message) for message in formats.label_key(key.lower()))
        size += formats.size(key) + formats.size(value)
    if size > ANNOTATIONS_LIMIT:
        errors.append(too_long(path, ANNOTATIONS_LIMIT))


def check_template_object_meta(errors: list[FieldError], path: str, metadata: meta_v1.ObjectMeta) -> None:
    """Metadata of a template for objects that get their names elsewhere: labels and annotations, and nothing else."""
    check_annotations(errors, f"{path}.annotations", metadata.annotations)
    check_labels(errors, f"{path}.labels", metadata.labels)
    for attribute, field in _NOT_IN_TEMPLATES:
        if getattr(metadata, attribute):
            errors.append(forbidden(f"{path}.{field}", "cannot be set"))


_NOT_IN_TEMPLATES: Final = (
    ("name", "name"),
    ("generate_name", "generateName"),
    ("namespace", "namespace"),
    ("self_link", "selfLink"),
    ("uid", "uID"),
    ("resource_version", "resourceVersion"),
    ("generation", "generation"),
    ("creation_timestamp", "creationTimestamp"),
    ("deletion_timestamp", "deletionTimestamp"),
    ("deletion_grace_period_seconds", "deletionGracePeriodSeconds"),
    ("owner_references", "ownerReferences"),
    ("finalizers", "finalizers"),
    ("managed_fields", "managedFields"),
)


def _check_owner_references(errors: list[FieldError], references: tuple[meta_v1.OwnerReference, ...]) -> None:
    path = "metadata.ownerReferences"
    controller = ""
    for reference in references:
        version = reference.api_version
        if not version.rpartition("/")[2] or version.count("/") > 1:
            errors.append(invalid(f"{path}.apiVersion", version, "version must not be empty"))
        for field, value in (("kind", reference.kind), ("name", reference.name), ("uid", reference.uid)):
            if not value:
                errors.append(invalid(f"{path}.{field}", value, "must not be empty"))
        if version == "v1" and reference.kind == "Event":
            errors.append(invalid(path, reference, "/v1, Kind=Event is disallowed from being an owner"))
        if reference.controller:
            this = f"{reference.kind}/{reference.name}"
            if controller:
                detail = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {this}"
                )
                errors.append(invalid(path, references, detail))
            else:
                controller = this


def _check_managed_fields(errors: list[FieldError], index: int, entry: meta_v1.ManagedFieldsEntry) -> None:
    path = f"metadata.managedFields[{index}]"
    if entry.operation not in ("Apply", "Update"):
        errors.append(invalid(f"{path}.operation", entry.operation, "must be `Apply` or `Update`"))
    if entry.fields_type not in ("", "FieldsV1"):
        errors.append(invalid(f"{path}.fieldsType", entry.fields_type, "must be `FieldsV1`"))
    check_manager(errors, f"{path}.manager", entry.manager)
    if formats.size(entry.subresource) > 256:
        errors.append(too_long(f"{path}.subresource", 256))


def check_manager(errors: list[FieldError], path: str, manager: str) -> None:
    """The name of a field manager is short and can be printed."""
    if formats.size(manager) > 128:
        errors.append(too_long(path, 128))
    if not manager.isprintable():
        position = 0
        for letter in manager:
            if not letter.isprintable():
                text = f"invalid character U+{ord(letter):04X} (at position {position})"
                errors.append(invalid(path, manager, text))
            position += len(letter.encode())


def _check_finalizers(errors: list[FieldError], metadata: meta_v1.ObjectMeta, *, standard: bool) -> None:
    finalizers = metadata.finalizers
    for finalizer in finalizers:
        messages = formats.label_key(finalizer)
        errors.extend(invalid("metadata.finalizers", finalizer, message) for message in messages)
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        errors.append(
            invalid("metadata.finalizers", finalizers, "finalizer orphan and foregroundDeletion cannot be both set")
        )
    if standard:
        _check_standard_finalizers(errors, finalizers)


def _check_standard_finalizers(errors: list[FieldError], finalizers: tuple[str, ...]) -> None:
    for index, finalizer in enumerate(finalizers):
        if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(invalid(f"metadata.finalizers[{index}]", finalizer, detail))
