"""What is rejected at first sight has errors, and what is not rejected is judged as before."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.custom_resources.correlation import Before
from bayplan.api.custom_resources.rejection import rejects
from bayplan.api.custom_resources.values import validate

_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([-1.5, 0.0, 0.5, 1.0]),
    st.sampled_from(["", "a", "ab", "äb"]),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("ab"), inner)),
    max_leaves=4,
)
_KEYWORDS = {
    "required": st.lists(st.sampled_from("ab"), max_size=2),
    "enum": st.lists(_SCALARS.filter(lambda one: one is not None), max_size=3),
    "pattern": st.sampled_from(["^a", "b$", "("]),
    "minLength": st.integers(0, 3),
    "maxLength": st.integers(0, 3),
    "minimum": st.sampled_from([-1, 0.5, 1, 1.7]),
    "maximum": st.sampled_from([-1.7, 0.5, 1]),
    "exclusiveMinimum": st.booleans(),
    "nullable": st.booleans(),
    "type": st.sampled_from(["integer", "number", "string", "object"]),
}
_LEAVES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries({}, optional=_KEYWORDS)
_SCHEMAS = st.recursive(
    _LEAVES,
    lambda inner: st.builds(
        lambda one, fields: {**one, "properties": fields}, _LEAVES, st.dictionaries(st.sampled_from("ab"), inner)
    ),
    max_leaves=4,
)


@given(_VALUES, _SCHEMAS)
def test_what_is_rejected_has_errors(value: Any, schema: dict[str, Any]) -> None:
    if rejects(value, schema, None):
        assert validate(value, schema)


@given(st.dictionaries(st.sampled_from("ab"), _VALUES), st.dictionaries(st.sampled_from("ab"), _VALUES), _SCHEMAS)
def test_what_is_rejected_of_a_change_has_errors_as_an_alternative(
    value: dict[str, Any], old: dict[str, Any], alternative: dict[str, Any]
) -> None:
    schema = {"properties": {"spec": {"properties": {"a": {}, "b": {}}, "anyOf": [alternative]}}}
    tree, was = {"spec": value}, {"spec": old}
    before = Before(was, tree, schema)
    below = before.field("spec")
    if rejects(value, alternative, below) and value != old:
        assert validate(tree, schema, "", before)


def test_values_are_rejected_by_each_keyword() -> None:
    wrong: list[tuple[Any, dict[str, Any]]] = [
        ({}, {"required": ["a"]}),
        ("x", {"enum": ["y"]}),
        ("x", {"pattern": "^y"}),
        ("xy", {"maxLength": 1}),
        ("x", {"minLength": 2}),
        (1, {"minimum": 2}),
        (1.5, {"maximum": 1.2}),
        ({"a": {"b": 1}}, {"properties": {"a": {"properties": {"b": {"minimum": 2}}}}}),
    ]
    for value, schema in wrong:
        assert rejects(value, schema, None), schema
    assert not rejects(1, {"minimum": 1.9}, None)  # of which integers see 1
    assert not rejects({}, {"properties": {"a": {"enum": ["x"]}}}, None)
