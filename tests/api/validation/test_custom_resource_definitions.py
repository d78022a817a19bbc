"""CustomResourceDefinitions as wholes: names, versions, status, changes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bayplan.api import codec
from bayplan.api.strategies.apiextensions.customresourcedefinitions import STRATEGY
from bayplan.api.strategies.base import clone
from bayplan.api.types import apiextensions_v1
from bayplan.api.validation.meta import validate_object_meta
from tests.api.validation.definitions import (
    Tree,
    definition,
    lines,
    problems,
    schema_problems,
    settled,
    update_problems,
    version,
)

LABEL = "a DNS-1035 label must consist of lower case alphanumeric characters"
APPROVAL = "metadata.annotations[api-approved.kubernetes.io]"
PRUNED = {"type": "object", "properties": {"a": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}


def starts(found: list[str], *expected: str) -> bool:
    return len(found) == len(expected) and all(map(str.startswith, found, expected))


def test_a_plain_definition_is_valid() -> None:
    assert problems() == []


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"kind": ""}, ["spec.names.singular: Required", "spec.names.kind: Required", "spec.names.listKind: Required"]),
        ({"kind": "a_b", "listKind": "L", "singular": "s"}, ['spec.names.kind: Invalid value: "a_b": may have mixed']),
        ({"listKind": "Thing"}, ['spec.names.listKind: Invalid value: "Thing": kind and listKind may not be the same']),
        ({"shortNames": ["ok", "No"]}, [f'spec.names.shortNames[1]: Invalid value: "No": {LABEL}']),
        ({"categories": ["1"]}, [f'spec.names.categories[0]: Invalid value: "1": {LABEL}']),
        ({"singular": "Thing"}, [f'spec.names.singular: Invalid value: "Thing": {LABEL}']),
    ],
)
def test_names(names: Tree, expected: list[str]) -> None:
    assert starts(problems(names=names), *expected)


def test_the_object_is_named_after_the_resource_also_by_a_generated_name() -> None:
    found = definition()
    found.metadata.name, found.metadata.generate_name = "x.example.com", "x"
    text = 'must be spec.names.plural+"."+spec.group'
    assert lines(STRATEGY.name_errors(found)) == [
        f'metadata.generateName: Invalid value: "x": {text}',
        f'metadata.name: Invalid value: "x.example.com": {text}',
    ]


def test_what_is_wrong_with_the_name_is_told_before_the_rest_of_the_metadata() -> None:
    found = definition()
    found.metadata.name, found.metadata.labels = "x.example.com", {"a b": ""}
    errors = validate_object_meta(
        found.metadata, namespaced=False, name_rule="dns-1123-subdomain", name_errors=STRATEGY.name_errors(found)
    )
    assert [one.field for one in errors] == ["metadata.name", "metadata.labels"]


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("", "spec.group: Required value"),
        ("example", 'spec.group: Invalid value: "example": should be a domain with at least one dot'),
        ("A.b", 'spec.group: Invalid value: "A.b": a lowercase RFC 1123 subdomain'),
    ],
)
def test_groups_are_domains(group: str, expected: str) -> None:
    assert starts([one for one in problems(group=group) if one.startswith("spec.group")], expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, f"{APPROVAL}: Required value: protected groups must have approval annotation"),
        ("yes", f'{APPROVAL}: Invalid value: "yes": protected groups must have approval annotation'),
        ("https://", f'{APPROVAL}: Invalid value: "https://": protected'),
        ("unapproved, for tests", None),
        ("https://github.com/kubernetes/enhancements/pull/1111", None),
    ],
)
def test_groups_of_kubernetes_need_an_approval(value: str | None, expected: str | None) -> None:
    found = definition(group="x.k8s.io")
    found.metadata.name = "things.x.k8s.io"
    found.metadata.annotations = {} if value is None else {"api-approved.kubernetes.io": value}
    assert starts(lines(STRATEGY.validate_create(found)), *([expected] if expected else []))
    assert update_problems(clone(found), found) == []


def test_an_approval_cannot_be_taken_back() -> None:
    old = definition(group="x.kubernetes.io")
    old.metadata.annotations = {"api-approved.kubernetes.io": "unapproved"}
    new = clone(old)
    new.metadata.annotations = {}
    assert starts(update_problems(new, old), f"{APPROVAL}: Required value")


def test_versions_have_paths_of_their_own_only_where_they_differ() -> None:
    wrong = {"type": "object", "properties": {"a": {}}}
    text = ".properties[a].type: Required value: must not be empty for specified object fields"
    both = problems(version(schema=wrong), version("v2", storage=False, schema=wrong))
    assert both == [f"spec.validation.openAPIV3Schema{text}"]
    second = problems(version(), version("v2", storage=False, schema=wrong))
    assert second == [f"spec.versions[1].schema.openAPIV3Schema{text}"]


def test_names_of_versions() -> None:
    found = problems(version("V1"))
    assert starts(
        found, f'spec.versions[0].name: Invalid value: "V1": {LABEL}', f'spec.version: Invalid value: "V1": {LABEL}'
    )


def test_one_version_is_stored_and_names_differ() -> None:
    shown = (
        '[{"Name":"v1","Served":true,"Storage":true,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"Subresources":null,'
        '"AdditionalPrinterColumns":null,"SelectableFields":null},'
    )
    twice = problems(version(), version())
    assert starts(twice[:2], f"spec.versions: Invalid value: {shown}", f"spec.versions: Invalid value: {shown}")
    assert [one.rpartition(": ")[2] for one in twice] == [
        "must contain unique version names",
        "must have exactly one version marked as storage version",
        "must have the storage version v1",
    ]
    none = problems(version(storage=False))
    assert none[-1] == "status.storedVersions: Invalid value: null: must have at least one stored version"


def test_every_version_has_a_schema() -> None:
    assert problems(version(schema={})) == ["spec.versions[0].schema.openAPIV3Schema: Required value"]
    assert problems(version(), version("v2", storage=False, schema={})) == [
        "spec.versions[1].schema.openAPIV3Schema: Required value"
    ]


@pytest.mark.parametrize(
    ("deprecated", "warning", "expected"),
    [
        (True, "old", []),
        (False, "old", ["can only be set for deprecated versions"]),
        (True, "", ["must not be an empty string"]),
        (True, "x" * 257, ["must be <= 256 characters long"]),
        (True, "ä\n", ["must only contain printable UTF-8 characters; non-printable character found at index 2"]),
        (True, "a\u00a0b", ["must only contain printable UTF-8 characters; non-printable character found at index 1"]),
    ],
)
def test_warnings_of_deprecated_versions(deprecated: bool, warning: str, expected: list[str]) -> None:
    found = problems(version(deprecated=deprecated, deprecationWarning=warning))
    assert [one.rpartition(": ")[2] for one in found] == expected


def test_unknown_fields_are_not_kept_by_a_switch() -> None:
    [found] = problems(preserveUnknownFields=True)
    assert found.startswith("spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes")
    with_default = {"type": "object", "properties": {"a": {"type": "string", "default": "b"}}}
    found, _ = problems(version(schema=with_default), preserveUnknownFields=True)
    assert (
        found == "spec.preserveUnknownFields: Invalid value: true: must be false in order to use defaults in the schema"
    )


def test_stored_versions_stay_until_they_are_removed_from_the_status() -> None:
    old = definition(version(), version("v2", storage=False))
    new = definition(version(storage=False), version("v2"))
    assert update_problems(new, old) == []
    assert new.status.stored_versions == ("v1", "v2")
    gone = definition(version("v2"))
    [found] = update_problems(gone, new)
    assert found.startswith(
        'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously'
    )


def test_scope_and_kind_of_established_definitions_stay() -> None:
    old = definition()
    changed = definition(scope="Cluster", names={"kind": "Other"})
    assert update_problems(clone(changed), old) == []
    assert update_problems(clone(changed), old, established=True) == [
        'spec.scope: Invalid value: "Cluster": field is immutable',
        'spec.names.kind: Invalid value: "Other": field is immutable',
    ]


def test_group_and_plural_never_change() -> None:
    assert update_problems(definition(group="other.com", names={"plural": "others"}), definition()) == [
        'spec.group: Invalid value: "other.com": field is immutable',
        'spec.names.plural: Invalid value: "others": field is immutable',
    ]


def test_names_in_the_status_are_checked() -> None:
    new = definition()
    new.status.accepted_names = apiextensions_v1.CustomResourceDefinitionNames(plural="Things")
    assert starts(
        lines(STRATEGY.validate_status_update(new, definition())), "status.acceptedNames.plural: Invalid value"
    )


def test_an_empty_list_of_stored_versions_is_filled_in() -> None:
    tree = {"spec": {"versions": [version(storage=False), version("v2")]}}
    found = codec.from_tree(apiextensions_v1.CustomResourceDefinition, tree)
    STRATEGY.default(found)
    assert found.status.stored_versions == ("v2",)


UNSTRUCTURAL = {"type": "object", "properties": {"a": {}}}
SETS = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}}
NO_KEY = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": {"type": "object", "nullable": True, "properties": {"k": {"type": "string"}}},
}
UNPRUNED = {"type": "object", "default": {"x": 1}, "properties": {"y": {"type": "string"}}}


@pytest.mark.parametrize(
    "field", [SETS, NO_KEY, UNPRUNED], ids=["set of maps", "key without default", "unpruned default"]
)
def test_what_was_wrong_may_stay_so(field: Tree) -> None:
    wrong = {"type": "object", "properties": {"a": field}}
    old = definition(version(schema=wrong))
    new = definition(version(schema={**wrong, "description": "changed"}))
    assert schema_problems(wrong) != []
    assert update_problems(clone(new), definition()) != []
    assert update_problems(new, old) == []


def test_a_schema_that_was_no_structural_one_may_stay_so_where_nothing_is_pruned() -> None:
    old = definition(version(schema=UNSTRUCTURAL), preserveUnknownFields=True)
    new = definition(version(schema={**UNSTRUCTURAL, "description": "d"}), preserveUnknownFields=True)
    assert update_problems(clone(new), old) == []
    new.spec.preserve_unknown_fields = False
    assert starts(update_problems(new, old), "spec.validation.openAPIV3Schema.properties[a].type: Required value")


def test_types_that_were_unknown_may_stay_so() -> None:
    wrong = {"type": "object", "properties": {"a": {"type": "thing"}}}
    assert update_problems(definition(version(schema=wrong)), definition(version(schema=wrong))) == []
    assert starts(
        update_problems(definition(version(schema=wrong)), definition()), "spec.validation.openAPIV3Schema.prop"
    )


def test_versions_that_had_no_schema_need_one_only_if_they_are_served_and_pruned() -> None:
    old = definition(version(schema={}))
    path = "spec.versions[0].schema.openAPIV3Schema"
    new = definition(version(schema={}))
    assert update_problems(clone(new), old) == [f"{path}: Required value: because otherwise all fields are pruned"]
    new.spec.versions[0].served = False
    assert update_problems(new, old) == []


def test_formats_that_nobody_checks_are_warned_about_once_they_come() -> None:
    def formats(*names: str) -> apiextensions_v1.CustomResourceDefinition:
        fields = {name: {"type": "string", "format": name} for name in names}
        return definition(version(schema={"type": "object", "properties": fields}))

    assert STRATEGY.warnings(formats("date-time", "nonsense", "k8s-short-name"), None) == [
        'unrecognized format "nonsense"'
    ]
    assert STRATEGY.warnings(formats("nonsense", "other"), formats("nonsense")) == ['unrecognized format "other"']
    number = {"type": "object", "properties": {"n": {"type": "integer", "format": "double"}}}
    assert STRATEGY.warnings(definition(version(schema=number)), None) == ['unrecognized format "double"']


def test_schemas_inside_schemas_are_read_like_others() -> None:
    items = {"type": "string", "nosuch": 1, "minimum": 2.0, "format": None, "items": {"type": "string", "x": 1}}
    found = definition(version(schema={"type": "object", "properties": {"a": {"type": "array", "items": items}}}))
    schema = found.spec.versions[0].schema
    assert schema is not None
    assert schema.open_apiv3_schema is not None
    assert codec.to_tree(schema.open_apiv3_schema.properties["a"].items) == {
        "type": "string",
        "minimum": 2,
        "items": {"type": "string"},
    }
    assert codec.encode(schema.open_apiv3_schema.properties["a"].items).count(b"2.0") == 0
    for wrong in ({"items": {"type": 1}}, {"additionalProperties": 1}, {"items": [1]}, {"dependencies": {"a": [1]}}):
        with pytest.raises(codec.DecodeError):
            settled({"spec": {"versions": [version(schema={"type": "object", **wrong})]}})


def test_the_rules_are_not_loaded_before_there_is_a_definition() -> None:
    loads = "import sys; import bayplan.api.strategies.apiextensions.customresourcedefinitions; print('bayplan.api.cel.checker' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", loads], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
