"""What was wrong with a definition before a change, and may therefore stay so.

Source: `ValidateCustomResourceDefinitionUpdate` in `apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`.
"""

from __future__ import annotations

from bayplan.api.schema import Schema
from bayplan.api.types import apiextensions_v1 as types
from bayplan.api.validation.custom_resource_definitions.columns import MOST_SELECTABLE_FIELDS
from bayplan.api.validation.custom_resource_definitions.conversion import has_wrong_certificates, speaks_known_version
from bayplan.api.validation.custom_resource_definitions.defaults import has_unpruned_defaults
from bayplan.api.validation.custom_resource_definitions.form import Form, form_of, is_established, within
from bayplan.api.validation.custom_resource_definitions.lists import LIST_TYPE, key_errors, set_errors
from bayplan.api.validation.custom_resource_definitions.options import Options
from bayplan.api.validation.custom_resource_definitions.schemas import PROPERTY_TYPES
from bayplan.api.validation.custom_resource_definitions.structural import is_structural


def options_for_update(new: Form, old: types.CustomResourceDefinition) -> Options:
    """What is asked of a changed definition."""
    before = form_of(old.spec)
    schemas = list(before.schemas())
    inside = [one for schema in schemas for one in within(schema)]
    webhook = None if old.spec.conversion is None else old.spec.conversion.webhook
    versions = () if webhook is None else webhook.conversion_review_versions
    return Options(
        needs_known_review_version=not versions or speaks_known_version(versions),
        needs_schemas=before.top.schema is not None or all(one.schema is not None for one in before.versions),
        needs_valid_types=all(one.get("type", "") in ("", *PROPERTY_TYPES) for one in inside),
        needs_structural=all(map(is_structural, schemas)),
        needs_pruned_defaults=not any(is_structural(one) and has_unpruned_defaults(one) for one in schemas),
        needs_atomic_sets=not any(map(_has_set_of_others, inside)),
        needs_usable_keys=not any(True for one in inside for _ in key_errors(one, "")),
        checks_certificates=is_established(old) and not has_wrong_certificates(old.spec.conversion),
        keeps_names=is_established(old),
        crowded=_crowded(new, before),
        unchanged=_unchanged(new.spec, old.spec),
    )


def _has_set_of_others(schema: Schema) -> bool:
    items = schema.get("items")
    return schema.get(LIST_TYPE) == "set" and isinstance(items, dict) and any(True for _ in set_errors(items, ""))


def _crowded(new: Form, old: Form) -> frozenset[str]:
    """Versions that have too many selectable fields and keep them."""
    found = set()
    if len(old.top.selectable) > MOST_SELECTABLE_FIELDS and new.top.selectable == old.top.selectable:
        found.add("")
    before = {one.name: part.selectable for one, part in zip(old.spec.versions, old.versions, strict=True)}
    for one, part in zip(new.spec.versions, new.versions, strict=True):
        fields = before.get(one.name, ())
        if len(fields) > MOST_SELECTABLE_FIELDS and part.selectable == fields:
            found.add(one.name)
    return frozenset(found)


def _unchanged(new: types.CustomResourceDefinitionSpec, old: types.CustomResourceDefinitionSpec) -> frozenset[str]:
    """Versions whose schemas are as they were."""
    before = {one.name: one.schema for one in old.versions}
    return frozenset(one.name for one in new.versions if one.name in before and one.schema == before[one.name])
