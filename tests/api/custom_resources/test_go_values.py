"""Values as Go prints and keeps them."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.custom_resources.go_values import go_syntax, json_text, shown, type_name
from bayplan.api.custom_resources.numbers import settle_numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "<nil>"), (True, "true"), (False, "false"), (3, "3"), ("x", "x"), (1.5, "1.5"), (1.0, "1"), (100000.0, "100000"), (1e6, "1e+06"), (0.0, "0"),
        (123456789.0, "1.23456789e+08"), (0.0001, "0.0001"), (0.00001, "1e-05"), (-2.5e-7, "-2.5e-07"), (3e100, "3e+100"), (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"), (float("nan"), "NaN"), ([1, "x", None], "[1 x <nil>]"), ({"b": 1, "a": {}}, "map[a:map[] b:1]"),
    ],
)  # fmt: skip
def test_values_are_shown_as_go_shows_them(value: Any, text: str) -> None:
    assert shown(value) == text


def test_values_are_written_as_go_writes_them_in_code() -> None:
    assert (
        go_syntax({"b": ['a"\x01', None], "a": 1})
        == r'map[string]interface {}{"a":1, "b":[]interface {}{"a\"\x01", interface {}(nil)}}'
    )


def test_types_have_gos_names() -> None:
    values: tuple[Any, ...] = (None, True, 1, 1.5, "x", [], {})
    names = ["<nil>", "bool", "int64", "float64", "string", "[]interface {}", "map[string]interface {}"]
    assert [type_name(value) for value in values] == names


def test_json_is_written_as_go_writes_it() -> None:
    assert json_text({"b": "<é&>\u2028", "a": [1, None]}) == '{"a":[1,null],"b":"\\u003cé\\u0026\\u003e\\u2028"}'


def test_numbers_are_kept_in_64_bits() -> None:
    tree = {"a": 1.0, "b": [2.0, 2.5, {"c": 1 << 63}], "d": -(1 << 63), "e": True, "f": 1e300, "g": (1 << 63) - 1}
    settle_numbers(tree)
    assert repr(tree) == repr(
        {"a": 1, "b": [2, 2.5, {"c": 2.0**63}], "d": -(1 << 63), "e": True, "f": 1e300, "g": (1 << 63) - 1}
    )
