"""What is said of trees that are no objects of a type."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.times import first_bad
from bayplan.api.types import apps_v1, core_v1
from bayplan.api.unstructured_problems import first_unstructured_problem


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
