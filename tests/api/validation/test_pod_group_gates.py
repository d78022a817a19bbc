"""Fields of pod groups and workloads that feature gates hide: what is off is taken out, unless the object has it already."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api import codec
from bayplan.api.conversions.kinds import convert
from bayplan.api.feature_gates import (
    COMPOSITE_POD_GROUPS,
    POD_GROUP_PREEMPTION_POLICY,
    TOPOLOGY_AWARE,
    WORKLOAD_PREEMPTION,
)
from bayplan.api.kinds import Kind
from bayplan.api.optional_kinds import NEWER_POD_GROUP, NEWER_WORKLOAD, POD_GROUP, WORKLOAD
from bayplan.api.strategies import strategy_for
from bayplan.api.types import scheduling_v1alpha2, scheduling_v1alpha3
from bayplan.api.validation.newer_pod_groups import gate_composite, gate_group, gate_workload
from bayplan.api.validation.pod_groups import apply_gates

BASIC: dict[str, Any] = {"schedulingPolicy": {"basic": {}}}
CONSTRAINTS = {"schedulingConstraints": {"topology": [{"key": "zone"}]}}
PREEMPTS = {"preemptionPolicy": "Never"}
PARENT = {"parentCompositePodGroupName": "p"}
PRIORITY = {"priorityClassName": "c", "priority": 1}
BEFORE = pytest.mark.parametrize(
    ("has_old", "had_it", "is_kept"), [(False, False, False), (True, False, False), (True, True, True)]
)
"""Whether there was an object before, with the field, and whether the field stays then though its gate is off."""


def older(**spec: Any) -> scheduling_v1alpha2.PodGroupSpec:
    return codec.from_tree(scheduling_v1alpha2.PodGroup, {"spec": {**BASIC, **spec}}).spec


@BEFORE
@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize(
    ("gate", "fields", "name", "empty"),
    [
        (TOPOLOGY_AWARE, CONSTRAINTS, "scheduling_constraints", None),
        (WORKLOAD_PREEMPTION, {"disruptionMode": "PodGroup"}, "disruption_mode", "Pod"),
        (WORKLOAD_PREEMPTION, {"priorityClassName": "c"}, "priority_class_name", ""),
        (WORKLOAD_PREEMPTION, {"priority": 1}, "priority", None),
    ],
)
def test_fields_of_older_groups(
    gate: str, fields: dict[str, Any], name: str, empty: Any, is_on: bool, has_old: bool, had_it: bool, is_kept: bool
) -> None:
    spec = older(**fields)
    given = getattr(spec, name)
    old = older(**(fields if had_it else {})) if has_old else None
    others = {TOPOLOGY_AWARE, WORKLOAD_PREEMPTION} - {gate}
    apply_gates(spec, old, others | {gate} if is_on else others)
    assert getattr(spec, name) == (given if is_on or is_kept else empty)


@BEFORE
@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize(
    ("gate", "fields", "name"),
    [
        (TOPOLOGY_AWARE, CONSTRAINTS, "scheduling_constraints"),
        (COMPOSITE_POD_GROUPS, PARENT, "parent_composite_pod_group_name"),
        (POD_GROUP_PREEMPTION_POLICY, PREEMPTS, "preemption_policy"),
    ],
)
def test_fields_of_groups(
    gate: str, fields: dict[str, Any], name: str, is_on: bool, has_old: bool, had_it: bool, is_kept: bool
) -> None:
    def group(more: dict[str, Any]) -> scheduling_v1alpha3.PodGroup:
        return codec.from_tree(scheduling_v1alpha3.PodGroup, {"spec": {**BASIC, **more}})

    found = group(fields)
    given = getattr(found.spec, name)
    old = group(fields if had_it else {}) if has_old else None
    others = {TOPOLOGY_AWARE, COMPOSITE_POD_GROUPS, POD_GROUP_PREEMPTION_POLICY} - {gate}
    gate_group(found, old, others | {gate} if is_on else others)
    assert given is not None
    assert getattr(found.spec, name) == (given if is_on or is_kept else None)


@BEFORE
@pytest.mark.parametrize("is_on", [True, False])
def test_fields_of_composite_groups(is_on: bool, has_old: bool, had_it: bool, is_kept: bool) -> None:
    def group(more: dict[str, Any]) -> scheduling_v1alpha3.CompositePodGroup:
        return codec.from_tree(scheduling_v1alpha3.CompositePodGroup, {"spec": {**BASIC, **more}})

    found, old = group(PREEMPTS), group(PREEMPTS if had_it else {}) if has_old else None
    gate_composite(found, old, {POD_GROUP_PREEMPTION_POLICY} if is_on else set())
    assert found.spec.preemption_policy == ("Never" if is_on or is_kept else None)


def workload(**spec: Any) -> scheduling_v1alpha3.Workload:
    return codec.from_tree(scheduling_v1alpha3.Workload, {"spec": spec})


def template(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, **BASIC, **more}


@BEFORE
@pytest.mark.parametrize("is_on", [True, False])
def test_composite_templates_of_workloads(is_on: bool, has_old: bool, had_it: bool, is_kept: bool) -> None:
    tree = {"compositePodGroupTemplates": [template("c", podGroupTemplates=[template("l")])]}
    found, old = workload(**tree), workload(**(tree if had_it else {})) if has_old else None
    gate_workload(found, old, {COMPOSITE_POD_GROUPS} if is_on else set())
    assert bool(found.spec.composite_pod_group_templates) == (is_on or is_kept)


def test_templates_of_workloads_keep_what_those_of_their_names_had() -> None:
    old = workload(podGroupTemplates=[template("had", **PREEMPTS), template("had-not")])
    new = workload(podGroupTemplates=[template(name, **PREEMPTS) for name in ("new", "had-not", "had")])
    gate_workload(new, old, ())
    assert [one.preemption_policy for one in new.spec.pod_group_templates] == [None, None, "Never"]


@BEFORE
@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize(
    ("newer", "older", "spec", "field"),
    [
        (NEWER_POD_GROUP, POD_GROUP, {**BASIC, **PARENT}, "parentCompositePodGroupName"),
        (
            NEWER_WORKLOAD,
            WORKLOAD,
            {"compositePodGroupTemplates": [template("c", podGroupTemplates=[template("l")])]},
            "compositePodGroupTemplates",
        ),
    ],
    ids=["group", "workload"],
)
def test_fields_that_only_newer_versions_have(
    newer: Kind, older: Kind, spec: dict[str, Any], field: str, is_on: bool, has_old: bool, had_it: bool, is_kept: bool
) -> None:
    """The version in which both are stored keeps them in an annotation."""

    def stored(spec: dict[str, Any]) -> Any:
        return convert(codec.from_tree(newer.type, {"metadata": {"name": "g"}, "spec": spec}), newer, older)

    rest = {name: value for name, value in spec.items() if name != field}
    found, old = stored(spec), stored(spec if had_it else rest) if has_old else None
    strategy_for(older).apply_gates(found, old, {COMPOSITE_POD_GROUPS} if is_on else set())
    assert (field in codec.to_tree(convert(found, older, newer))["spec"]) == (is_on or is_kept)
