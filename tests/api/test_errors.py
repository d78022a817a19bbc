"""Field errors in Kubernetes' words."""

from __future__ import annotations

from bayplan.api.errors import show_value, too_many, unsupported
from bayplan.api.types import core_v1
from bayplan.api.validation.fields import go_struct


def test_too_many_says_how_many_there_are() -> None:
    assert str(too_many("spec.rules", 21, 20)) == "spec.rules: Too many: 21: must have at most 20 items"


def test_the_supported_values_keep_their_order() -> None:
    assert unsupported("a", "x", ("b", "a")).body == 'Unsupported value: "x": supported values: "b", "a"'


def test_maps_are_sorted_and_structs_keep_their_order() -> None:
    assert show_value({"b": 1, "a": {"d": 1, "c": 2}}) == '{"a":{"c":2,"d":1},"b":1}'
    assert show_value(go_struct(core_v1.Taint(key="k", effect="NoSchedule"))) == (
        '{"Key":"k","Value":"","Effect":"NoSchedule","TimeAdded":null}'
    )


def test_values_are_shown_as_go_prints_them() -> None:
    assert [show_value(one) for one in (None, True, 3, 3.0, 1e6, 0.5)] == ["null", "true", "3", "3", "1e+06", "0.5"]
    assert show_value('a\x01"') == r'"a\x01\""'
    assert show_value({"a": "<b>"}) == r'{"a":"\u003cb\u003e"}'
    assert unsupported("a", "x", ('b"',)).body == r'Unsupported value: "x": supported values: "b\""'
