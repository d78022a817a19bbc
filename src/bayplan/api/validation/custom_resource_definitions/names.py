"""Names of definitions: of the group, of resources and kinds, of stored versions, and the approval that Kubernetes' own groups need.

Source: `apiextensions-apiserver/pkg/apis/apiextensions/validation` and `.../pkg/apihelpers`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from urllib.parse import urlsplit

from bayplan.api.errors import invalid, required
from bayplan.api.types import apiextensions_v1 as types
from bayplan.api.validation.fields import Errors, null_if_empty
from bayplan.api.validation.values import formats

APPROVED = "api-approved.kubernetes.io"
"""Annotation of definitions in groups of Kubernetes: a URL of the approval, or a text that begins with `unapproved`."""
_PULL = "see https://github.com/kubernetes/enhancements/pull/1111"
_LEFT = (
    "missing from spec.versions; {0} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted"
    " in {0} and removes {0} from status.storedVersions"
)


def check_group(errors: Errors, group: str) -> None:
    """`spec.group` is a domain."""
    if not group:
        errors.append(required("spec.group"))
    elif messages := formats.dns_subdomain(group):
        errors.append(invalid("spec.group", group, ",".join(messages)))
    elif "." not in group:
        errors.append(invalid("spec.group", group, "should be a domain with at least one dot"))


def object_name_errors(definition: types.CustomResourceDefinition) -> Errors:
    """What is wrong with the name of a definition, which is made of the resource and its group."""
    wanted = f"{definition.spec.names.plural}.{definition.spec.group}"
    text = 'must be spec.names.plural+"."+spec.group'
    given = (("metadata.generateName", definition.metadata.generate_name), ("metadata.name", definition.metadata.name))
    return [invalid(field, value, text) for field, value in given if value and value != wanted]


def check_wanted_names(errors: Errors, names: types.CustomResourceDefinitionNames) -> None:
    """`spec.names`, of which some are needed."""
    for field, value in (
        ("plural", names.plural),
        ("singular", names.singular),
        ("kind", names.kind),
        ("listKind", names.list_kind),
    ):
        if not value:
            errors.append(required(f"spec.names.{field}"))
    check_names(errors, "spec.names", names)


def check_names(errors: Errors, path: str, names: types.CustomResourceDefinitionNames) -> None:
    """The names that are given are well-formed."""
    for field, value in (("plural", names.plural), ("singular", names.singular)):
        if value:
            _check_label(errors, f"{path}.{field}", value)
    for field, value in (("kind", names.kind), ("listKind", names.list_kind)):
        if value and (messages := formats.dns_1035_label(value.lower())):
            text = f"may have mixed case, but should otherwise match: {','.join(messages)}"
            errors.append(invalid(f"{path}.{field}", value, text))
    for index, name in enumerate(names.short_names):
        _check_label(errors, f"{path}.shortNames[{index}]", name)
    if names.kind and names.kind == names.list_kind:
        errors.append(invalid(f"{path}.listKind", names.list_kind, "kind and listKind may not be the same"))
    for index, category in enumerate(names.categories):
        _check_label(errors, f"{path}.categories[{index}]", category)


def _check_label(errors: Errors, path: str, value: str) -> None:
    if messages := formats.dns_1035_label(value):
        errors.append(invalid(path, value, ",".join(messages)))


def check_version_name(errors: Errors, path: str, name: str) -> None:
    """The name of a version can stand in paths."""
    _check_label(errors, path, name)


def check_stored_versions(errors: Errors, definition: types.CustomResourceDefinition) -> None:
    """`status.storedVersions` has the version in which objects are kept, and none that is gone."""
    path, stored = "status.storedVersions", definition.status.stored_versions
    if not stored:
        errors.append(invalid(path, null_if_empty(stored), "must have at least one stored version"))
        return
    last = {name: index for index, name in enumerate(stored)}
    for version in definition.spec.versions:
        if last.pop(version.name, None) is None and version.storage:
            errors.append(invalid(path, stored, f"must have the storage version {version.name}"))
    errors.extend(invalid(f"{path}[{index}]", name, _LEFT.format(name)) for name, index in last.items())


class Approval(enum.Enum):
    """What the annotation says."""

    MISSING = "MissingAnnotation"
    BYPASSED = "UnapprovedAnnotation"
    APPROVED = "ApprovedAnnotation"
    INVALID = "InvalidAnnotation"


def needs_approval(group: str) -> bool:
    """Whether a group belongs to the Kubernetes project."""
    return any(group == one or group.endswith(f".{one}") for one in ("k8s.io", "kubernetes.io"))


def approval(annotations: Mapping[str, str]) -> tuple[Approval, str]:
    """What the annotation says, and a text about it."""
    value = annotations.get(APPROVED, "")
    if not value:
        return Approval.MISSING, f'protected groups must have approval annotation "{APPROVED}", {_PULL}'
    if value.startswith("unapproved"):
        return Approval.BYPASSED, f'not approved: "{value}"'
    if _is_url(value):
        return Approval.APPROVED, f"approved in {value}"
    text = f'protected groups must have approval annotation "{APPROVED}" with either a URL or a reason starting with "unapproved", {_PULL}'
    return Approval.INVALID, text


def _is_url(text: str) -> bool:
    if any(character <= " " or character == "\x7f" for character in text):
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc)


def check_approval(
    errors: Errors, definition: types.CustomResourceDefinition, old: types.CustomResourceDefinition | None
) -> None:
    """Definitions in a group of the Kubernetes project are approved; who leaves things as they were is not asked."""
    if not needs_approval(definition.spec.group):
        return
    annotations = definition.metadata.annotations
    state, text = approval(annotations)
    if old is not None and approval(old.metadata.annotations)[0] is state:
        return
    path = f"metadata.annotations[{APPROVED}]"
    if state is Approval.MISSING:
        errors.append(required(path, text))
    elif state is Approval.INVALID:
        errors.append(invalid(path, annotations[APPROVED], text))
