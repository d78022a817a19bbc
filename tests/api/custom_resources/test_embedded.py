"""Whole objects inside others, and metadata out of JSON."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.custom_resources.embedded import coerce, embedded_errors
from bayplan.api.custom_resources.metadata import MetadataError, read_metadata

Tree = dict[str, Any]
OBJECT = {"type": "object", "x-kubernetes-embedded-resource": True}
WHOLE = {"properties": {"t": OBJECT, "l": {"items": OBJECT}, "m": {"additionalProperties": OBJECT}}}


def embedded(**fields: Any) -> Tree:
    return {"t": {"apiVersion": "v1", "kind": "Pod", **fields}}


CASES: dict[str, tuple[Tree, list[str]]] = {
    "as it should be": (embedded(metadata={"name": "a", "namespace": "b"}), []),
    "without metadata": (embedded(), []),
    "without a kind": ({"t": {"apiVersion": "v1"}}, ["t.kind: Required value"]),
    "without an apiVersion": ({"t": {"kind": "A"}}, ["t.apiVersion: Required value"]),
    "kind is no string": (embedded(kind=1), ["t.kind: Invalid value: 1: must be a string"]),
    "an empty kind": (embedded(kind=""), ['t.kind: Invalid value: "": must not be empty']),
    "an empty apiVersion": (embedded(apiVersion=""), ['t.apiVersion: Invalid value: "": must not be empty']),
    "an apiVersion of three parts": (embedded(apiVersion="a/b/c"), ['t.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c']),
    "metadata are none": (embedded(metadata=1), ["t.metadata: Invalid value: 1: json: cannot unmarshal number into Go value of type v1.ObjectMeta"]),
    "in a list": ({"l": [{}]}, ["l[0].apiVersion: Required value", "l[0].kind: Required value"]),
    "in a map": ({"m": {"x": {}}}, ["m[x].apiVersion: Required value", "m[x].kind: Required value"]),
    "where the schema knows nothing": ({"u": {}}, []),
}  # fmt: skip


@pytest.mark.parametrize(("tree", "expected"), CASES.values(), ids=CASES.keys())
def test_what_is_wrong_with_embedded_objects(tree: Tree, expected: list[str]) -> None:
    assert [str(error) for error in embedded_errors(tree, WHOLE)] == expected


def test_kinds_look_like_labels() -> None:
    (error,) = embedded_errors(embedded(kind="A_b"), WHOLE)
    assert error.field == "t.kind"
    assert error.detail.startswith("may have mixed case, but should otherwise match: a DNS-1035 label")


def test_embedded_metadata_are_checked_as_all_are() -> None:
    found = embedded_errors(embedded(metadata={"name": "a/b", "labels": {"-": ""}}), WHOLE)
    assert [error.field for error in found] == ["t.metadata.name", "t.metadata.labels"]


def test_embedded_metadata_are_brought_into_form() -> None:
    tree = embedded(metadata={"name": "a", "labels": {}, "finalizers": None, "foo": 1, "creationTimestamp": None})
    tree["m"] = {"x": {"metadata": {"bar": 1}}}
    assert coerce(tree, WHOLE) == ["m[x].metadata.bar", "t.metadata.foo"]
    assert tree["t"]["metadata"] == {"name": "a"}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"kind": 1}, "t.kind: Invalid value: 1: must be a string"),
        ({"apiVersion": None}, "t.apiVersion: Invalid value: null: must be a string"),
        ({"metadata": "x"}, 't.metadata: Invalid value: "x": json: cannot unmarshal string into Go value of type v1.ObjectMeta'),
        ({"metadata": {"name": 1}}, "t.metadata: Invalid value: .* number into Go struct field ObjectMeta.name of type string"),
    ],
)  # fmt: skip
def test_malformed_embedded_objects_are_refused(fields: Tree, text: str) -> None:
    with pytest.raises(MetadataError, match=text):
        coerce(embedded(**fields), WHOLE)


def test_what_is_malformed_in_the_store_goes() -> None:
    tree = embedded(kind=1, metadata={"name": 1, "labels": {"a": "b"}, "foo": 1})
    assert coerce(tree, WHOLE, lenient=True) == ["t.metadata.foo"]
    assert tree == {"t": {"apiVersion": "v1", "metadata": {"labels": {"a": "b"}}}}
    worse = embedded(metadata=1)
    coerce(worse, WHOLE, lenient=True)
    assert worse == embedded(metadata=1)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (1, "json: cannot unmarshal number into Go value of type v1.ObjectMeta"),
        ([], "json: cannot unmarshal array into Go value of type v1.ObjectMeta"),
        ({"labels": "x"}, "json: cannot unmarshal string into Go struct field ObjectMeta.labels of type map"),
        ({"generation": "x"}, "json: cannot unmarshal string into Go struct field ObjectMeta.generation of type int64"),
        ({"generation": 1 << 63}, "json: cannot unmarshal number 9223372036854775808 into Go struct field ObjectMeta.generation of type int64"),
        ({"finalizers": {}}, r"json: cannot unmarshal object into Go struct field ObjectMeta.finalizers of type \[\]string"),
        ({"ownerReferences": [{"uid": 5}]}, "json: cannot unmarshal number into Go struct field OwnerReference.ownerReferences.uid of type types.UID"),
        ({"uid": 1, "name": 1}, "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string"),
        ({"creationTimestamp": "yesterday"}, "parsing time"),
    ],
)  # fmt: skip
def test_malformed_metadata_are_refused_in_gos_words(given: Any, text: str) -> None:
    with pytest.raises(MetadataError, match=text):
        read_metadata(given)


def test_metadata_that_are_left_out_are_empty() -> None:
    assert read_metadata(None)[0] == read_metadata({})[0]
