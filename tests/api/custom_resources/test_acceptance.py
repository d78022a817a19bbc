"""What is accepted quickly has nothing wrong with it, and most valid values are accepted quickly."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.custom_resources import values
from bayplan.api.custom_resources.acceptance import acceptor

TEXTS = ["", "a", "ab", "abc", "10.0.0.1", "2026-01-01", "x y"]
NUMBERS = [-1, 0, 1, 2, 3, 1 << 31, -(1 << 31), (1 << 63) - 1, 1 << 63, 1.0, 1.5, 1e300]
SCALARS = [None, True, False, *TEXTS, *NUMBERS]

typed = st.one_of(
    st.fixed_dictionaries({"type": st.just("string")}, optional={
        "minLength": st.integers(0, 2), "maxLength": st.integers(0, 3), "pattern": st.sampled_from(["^a", "b$", "(", ""]),
        "enum": st.lists(st.sampled_from(["a", "ab", "x"]), max_size=2), "format": st.sampled_from(["ipv4", "date", "unknown", ""]),
    }),
    st.fixed_dictionaries({"type": st.sampled_from(["integer", "number"])}, optional={
        "minimum": st.sampled_from([0, 1, 1.5, 1 << 64, -(1 << 31) - 1]), "maximum": st.sampled_from([0, 2, 2.5, 1 << 31]),
        "format": st.sampled_from(["int32", "int64", "float", "double", "int8", ""]), "exclusiveMinimum": st.booleans(),
        "multipleOf": st.sampled_from([1, 2]), "enum": st.lists(st.sampled_from([0, 1, 1.5]), max_size=2),
    }),
    st.fixed_dictionaries({"type": st.just("boolean")}),
    st.just({}),
    st.sampled_from([
        {"x-kubernetes-int-or-string": True},
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}], "pattern": "^a"},
        {"type": "string", "anyOf": [{"pattern": "^a"}]}, {"x-kubernetes-preserve-unknown-fields": True},
        {"type": "object", "not": {"required": ["a"]}}, {"required": ["a"]}, {"type": "string", "x-kubernetes-int-or-string": True},
    ]),
)  # fmt: skip


def _inside(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    names = st.sampled_from(["a", "b", "c"])
    return st.one_of(
        st.fixed_dictionaries({"type": st.just("array")}, optional={
            "items": inner, "minItems": st.integers(0, 1), "maxItems": st.integers(0, 2), "uniqueItems": st.booleans(),
        }),
        st.fixed_dictionaries({"type": st.just("object")}, optional={
            "properties": st.dictionaries(names, inner, max_size=3), "required": st.lists(names, max_size=2),
            "additionalProperties": st.one_of(st.booleans(), inner), "minProperties": st.integers(0, 1), "maxProperties": st.integers(0, 2),
        }),
    )  # fmt: skip


leaves: st.SearchStrategy[dict[str, Any]] = st.builds(
    lambda one, given: {**one, "nullable": given}, typed, st.booleans()
)
schemas = st.recursive(leaves, _inside, max_leaves=5)
trees = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(schemas, trees)
def test_what_is_accepted_is_valid(schema: dict[str, Any], tree: Any) -> None:
    if acceptor(schema)(tree):
        assert values.validate(tree, schema) == []


SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "format": "int32"},
        "owner": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        "mode": {"type": "string", "enum": ["fast", "safe"], "nullable": True},
        "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "share": {"type": "number"},
        "parts": {
            "type": "array",
            "maxItems": 2,
            "items": {"type": "object", "properties": {"on": {"type": "boolean"}}},
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "more": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


@pytest.mark.parametrize(
    ("tree", "is_accepted"),
    [
        ({"size": 1, "owner": "me", "mode": "fast", "port": "http", "share": 1.5}, True),
        ({"size": 1, "port": 80, "parts": [{"on": True}, {}], "labels": {"a": "b"}, "more": {"a": [1, None]}}, True),
        ({"size": 0}, False),
        ({"size": 1 << 31}, False),
        ({"size": True}, False),
        ({"owner": "me"}, False),
        ({"size": 1, "owner": "ME"}, False),
        ({"size": 1, "owner": "meeeee"}, False),
        ({"size": 1, "mode": "slow"}, False),
        ({"size": 1, "port": 1.5}, False),
        ({"size": 1, "share": "1"}, False),
        ({"size": 1, "parts": [{}, {}, {}]}, False),
        ({"size": 1, "parts": [{"on": 1}]}, False),
        ({"size": 1, "labels": {"a": 1}}, False),
        ([], False),
    ],
)
def test_usual_objects_are_accepted_at_once(tree: Any, is_accepted: bool) -> None:
    assert acceptor(SPEC)(tree) is is_accepted
    assert (values.validate(tree, SPEC) == []) is is_accepted
