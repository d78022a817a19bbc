"""Pod groups and workloads in the versions of Kubernetes 1.36 and 1.37."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.codec import from_tree, to_tree
from bayplan.api.conversions import pod_groups as conversion
from bayplan.api.conversions.kinds import convert
from bayplan.api.kinds import Kind
from bayplan.api.optional_kinds import COMPOSITE_POD_GROUP, NEWER, NEWER_POD_GROUP, NEWER_WORKLOAD, POD_GROUP, WORKLOAD
from bayplan.api.strategies import strategy_for

GANG = {"gang": {"minCount": 3}}
BASIC: dict[str, Any] = {"basic": {}}
COMPOSITE = {"gang": {"minGroupCount": 2}}
LEAF = {"name": "leaf", "schedulingPolicy": GANG}


def made(kind: Kind, **spec: Any) -> Any:
    return from_tree(kind.type, {"metadata": {"name": "g", "annotations": {"a": "b"}}, "spec": spec})


def there_and_back(kind: Kind, obj: Any) -> tuple[Any, Any]:
    hub = POD_GROUP if kind.kind == "PodGroup" else WORKLOAD
    older = convert(obj, kind, hub)
    return older, convert(older, hub, kind)


@pytest.mark.parametrize(
    ("spec", "annotated"),
    [
        ({"schedulingPolicy": GANG}, False),
        ({"schedulingPolicy": BASIC, "workloadRef": {"workloadName": "w", "templateName": "t"}}, False),
        ({"schedulingPolicy": GANG, "schedulingConstraints": {"topology": [{"key": "rack"}]}}, False),
        ({"schedulingPolicy": GANG, "disruptionMode": {"all": {}}, "priority": 7, "priorityClassName": "p"}, False),
        ({"schedulingPolicy": GANG, "resourceClaims": [{"name": "c", "resourceClaimName": "d"}]}, False),
        ({"schedulingPolicy": GANG, "parentCompositePodGroupName": "job"}, True),
        ({"schedulingPolicy": GANG, "preemptionPolicy": "Never"}, True),
        ({"schedulingPolicy": GANG, "disruptionMode": {"all": {}, "single": {}}}, True),
    ],
)
@pytest.mark.parametrize("kind", [one for one in NEWER if one.kind == "PodGroup"], ids=lambda kind: kind.version)
def test_a_group_comes_back_as_it_was(kind: Kind, spec: dict[str, Any], annotated: bool) -> None:
    group = made(kind, **spec)
    older, back = there_and_back(kind, group)
    assert back == group
    assert conversion.has_kept(older.metadata) is annotated
    assert older.metadata.annotations["a"] == "b"


@pytest.mark.parametrize(
    ("spec", "annotated"),
    [
        ({"podGroupTemplates": [LEAF], "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"}}, False),
        ({"podGroupTemplates": [{**LEAF, "preemptionPolicy": "Never"}]}, True),
        (
            {
                "podGroupTemplates": [],
                "compositePodGroupTemplates": [
                    {"name": "root", "schedulingPolicy": COMPOSITE, "podGroupTemplates": [LEAF]}
                ],
            },
            True,
        ),
    ],
)
@pytest.mark.parametrize("kind", [one for one in NEWER if one.kind == "Workload"], ids=lambda kind: kind.version)
def test_a_workload_comes_back_as_it_was(kind: Kind, spec: dict[str, Any], annotated: bool) -> None:
    workload = made(kind, **spec)
    older, back = there_and_back(kind, workload)
    assert back == workload
    assert conversion.has_kept(older.metadata) is annotated


def test_what_both_versions_say_has_the_names_of_each() -> None:
    reference = {"workloadName": "w", "templateName": "t"}
    group = made(NEWER_POD_GROUP, schedulingPolicy=GANG, workloadRef=reference, disruptionMode={"all": {}})
    assert to_tree(convert(group, NEWER_POD_GROUP, POD_GROUP))["spec"] == {
        "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
        "schedulingPolicy": GANG,
        "disruptionMode": "PodGroup",
    }


def test_the_condition_has_the_name_of_its_version() -> None:
    condition = {
        "type": "PodGroupScheduled",
        "status": "True",
        "reason": "r",
        "message": "",
        "lastTransitionTime": None,
    }
    group = made(POD_GROUP, schedulingPolicy=GANG)
    group.status = from_tree(type(group.status), {"conditions": [condition, {**condition, "type": "Other"}]})
    newer = convert(group, POD_GROUP, NEWER_POD_GROUP)
    assert [one.type for one in newer.status.conditions] == ["PodGroupInitiallyScheduled", "Other"]
    assert convert(newer, NEWER_POD_GROUP, POD_GROUP) == group


@pytest.mark.parametrize("text", ["", "[]", '{"priority": "x"}', '{"other": 1}', "[" * 2000])
def test_an_annotation_that_cannot_be_read_counts_as_absent_and_is_refused(text: str) -> None:
    group = made(POD_GROUP, schedulingPolicy=GANG)
    group.metadata.annotations = {conversion.KEPT: text}
    assert convert(group, POD_GROUP, NEWER_POD_GROUP).spec.parent_composite_pod_group_name is None
    (error,) = strategy_for(POD_GROUP).validate(group)
    assert error.field == conversion.KEPT_PATH


def test_what_is_written_into_the_annotation_has_to_follow_the_rules() -> None:
    group = made(POD_GROUP, schedulingPolicy=GANG)
    group.metadata.annotations = {conversion.KEPT: '{"parentCompositePodGroupName":"no name"}'}
    assert [error.field for error in strategy_for(POD_GROUP).validate(group)] == ["spec.parentCompositePodGroupName"]
    bare = made(POD_GROUP, schedulingPolicy=GANG)
    assert [error.field for error in strategy_for(POD_GROUP).validate_update(group, bare)] == [conversion.KEPT_PATH]


def test_a_newer_client_does_not_write_the_annotation_itself() -> None:
    group = made(NEWER_POD_GROUP, schedulingPolicy=GANG)
    group.metadata.annotations = {conversion.KEPT: '{"parentCompositePodGroupName":"job"}'}
    assert convert(group, NEWER_POD_GROUP, POD_GROUP).metadata.annotations == {}


# What may be said and changed


def told(kind: Kind, new: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    strategy = strategy_for(kind)
    objects = [made(kind, **spec) for spec in (new, old) if spec is not None]
    for one in objects:
        strategy.default(one)
    errors = strategy.validate(objects[0]) + (strategy.validate_update(*objects) if old is not None else [])
    return [f"{error.field}: {error.detail}" for error in errors]


REF = {"workloadName": "w", "templateName": "t"}
ROOT = {"name": "root", "schedulingPolicy": COMPOSITE, "podGroupTemplates": [LEAF]}


def nested(levels: int) -> dict[str, Any]:
    """Templates of composite groups within each other, with one of a pod group in the innermost."""
    inner: dict[str, Any] = {"podGroupTemplates": [LEAF]}
    for level in range(levels):
        one = {"name": f"c{level}", "schedulingPolicy": COMPOSITE, **inner}
        inner = {"compositePodGroupTemplates": [one]}
    return inner


@pytest.mark.parametrize(
    ("kind", "spec", "errors"),
    [
        (NEWER_POD_GROUP, {"schedulingPolicy": GANG, "parentCompositePodGroupName": "job", "workloadRef": REF}, []),
        (
            NEWER_POD_GROUP,
            {"schedulingPolicy": {}},
            ["spec.schedulingPolicy: must specify one of: `basic`, `gang`"],
        ),
        (
            NEWER_POD_GROUP,
            {"schedulingPolicy": {"gang": {"minCount": 0}}},
            ["spec.schedulingPolicy.gang.minCount: "],
        ),
        (
            NEWER_POD_GROUP,
            {"schedulingPolicy": GANG, "disruptionMode": {"single": {}, "all": {}}},
            ["spec.disruptionMode: must specify exactly one of: `single`, `all`"],
        ),
        (
            NEWER_POD_GROUP,
            {"schedulingPolicy": GANG, "workloadRef": {"workloadName": "w"}},
            ["spec.workloadRef.templateName: "],
        ),
        (
            NEWER_POD_GROUP,
            {"schedulingPolicy": GANG, "resourceClaims": [{"name": "c"}, {"name": "c", "resourceClaimName": "d"}]},
            [
                "spec.resourceClaims[1]: ",
                "spec.resourceClaims[0]: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ],
        ),
        (COMPOSITE_POD_GROUP, {"schedulingPolicy": COMPOSITE, "workloadRef": REF}, []),
        (COMPOSITE_POD_GROUP, {"schedulingPolicy": COMPOSITE}, ["spec.workloadRef: "]),
        (
            COMPOSITE_POD_GROUP,
            {"schedulingPolicy": {"gang": {"minGroupCount": 0}}, "workloadRef": REF},
            ["spec.schedulingPolicy.gang.minGroupCount: "],
        ),
        (NEWER_WORKLOAD, {"podGroupTemplates": [LEAF]}, []),
        (NEWER_WORKLOAD, {"compositePodGroupTemplates": [ROOT]}, []),
        (NEWER_WORKLOAD, nested(3), []),
        (
            NEWER_WORKLOAD,
            nested(4),
            ["spec.compositePodGroupTemplates[0]: maximum template hierarchy depth is 4"],
        ),
        (
            NEWER_WORKLOAD,
            {"podGroupTemplates": [LEAF], "compositePodGroupTemplates": [ROOT]},
            ["spec: must specify exactly one of: `podGroupTemplates`, `compositePodGroupTemplates`"],
        ),
        (
            NEWER_WORKLOAD,
            {"compositePodGroupTemplates": [{**ROOT, "name": "leaf"}]},
            ["spec.compositePodGroupTemplates[0].podGroupTemplates.name: "],
        ),
        (
            NEWER_WORKLOAD,
            {"compositePodGroupTemplates": [{**ROOT, "priority": 5}]},
            ["spec: detected multiple priority configurations"],
        ),
    ],
)
def test_what_objects_may_say(kind: Kind, spec: dict[str, Any], errors: list[str]) -> None:
    assert told(kind, spec) == errors


@pytest.mark.parametrize(
    ("kind", "new", "old", "errors"),
    [
        (NEWER_POD_GROUP, {"schedulingPolicy": {"gang": {"minCount": 4}}}, {"schedulingPolicy": GANG}, []),
        (
            NEWER_POD_GROUP,
            {"schedulingPolicy": BASIC},
            {"schedulingPolicy": GANG},
            [
                "spec.schedulingPolicy.basic: field is immutable",
                "spec.schedulingPolicy.gang: field cannot be cleared once set",
            ],
        ),
        (
            NEWER_POD_GROUP,
            {"schedulingPolicy": GANG},
            {"schedulingPolicy": GANG, "parentCompositePodGroupName": "job"},
            ["spec.parentCompositePodGroupName: field is immutable"],
        ),
        (
            COMPOSITE_POD_GROUP,
            {"schedulingPolicy": {"gang": {"minGroupCount": 1}}, "workloadRef": REF},
            {"schedulingPolicy": COMPOSITE, "workloadRef": REF},
            ["spec.schedulingPolicy: field is immutable"],
        ),
        (
            NEWER_WORKLOAD,
            {"compositePodGroupTemplates": [{**ROOT, "schedulingPolicy": {"gang": {"minGroupCount": 1}}}]},
            {"compositePodGroupTemplates": [ROOT]},
            [],
        ),
        (
            NEWER_WORKLOAD,
            {"podGroupTemplates": [{**LEAF, "name": "other"}]},
            {"podGroupTemplates": [LEAF]},
            ["spec.podGroupTemplates[0]: item cannot be added", "spec.podGroupTemplates: item cannot be removed"],
        ),
        (
            NEWER_WORKLOAD,
            {"podGroupTemplates": [{**LEAF, "schedulingConstraints": {"topology": [{"key": "a"}]}}]},
            {"podGroupTemplates": [LEAF]},
            ["spec.podGroupTemplates[0].schedulingConstraints: field is immutable"],
        ),
    ],
)
def test_what_may_change(kind: Kind, new: dict[str, Any], old: dict[str, Any], errors: list[str]) -> None:
    assert told(kind, new, old) == errors
