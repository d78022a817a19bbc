"""Which steps a job's status may take."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.api.codec import decode, encode
from bayplan.api.errors import FieldError
from bayplan.api.types import batch_v1
from bayplan.api.validation.job_status import check_job_status

START, END = "2020-01-01T00:00:00Z", "2020-01-01T00:01:00Z"
INDEXED = {"completionMode": "Indexed", "completions": 5, "parallelism": 2, "backoffLimitPerIndex": 1}
DONE = {"startTime": START, "completionTime": END, "conditions": ["SuccessCriteriaMet", "Complete"]}


def _job(spec: dict[str, Any], status: dict[str, Any]) -> batch_v1.Job:
    conditions = [{"type": name, "status": "True"} for name in status.get("conditions", ())]
    body = {"spec": {"completions": 1, **spec}, "status": {**status, "conditions": conditions}}
    job: batch_v1.Job = decode(batch_v1.Job, msgspec.json.encode(body))
    return job


def _problems(new: dict[str, Any], old: dict[str, Any], spec: dict[str, Any]) -> list[str]:
    errors: list[FieldError] = []
    check_job_status(errors, _job(spec, new), _job(spec, old))
    return [str(error) for error in errors]


@pytest.mark.parametrize(
    ("new", "old", "spec"),
    [
        ({"active": 1, "ready": 1, "startTime": START}, {}, {}),
        (DONE, {"startTime": START, "active": 1}, {}),
        ({**DONE, "succeeded": 1, "active": 1}, {**DONE, "active": 1}, {}),
        ({"startTime": START, "conditions": ["FailureTarget", "Failed"]}, {"startTime": START}, {}),
        ({"completedIndexes": "0,2-3", "failedIndexes": "1"}, {}, INDEXED),
        ({"succeeded": 1}, {"succeeded": 2}, {**INDEXED, "completions": 2}),
        ({"startTime": END}, {"startTime": START}, {"suspend": True}),
    ],
    ids=[
        "a job starts",
        "a job completes",
        "an old wrong is left alone",
        "a job fails",
        "indexes",
        "an elastic job shrinks",
        "a suspended job starts anew",
    ],
)
def test_a_step_that_makes_sense_is_taken(new: dict[str, Any], old: dict[str, Any], spec: dict[str, Any]) -> None:
    assert _problems(new, old, spec) == []


@pytest.mark.parametrize(
    ("new", "old", "spec", "problem"),
    [
        (
            {"conditions": ["Complete", "Failed", "FailureTarget"], "startTime": START},
            {},
            {},
            "status.conditions: Invalid value: cannot set Complete=True and Failed=true conditions",
        ),
        ({**DONE, "active": 1}, {}, {}, "status.active: Invalid value: 1: active>0 is invalid for finished job"),
        (
            {**DONE, "startTime": None},
            {},
            {},
            "status.startTime: Required value: startTime is required for finished job",
        ),
        (
            {**DONE, "completionTime": None},
            {},
            {},
            "status.completionTime: Required value: completionTime is required for Complete jobs",
        ),
        (
            {"completionTime": END},
            {},
            {},
            f'status.completionTime: Invalid value: "{END}": cannot set completionTime when there is no Complete=True condition',
        ),
        (
            {**DONE, "startTime": END, "completionTime": START},
            {},
            {},
            f'status.completionTime: Invalid value: "{START}": completionTime cannot be set before startTime',
        ),
        (
            {"conditions": ["Failed"], "startTime": START},
            {},
            {},
            "status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition",
        ),
        (
            {"startTime": START},
            {**DONE, "completionTime": None},
            {},
            "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
        ),
        (
            {"failed": 1},
            {"failed": 2},
            {},
            "status.failed: Invalid value: 1: cannot decrease the failed counter",
        ),
        (
            {"succeeded": 1},
            {"succeeded": 2},
            INDEXED,
            "status.succeeded: Invalid value: 1: cannot decrease the succeeded counter",
        ),
        (
            {"startTime": None},
            {"startTime": START},
            {},
            "status.startTime: Required value: startTime cannot be removed for unsuspended job",
        ),
        (
            {"ready": 2, "active": 1},
            {},
            {},
            "status.ready: Invalid value: 2: cannot set more ready pods than active",
        ),
        (
            {"completedIndexes": "0"},
            {},
            {},
            'status.completedIndexes: Invalid value: "0": '
            "cannot set non-empty completedIndexes when non-indexed completion mode",
        ),
        (
            {"completedIndexes": "7"},
            {},
            INDEXED,
            'status.completedIndexes: Invalid value: "7": error parsing completedIndexes: too large index: "7"',
        ),
        (
            {"completedIndexes": "0-3", "failedIndexes": "2,3"},
            {},
            INDEXED,
            'status.failedIndexes: Invalid value: "2,3": failedIndexes and completedIndexes overlap at index: 2',
        ),
        (
            {"uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["a"]}},
            {},
            {},
            'status.uncountedTerminatedPods.failed[0]: Duplicate value: "a"',
        ),
        (
            {"conditions": ["SuccessCriteriaMet", "FailureTarget"]},
            {},
            {},
            "status.conditions: Invalid value: cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
        ),
    ],
)
def test_a_step_that_makes_no_sense_is_refused(
    new: dict[str, Any], old: dict[str, Any], spec: dict[str, Any], problem: str
) -> None:
    assert problem in _problems(new, old, spec)


def test_a_refused_condition_shows_no_value_on_the_wire() -> None:
    errors: list[FieldError] = []
    check_job_status(errors, _job({}, {"conditions": ["Failed"], "startTime": START}), _job({}, {"startTime": START}))
    assert encode([error.body for error in errors]).decode() == (
        '["Invalid value: cannot set Failed=True condition without the FailureTarget=true condition"]'
    )
