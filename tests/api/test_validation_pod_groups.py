"""Rules of pod groups and workloads: what a new one may say, and that nothing of it changes."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api import codec
from bayplan.api.errors import FieldError
from bayplan.api.types import scheduling_v1alpha2
from bayplan.api.validation.pod_groups import HIGHEST_PRIORITY, check_group, check_workload

BASIC: dict[str, Any] = {"schedulingPolicy": {"basic": {}}}


def template(name: str = "workers", **more: Any) -> dict[str, Any]:
    return {"name": name, **BASIC, **more}


def group(**spec: Any) -> scheduling_v1alpha2.PodGroupSpec:
    tree = {"metadata": {"name": "g"}, "spec": {**BASIC, **spec}}
    found: scheduling_v1alpha2.PodGroup = codec.from_tree(scheduling_v1alpha2.PodGroup, tree)
    return found.spec


def workload(*templates: dict[str, Any], **spec: Any) -> scheduling_v1alpha2.WorkloadSpec:
    tree = {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": list(templates), **spec}}
    found: scheduling_v1alpha2.Workload = codec.from_tree(scheduling_v1alpha2.Workload, tree)
    return found.spec


def told(errors: list[FieldError]) -> list[str]:
    return [f"{error.field.removeprefix('spec.')} {error.type.name}" for error in errors]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (workload(template()), []),
        (workload(), ["podGroupTemplates REQUIRED"]),
        (workload(*(template(f"t{number}") for number in range(8))), []),
        (workload(*(template("same") for _ in range(9))), ["podGroupTemplates TOO_MANY"]),
        (workload(template(), template()), ["podGroupTemplates[1] DUPLICATE"]),
        (workload(template(""), template("b")), ["podGroupTemplates[0].name REQUIRED"]),
        (
            workload(template(), controllerRef={"kind": "a/b", "name": "j"}),
            ["controllerRef.kind INVALID"],
        ),
        (
            workload(template(schedulingPolicy={"gang": {"minCount": 0}})),
            ["podGroupTemplates[0].schedulingPolicy.gang.minCount REQUIRED"],
        ),
    ],
)
def test_new_workloads(spec: scheduling_v1alpha2.WorkloadSpec, expected: list[str]) -> None:
    errors: list[FieldError] = []
    check_workload(errors, spec, None)
    assert told(errors) == expected


def test_templates_that_change_are_not_looked_at_further() -> None:
    errors: list[FieldError] = []
    check_workload(errors, workload(template(""), template("")), workload(template()))
    assert told(errors) == ["podGroupTemplates INVALID"]


def test_what_was_allowed_once_stays() -> None:
    errors: list[FieldError] = []
    check_workload(errors, workload(template("")), workload(template("")))
    check_group(errors, group(priority=HIGHEST_PRIORITY + 1), group(priority=HIGHEST_PRIORITY + 1))
    assert told(errors) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"priority": HIGHEST_PRIORITY}, []),
        ({"priority": HIGHEST_PRIORITY + 1}, ["priority INVALID"]),
        ({"priorityClassName": "A"}, ["priorityClassName INVALID"]),
        ({"disruptionMode": "PodGroup"}, []),
        ({"disruptionMode": "All"}, ["disruptionMode NOT_SUPPORTED"]),
        ({"schedulingPolicy": {}}, ["schedulingPolicy INVALID"]),
        ({"schedulingPolicy": {"gang": {"minCount": 1}}}, []),
        ({"schedulingPolicy": {"gang": {"minCount": -1}}}, ["schedulingPolicy.gang.minCount INVALID"]),
        ({"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}}, ["schedulingPolicy INVALID"]),
        ({"schedulingConstraints": {"topology": [{"key": "zone"}]}}, []),
        ({"schedulingConstraints": {"topology": [{"key": ""}]}}, ["schedulingConstraints.topology[0].key REQUIRED"]),
        (
            {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": ""}]}},
            ["schedulingConstraints.topology TOO_MANY"],
        ),
        (
            {"podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": ""}}},
            ["podGroupTemplateRef.workload.podGroupTemplateName REQUIRED"],
        ),
        ({"podGroupTemplateRef": {}}, ["podGroupTemplateRef INVALID"]),
        ({"resourceClaims": [{"name": "c", "resourceClaimName": "x"}]}, []),
        ({"resourceClaims": [{"name": "c"}]}, ["resourceClaims[0] INVALID"]),
        (
            {"resourceClaims": [{"name": f"c{number}", "resourceClaimName": "x"} for number in range(5)]},
            ["resourceClaims TOO_MANY"],
        ),
    ],
)
def test_new_groups(spec: dict[str, Any], expected: list[str]) -> None:
    errors: list[FieldError] = []
    check_group(errors, group(**spec), None)
    assert told(errors) == expected
    changed: list[FieldError] = []
    if spec:
        check_group(changed, group(**spec), group())
        assert {error.detail for error in changed} == {"field is immutable"}
