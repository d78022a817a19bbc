"""Which expressions an API server takes when a policy is written."""

from __future__ import annotations

import pytest

from bayplan.api.cel.compilation import Compiler


@pytest.mark.parametrize(
    ("expression", "wanted", "expected"),
    [
        ("object.spec.replicas > 1", ["bool"], ""),
        ("oldObject == null", ["bool"], ""),
        ("request.operation == 'CREATE' && namespaceObject.status.phase != ''", ["bool"], ""),
        ("authorizer.requestResource.check('get').allowed()", ["bool"], ""),
        ("object.anything", [], ""),
        ("object.flag", ["bool"], "must evaluate to bool but got dyn"),
        ("1", ["bool"], "must evaluate to bool but got int"),
        ("timestamp('2026-01-01T00:00:00Z')", ["string"], "must evaluate to string but got google.protobuf.Timestamp"),
        ("[1]", ["string", "null"], "must evaluate to one of [string null_type] but got list(int)"),
        ("null", ["string", "null"], ""),
        (
            "nosuch.x == 1",
            ["bool"],
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'nosuch' (in container '')\n | nosuch.x == 1\n | ^",
        ),
        (
            "object.",
            ["bool"],
            "compilation failed: ERROR: <input>:1:8: Syntax error: no viable alternative at input '.'\n | object.\n | .......^",
        ),
    ],
)
def test_what_is_wrong_with_an_expression(expression: str, wanted: list[str], expected: str) -> None:
    assert Compiler(has_params=False).problem(expression, *wanted) == expected


def test_parameters_are_known_only_where_there_are_some() -> None:
    assert Compiler(has_params=True).problem("params.max > 1", "bool") == ""
    assert "undeclared reference to 'params'" in Compiler(has_params=False).problem("params.max > 1", "bool")


def test_messages_cannot_ask_who_may_what() -> None:
    text = "authorizer.path('/').check('get').reason()"
    for has_variables in (False, True):
        compiler = Compiler(has_params=False, has_variables=has_variables)
        assert compiler.problem(text, "string") == ""
        assert "undeclared reference to 'authorizer'" in compiler.problem(text, "string", has_authorizer=False)


def test_variables_are_known_from_then_on() -> None:
    compiler = Compiler(has_params=False, has_variables=True)
    assert "undefined field 'first'" in compiler.problem("variables.first == 1", "bool")
    assert compiler.add_variable("first", "1") == ""
    assert compiler.add_variable("second", "variables.first + 1") == ""
    assert compiler.problem("variables.second == 2", "bool") == ""
    assert compiler.problem("string(variables.second)", "string", has_authorizer=False) == ""
    assert "found no matching overload" in compiler.problem("variables.second == 'a'", "bool")


def test_a_variable_that_is_wrong_is_told_once() -> None:
    compiler = Compiler(has_params=False, has_variables=True)
    assert "undeclared reference to 'foo'" in compiler.add_variable("first", "foo")
    assert compiler.problem("variables.first == 1", "bool") == ""


def test_policies_without_variables_do_not_know_the_name() -> None:
    assert "undeclared reference to 'variables'" in Compiler(has_params=False).problem("variables.a == 1", "bool")


@pytest.mark.parametrize(
    ("function", "text", "is_right"),
    [
        ("duration", "1h30m", True),
        ("duration", "-1.5s", True),
        ("duration", ".5ms", True),
        ("duration", "0", True),
        ("duration", "3us2µs1ns", True),
        ("duration", "", False),
        ("duration", "1", False),
        ("duration", "1d", False),
        ("duration", "1h 1m", False),
        ("duration", "2562048h", False),
        ("timestamp", "2026-02-28T23:59:59Z", True),
        ("timestamp", "2026-02-28T23:59:59.123456789+02:00", True),
        ("timestamp", "2026-02-29T00:00:00Z", False),
        ("timestamp", "2026-02-28T24:00:00Z", False),
        ("timestamp", "2026-02-28T00:00:00+24:00", False),
        ("timestamp", "2026-02-28", False),
        ("timestamp", "0000-01-01T00:00:00Z", False),
    ],
)
def test_durations_and_timestamps_are_read(function: str, text: str, is_right: bool) -> None:
    source = f"[object].all(o, {function}('{text}') == o)"
    problem = Compiler(has_params=False).problem(source, "bool")
    expected = f"compilation failed: ERROR: <input>:1:{len(function) + 18}: invalid {function} argument\n"
    assert problem == "" if is_right else problem.startswith(expected)
