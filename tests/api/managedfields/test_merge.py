"""Naming the fields of a configuration while it is validated, and merging without a look at what only the live object has."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.managedfields.compare import ABSENT, field_set
from bayplan.api.managedfields.merge import merge, validate, validated_fields
from bayplan.api.managedfields.typed import ANY, LIST, MAP, SCALAR, Type, TypedError, type_of_definition

DEPLOYMENT = type_of_definition("io.k8s.api.apps.v1.Deployment")
SCALARS: dict[str, list[Any]] = {
    "string": ["", "a", "b", 1],
    "numeric": [0, 1, 2.5, "a"],
    "boolean": [True, False, 0],
    "untyped": ["1", 1],
}


@st.composite
def trees(draw: st.DrawFn, kind: Type, depth: int = 7) -> Any:
    """Values that mostly fit a type: sometimes null, empty, of another sort, or with a key twice."""
    if draw(st.integers(0, 15)) == 0:
        return draw(st.sampled_from([None, {}, [], "odd"]))
    if kind.kind == SCALAR:
        return draw(st.sampled_from(SCALARS[kind.scalar]))
    if kind.kind == LIST:
        element = kind.element
        assert element is not None
        return [draw(trees(element, depth - 1)) for _ in range(draw(st.integers(0, 3)) if depth > 0 else 0)]
    if kind.kind == ANY:
        return draw(st.sampled_from([{"a": {"b": 1}}, {}, [1], "x", None]))
    names = ["a", "b"]
    if kind.is_struct:
        common = [
            "spec",
            "template",
            "metadata",
            "containers",
            "name",
            "image",
            "ports",
            "containerPort",
            "env",
            "value",
            "labels",
        ]
        more = [
            "replicas",
            "args",
            "tolerations",
            "nodeSelector",
            "resources",
            "limits",
            "undeclared",
            "status",
            "conditions",
            "type",
        ]
        names = [
            one
            for one in (*common, *more)
            if kind.declares(one) or (one == "undeclared" and draw(st.integers(0, 9)) == 0)
        ]
    found: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(names), max_size=6, unique=True)) if names and depth > 0 else ():
        inner = kind.field(name)
        found[name] = 1 if inner is None else draw(trees(inner, depth - 1))
    return found


@given(trees(DEPLOYMENT))
def test_the_fields_of_a_valid_configuration_are_those_it_names(tree: Any) -> None:
    try:
        found = validated_fields(tree, DEPLOYMENT)
    except TypedError:
        return
    assert repr(found) == repr(field_set(tree, DEPLOYMENT))


@given(trees(DEPLOYMENT), trees(DEPLOYMENT))
def test_what_only_a_fitting_object_has_stays_as_it_is(live: Any, applied: Any) -> None:
    try:
        validate(live, DEPLOYMENT, unique=False)
        validate(applied, DEPLOYMENT)
    except TypedError:
        return
    assert repr(merge(live, applied, DEPLOYMENT, live_fits=True)) == repr(merge(live, applied, DEPLOYMENT))


def test_fields_are_named_in_order() -> None:
    tree = {
        "spec": {"template": {"spec": {"containers": [{"name": "b"}, {"name": "a"}]}}, "replicas": 1},
        "metadata": {"labels": {"b": "", "a": ""}},
    }
    found = validated_fields(tree, DEPLOYMENT)
    assert list(found) == ["f:metadata", "f:spec"]
    assert list(found["f:metadata"]["f:labels"]) == ["f:a", "f:b"]
    assert list(found["f:spec"]["f:template"]["f:spec"]["f:containers"]) == ['k:{"name":"a"}', 'k:{"name":"b"}']
    assert merge({"a": 1}, ABSENT, Type(MAP), live_fits=True) == {"a": 1}
