"""Expressions of device selectors are compiled when they are written."""

from __future__ import annotations

import pytest

from bayplan.api.types import resource_v1
from bayplan.api.validation.devices.device_expressions import expression_problem
from bayplan.api.validation.devices.devices import check_selectors


@pytest.mark.parametrize(
    "text",
    [
        "true",
        'device.driver == "gpu.example.com"',
        'device.attributes["gpu.example.com"].model == "a100"',
        'device.attributes["gpu.example.com"].isBig',
        'device.capacity["gpu.example.com"].memory.compareTo(quantity("10Gi")) >= 0',
        'device.attributes["gpu.example.com"].version.isGreaterThan(semver("1.0.0"))',
        '"gpu.example.com" in device.attributes && device.attributes["gpu.example.com"].?index.orValue(0) > 2',
        'cel.bind(a, device.attributes["gpu.example.com"], a.x && a.y)',
        "device.allowMultipleAllocations == true",
    ],
)
def test_expressions_that_say_yes_or_no_are_taken(text: str) -> None:
    assert expression_problem(text) == ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1", "must evaluate to bool or the unknown type, not int"),
        ("device.driver", "must evaluate to bool or the unknown type, not string"),
        ("[true]", "must evaluate to bool or the unknown type, not list(bool)"),
        (
            "device.nosuch",
            "compilation failed: ERROR: <input>:1:7: undefined field 'nosuch'\n | device.nosuch\n | ......^",
        ),
        (
            "nosuch",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'nosuch' (in container '')\n | nosuch\n | ^",
        ),
    ],
)
def test_others_are_refused_in_the_words_of_kubernetes(text: str, problem: str) -> None:
    assert expression_problem(text) == problem


def test_a_long_expression_is_not_compiled() -> None:
    errors: list[object] = []
    long = resource_v1.DeviceSelector(cel=resource_v1.CELDeviceSelector(expression="1" * 10_241))
    check_selectors(errors, "spec.selectors", (long,))  # type: ignore[arg-type]
    assert [str(error) for error in errors] == [
        "spec.selectors[0].cel.expression: Too long: may not be more than 10240 bytes"
    ]
