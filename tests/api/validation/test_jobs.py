"""Specs of jobs at the bounds of their rules, which are those of `pkg/apis/batch/validation`."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bayplan.api import codec
from bayplan.api.errors import FieldError
from bayplan.api.strategies.batch.jobs import STRATEGY
from bayplan.api.types import batch_v1
from bayplan.api.validation.jobs import check_job_spec, index_intervals

INDEXED: dict[str, Any] = {"completionMode": "Indexed", "completions": 5, "parallelism": 1}


def problems(**spec: Any) -> list[str]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
    job = codec.from_tree(batch_v1.Job, {"metadata": {"name": "j"}, "spec": {"template": template, **spec}})
    STRATEGY.default(job)
    errors: list[FieldError] = []
    check_job_spec(errors, "spec", job.spec)
    return [f"{error.field.removeprefix('spec.')} {error.type.name}" for error in errors]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"managedBy": "a.b/" + "c" * 59}, []),
        ({"managedBy": "a.b/" + "c" * 60}, ["managedBy TOO_LONG"]),
        (INDEXED, []),
        ({**INDEXED, "parallelism": 100_000}, []),
        ({**INDEXED, "parallelism": 100_001}, ["parallelism INVALID"]),
        ({**INDEXED, "backoffLimitPerIndex": 1, "maxFailedIndexes": 5}, []),
        ({**INDEXED, "backoffLimitPerIndex": 1, "maxFailedIndexes": 6}, ["maxFailedIndexes INVALID"]),
        ({**INDEXED, "maxFailedIndexes": 1}, ["backoffLimitPerIndex REQUIRED"]),
        (
            {**INDEXED, "backoffLimitPerIndex": 1, "completions": 100_000, "maxFailedIndexes": 100_000},
            [],
        ),
        (
            {**INDEXED, "backoffLimitPerIndex": 1, "completions": 100_001, "maxFailedIndexes": 100_001},
            ["maxFailedIndexes INVALID", "maxFailedIndexes INVALID"],
        ),
        ({**INDEXED, "backoffLimitPerIndex": 1, "completions": 100_000}, []),
        ({**INDEXED, "completions": 100_001}, []),
        ({**INDEXED, "backoffLimitPerIndex": 1, "completions": 100_001}, ["maxFailedIndexes REQUIRED"]),
        ({**INDEXED, "backoffLimitPerIndex": 1, "completions": 100_001, "maxFailedIndexes": 10_000}, []),
        (
            {**INDEXED, "backoffLimitPerIndex": 1, "completions": 100_001, "maxFailedIndexes": 10_001},
            ["maxFailedIndexes INVALID"],
        ),
        (
            {
                **INDEXED,
                "backoffLimitPerIndex": 1,
                "completions": 100_001,
                "maxFailedIndexes": 1,
                "parallelism": 10_000,
            },
            [],
        ),
        (
            {
                **INDEXED,
                "backoffLimitPerIndex": 1,
                "completions": 100_001,
                "maxFailedIndexes": 1,
                "parallelism": 10_001,
            },
            ["parallelism INVALID"],
        ),
    ],
)
def test_indexed_jobs(spec: dict[str, Any], expected: list[str]) -> None:
    assert problems(**spec) == expected


def codes(*values: int, operator: str = "NotIn") -> dict[str, Any]:
    return {"action": "FailJob", "onExitCodes": {"operator": operator, "values": list(values)}}


def conditions(count: int) -> dict[str, Any]:
    return {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}] * count}


RULE = "podFailurePolicy.rules[0]"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([codes(0)], []),
        ([codes(0, operator="In")], [f"{RULE}.onExitCodes.values[0] INVALID"]),
        ([codes(*range(255))], []),
        ([codes(*range(256))], [f"{RULE}.onExitCodes.values TOO_MANY"]),
        ([codes(1, 1)], [f"{RULE}.onExitCodes.values[1] DUPLICATE"]),
        ([codes(2, 1)], [f"{RULE}.onExitCodes.values INVALID"]),
        ([codes(1)] * 20, []),
        ([codes(1)] * 21, ["podFailurePolicy.rules TOO_MANY"]),
        ([conditions(20)], []),
        ([conditions(21)], [f"{RULE}.onPodConditions TOO_MANY"]),
    ],
)
def test_failure_policies(rules: list[dict[str, Any]], expected: list[str]) -> None:
    assert problems(podFailurePolicy={"rules": rules}) == expected


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"succeededIndexes": "0-2", "succeededCount": 3}, []),
        ({"succeededIndexes": "0-2", "succeededCount": 4}, ["succeededCount INVALID"]),
        ({"succeededCount": 5}, []),
        ({"succeededCount": 6}, ["succeededCount INVALID"]),
        ({"succeededCount": 0}, []),
        ({"succeededIndexes": "4"}, []),
        ({"succeededIndexes": "5"}, ["succeededIndexes INVALID"]),
        ({"succeededIndexes": "0,0"}, ["succeededIndexes INVALID"]),
        ({"succeededIndexes": "1,2"}, []),
        ({"succeededIndexes": "1-1"}, ["succeededIndexes INVALID"]),
        ({"succeededIndexes": "0".rjust(64 * 1024, "0")}, []),
        ({"succeededIndexes": "0".rjust(64 * 1024 + 1, "0")}, ["succeededIndexes TOO_LONG"]),
    ],
)
def test_success_policies(rule: dict[str, Any], expected: list[str]) -> None:
    found = problems(**INDEXED, successPolicy={"rules": [rule]})
    assert found == [f"successPolicy.rules[0].{one}" for one in expected]


@pytest.mark.parametrize(
    ("indexes", "reason"),
    [
        ("0,,1", 'cannot convert string to integer for index: ""'),
        ("9223372036854775808", 'cannot convert string to integer for index: "9223372036854775808"'),
        ("9223372036854775807", 'too large index: "9223372036854775807"'),
        ("1" * 5000, f'cannot convert string to integer for index: "{"1" * 5000}"'),
        ("5", 'too large index: "5"'),
        ("3,1-9", 'too large index: "9"'),
        ("3,1", "non-increasing order, previous: 3, current: 1"),
        ("3,2-1", "non-increasing order, previous: 2, current: 1"),
        ("3,2-4", "non-increasing order, previous: 3, current: 2"),
        (
            "1-2-3",
            'the fragment "1-2-3" violates the requirement that an index interval can have at most two parts separated by '
            "'-'",
        ),
    ],
)
def test_indexes_that_make_no_sense(indexes: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        index_intervals(indexes, 5)


def test_indexes_may_have_signs_and_zeros() -> None:
    assert index_intervals("+0,001-0003", 5) == [(0, 0), (1, 3)]


@pytest.mark.parametrize(("count", "expected"), [(20, []), (21, ["successPolicy.rules TOO_MANY"])])
def test_how_many_rules_a_success_policy_has(count: int, expected: list[str]) -> None:
    assert problems(**INDEXED, successPolicy={"rules": [{"succeededCount": 1}] * count}) == expected
