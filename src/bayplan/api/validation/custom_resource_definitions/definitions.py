"""Rules of CustomResourceDefinitions as wholes; what is said about parts of them is in the modules `custom_resource_definitions_*`.

Source: `apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`.
"""

from __future__ import annotations

import unicodedata
from dataclasses import replace

from bayplan.api.custom_resources.pruning import EMBEDDED, PRESERVE, RULES
from bayplan.api.errors import FieldError, invalid, required
from bayplan.api.schema import Schema
from bayplan.api.types import apiextensions_v1 as types
from bayplan.api.validation.custom_resource_definitions import names
from bayplan.api.validation.custom_resource_definitions.columns import (
    check_columns,
    check_selectable_fields,
    check_subresources,
)
from bayplan.api.validation.custom_resource_definitions.conversion import check_conversion
from bayplan.api.validation.custom_resource_definitions.form import NOTHING, Form, Part, form_of, within
from bayplan.api.validation.custom_resource_definitions.lists import LIST_KEYS, LIST_TYPE
from bayplan.api.validation.custom_resource_definitions.options import Options
from bayplan.api.validation.custom_resource_definitions.ratcheting import options_for_update
from bayplan.api.validation.custom_resource_definitions.schemas import check_schema
from bayplan.api.validation.custom_resource_definitions.shown import shown_versions
from bayplan.api.validation.custom_resource_definitions.structural import INT_OR_STRING, conversion_problem
from bayplan.api.validation.fields import Errors, check_one_of, check_unchanged

_EXTENSIONS = (EMBEDDED, PRESERVE, INT_OR_STRING, LIST_KEYS, LIST_TYPE, RULES)
_KEEPS_ALL = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
_LONGEST_WARNING = 256


def validate_definition(definition: types.CustomResourceDefinition) -> list[FieldError]:
    """What is wrong with a new definition."""
    errors: Errors = []
    _check_spec(errors, form_of(definition.spec), Options())
    _check_whole(errors, definition, None)
    return errors


def validate_definition_update(
    new: types.CustomResourceDefinition, old: types.CustomResourceDefinition
) -> list[FieldError]:
    """What is wrong with a changed definition."""
    errors: Errors = []
    form = form_of(new.spec)
    options = options_for_update(form, old)
    _check_spec(errors, form, options)
    if options.keeps_names:
        check_unchanged(errors, "spec.scope", new.spec.scope, old.spec.scope)
        check_unchanged(errors, "spec.names.kind", new.spec.names.kind, old.spec.names.kind)
    check_unchanged(errors, "spec.group", new.spec.group, old.spec.group)
    check_unchanged(errors, "spec.names.plural", new.spec.names.plural, old.spec.names.plural)
    _check_whole(errors, new, old)
    return errors


def validate_definition_status(definition: types.CustomResourceDefinition) -> list[FieldError]:
    """What is wrong with the status of a definition."""
    errors: Errors = []
    names.check_names(errors, "status.acceptedNames", definition.status.accepted_names)
    return errors


def _check_whole(
    errors: Errors, definition: types.CustomResourceDefinition, old: types.CustomResourceDefinition | None
) -> None:
    """What concerns more than the spec."""
    errors.extend(validate_definition_status(definition))
    names.check_stored_versions(errors, definition)
    names.check_approval(errors, definition, old)
    if definition.spec.preserve_unknown_fields and (old is None or not old.spec.preserve_unknown_fields):
        errors.append(invalid("spec.preserveUnknownFields", True, _KEEPS_ALL))


def _check_spec(errors: Errors, form: Form, options: Options) -> None:
    spec = form.spec
    names.check_group(errors, spec.group)
    check_one_of(errors, "spec.scope", spec.scope, ("Cluster", "Namespaced"))
    _check_schemas_given(errors, form, options)
    inside = [one for schema in form.schemas() for one in within(schema)]
    if spec.preserve_unknown_fields and any(one.get("default") is not None for one in inside):
        errors.append(
            invalid("spec.preserveUnknownFields", True, "must be false in order to use defaults in the schema")
        )
    if not spec.preserve_unknown_fields or any(_needs_structure(one) for one in inside):
        options = replace(options, needs_structural=True)
    _check_versions(errors, form, options)
    names.check_wanted_names(errors, spec.names)
    if form.top.schema is not None:
        has_status = any(_has_status(one) for one in (form.top, *form.versions))
        check_schema(
            errors,
            "spec.validation.openAPIV3Schema",
            form.top.schema,
            options,
            has_status=has_status,
            is_unchanged=spec.versions[0].name in options.unchanged,
        )
    _check_part(errors, "spec", form.top)
    _check_common_selectable_fields(errors, form.top, options)
    conversion = spec.conversion
    if conversion is not None and conversion.strategy != "None" and spec.preserve_unknown_fields:
        text = "must be None if spec.preserveUnknownFields is true"
        errors.append(invalid("spec.conversion.strategy", conversion.strategy, text))
    check_conversion(
        errors,
        conversion,
        needs_known_version=options.needs_known_review_version,
        checks_certificates=options.checks_certificates,
    )


def _needs_structure(schema: Schema) -> bool:
    """Whether a schema has what only structural schemas may have."""
    return schema.get("default") is not None or any(name in schema for name in _EXTENSIONS)


def _has_status(part: Part) -> bool:
    return part.subresources is not None and part.subresources.status is not None


def _check_schemas_given(errors: Errors, form: Form, options: Options) -> None:
    """Every version has a schema; of old definitions without them, versions that are served and pruned."""
    if form.top.schema is not None:
        return
    for index, (version, part) in enumerate(zip(form.spec.versions, form.versions, strict=True)):
        path = f"spec.versions[{index}].schema.openAPIV3Schema"
        if part.schema is not None:
            continue
        if options.needs_schemas:
            errors.append(required(path))
        elif version.served and not form.spec.preserve_unknown_fields:
            errors.append(required(path, "because otherwise all fields are pruned"))


def _check_versions(errors: Errors, form: Form, options: Options) -> None:
    spec = form.spec
    for index, (version, part) in enumerate(zip(spec.versions, form.versions, strict=True)):
        path = f"spec.versions[{index}]"
        names.check_version_name(errors, f"{path}.name", version.name)
        _check_deprecation(errors, f"{path}.deprecationWarning", version)
        subresources = form.subresources_of(version.name)
        if part.schema is not None:
            has_status = subresources is not None and subresources.status is not None
            check_schema(
                errors,
                f"{path}.schema.openAPIV3Schema",
                part.schema,
                options,
                has_status=has_status,
                is_unchanged=version.name in options.unchanged,
            )
        _check_part(errors, path, part)
        _check_own_selectable_fields(errors, path, version.name, part, options)
    if len({one.name for one in spec.versions}) < len(spec.versions):
        errors.append(invalid("spec.versions", shown_versions(form), "must contain unique version names"))
    if sum(one.storage for one in spec.versions) != 1:
        text = "must have exactly one version marked as storage version"
        errors.append(invalid("spec.versions", shown_versions(form), text))
    if spec.versions and spec.versions[0].name:
        names.check_version_name(errors, "spec.version", spec.versions[0].name)


def _check_part(errors: Errors, path: str, part: Part) -> None:
    check_subresources(errors, path, part.subresources)
    check_columns(errors, path, part.columns)


def _check_own_selectable_fields(errors: Errors, path: str, name: str, part: Part, options: Options) -> None:
    """Selectable fields that differ between versions need schemas that do, too: a schema that all share is not asked."""
    if not part.selectable:
        return
    if part.schema is None:
        text = "may only be set when `version.schema.openAPIV3Schema` is not included"
        errors.append(invalid(f"{path}.selectableFields", "", text))
        return
    _check_selectable_fields(errors, path, part, is_crowded=name in options.crowded)


def _check_common_selectable_fields(errors: Errors, top: Part, options: Options) -> None:
    """Selectable fields that all versions have in common need a schema that they have in common."""
    if not top.selectable:
        return
    if not top.has_validation:
        errors.append(invalid("spec.selectableFields", "", "may only be set when validations.schema is included"))
        return
    _check_selectable_fields(errors, "spec", top, is_crowded="" in options.crowded)


def _check_selectable_fields(errors: Errors, path: str, part: Part, *, is_crowded: bool) -> None:
    schema = part.schema or NOTHING
    if problem := conversion_problem(schema):
        errors.append(invalid(f"{path}.schema.openAPIV3Schema", "", problem))
        return
    check_selectable_fields(errors, f"{path}.selectableFields", part.selectable, schema, may_be_too_many=is_crowded)


def _check_deprecation(errors: Errors, path: str, version: types.CustomResourceDefinitionVersion) -> None:
    """The text that clients of a deprecated version get."""
    warning = version.deprecation_warning
    if warning is None:
        return
    if not version.deprecated:
        errors.append(invalid(path, warning, "can only be set for deprecated versions"))
        return
    if len(warning.encode()) > _LONGEST_WARNING:
        errors.append(invalid(path, warning, f"must be <= {_LONGEST_WARNING} characters long"))
    if not warning:
        errors.append(invalid(path, warning, "must not be an empty string"))
    for index, character in enumerate(warning):
        if not _is_printable(character):
            offset = len(warning[:index].encode())
            text = f"must only contain printable UTF-8 characters; non-printable character found at index {offset}"
            errors.append(invalid(path, warning, text))
            break


def _is_printable(character: str) -> bool:
    """Whether Go prints a character: letters, marks, numbers, punctuation, symbols and the plain space."""
    return character == " " or unicodedata.category(character)[0] in "LMNPS"
