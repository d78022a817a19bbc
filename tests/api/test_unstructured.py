"""What is said of trees that are no objects of a type."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.codec import encode
from bayplan.api.json.unstructured import as_converted, first_unstructured_problem
from bayplan.api.json.writing import number_text
from bayplan.api.times import first_bad
from bayplan.api.types import apps_v1, core_v1


def template(**spec: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": spec}}}


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        ({"spec": {"replicas": 1, "paused": None}}, None),
        ({"spec": {"replicas": 2.0}}, None),
        ({"spec": 1}, "cannot restore struct from: int64"),
        ({"spec": []}, "cannot restore struct from: slice"),
        ({"spec": {"replicas": "x"}}, "unrecognized type: int32"),
        ({"spec": {"replicas": 1.5}}, "cannot convert float64 to int32"),
        ({"spec": {"paused": "no"}}, "unrecognized type: bool"),
        ({"metadata": {"labels": ["a"]}}, "cannot restore map from slice"),
        ({"metadata": {"labels": {"a": 1}}}, "cannot convert int64 to string"),
        ({"metadata": {"labels": {"a": True}}}, "unrecognized type: string"),
        ({"metadata": {"finalizers": "a"}}, "cannot restore slice from string"),
        (template(containers={"a": 1}), "cannot restore slice from map"),
        (template(restartPolicy=5), "cannot convert int64 to v1.RestartPolicy"),
        (
            template(containers=[{"name": "c", "resources": {"limits": {"cpu": "x"}}}]),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            {"spec": {"strategy": {"rollingUpdate": {"maxSurge": []}}}},
            "json: cannot unmarshal array into Go value of type int32",
        ),
    ],
)
def test_the_first_misfit_is_named(tree: Any, problem: str | None) -> None:
    assert first_unstructured_problem(apps_v1.Deployment, tree) == problem


@pytest.mark.parametrize(
    ("tree", "replicas"),
    [(3, 3), (2.0, 2), (2**31, -(2**31)), (2**32 + 5, 5), (1e30, 0), (-1e30, 0), (9.3e18, 0), (None, None)],
)
def test_numbers_wrap_around_where_they_are_too_large(tree: Any, replicas: int | None) -> None:
    assert as_converted(apps_v1.Deployment, {"spec": {"replicas": tree}}) == {"spec": {"replicas": replicas}}


def test_floats_are_written_as_go_writes_them_where_json_is_kept() -> None:
    given = {"revision": 1, "data": {"a": [1e18, 1e30, 1.5], "b": 1e-7}}
    converted = as_converted(apps_v1.ControllerRevision, given)
    assert encode(converted) == b'{"revision":1,"data":{"a":[1000000000000000000,1e+30,1.5],"b":1e-7}}'


def test_a_list_of_numbers_is_bytes() -> None:
    assert as_converted(core_v1.Secret, {"data": {"a": [97, 98, None, 256 + 99]}}) == {"data": {"a": "YWIAYw=="}}


@pytest.mark.parametrize(
    ("number", "text"),
    [(1e21, "1e+21"), (1e20, "100000000000000000000"), (2.0**63, "9223372036854776000"), (1e-6, "0.000001"), (9.5e-7, "9.5e-7"), (-0.0, "-0"), (1.0, "1"), (7, "7")],
)  # fmt: skip
def test_numbers_are_shown_as_go_shows_them(number: float, text: str) -> None:
    assert number_text(number) == text


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", -1),
        ("YQ==", -1),
        ("YWI=", -1),
        ("YWJj\nYWJj\r\n", -1),
        ("YQ\n=\n=\n", -1),
        ("Y", 0),
        ("YWJjY", 4),
        ("!!", 0),
        ("Y Q==", 1),
        ("=", 0),
        ("YQ=", 3),
        ("ab=c", 3),
        ("YWJj=", 4),
        ("YQ==9", 4),
        ("YWI=x", 4),
    ],
)
def test_where_base64_goes_wrong(text: str, position: int) -> None:
    assert first_bad(text) == position


def test_bytes_may_be_a_list_of_numbers() -> None:
    assert first_unstructured_problem(core_v1.ConfigMap, {"binaryData": {"a": [1, 2]}}) is None
    for tree, problem in (
        ({"binaryData": {"a": ["x"]}}, "unrecognized type: uint8"),
        ({"binaryData": {"a": "YQ==9"}}, "error decoding from json: illegal base64 data at input byte 4"),
        ({"binaryData": {"a": 1}}, "cannot restore slice from int64"),
    ):
        assert first_unstructured_problem(core_v1.ConfigMap, tree) == problem
