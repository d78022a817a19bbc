"""Times and conditions that the rules of a kind set: when something began, and that its deletion has."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api import codec
from bayplan.api.strategies.apiextensions.customresourcedefinitions import STRATEGY as DEFINITIONS
from bayplan.api.strategies.core.namespaces import STRATEGY as NAMESPACES
from bayplan.api.strategies.core.persistentvolumes import STRATEGY as VOLUMES
from bayplan.api.strategies.resource.devicetaintrules import STRATEGY as TAINT_RULES
from bayplan.api.strategies.resource.resourceslices import STRATEGY as SLICES
from bayplan.api.types import apiextensions_v1, core_v1, resource_v1, resource_v1alpha3

BEFORE, OTHER, NOW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"
NOW_SECONDS = 1767398400.0
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


def volume(phase: str, since: str | None) -> core_v1.PersistentVolume:
    tree = {"metadata": {"name": "v"}, "status": {"phase": phase, "lastPhaseTransitionTime": since}}
    found: core_v1.PersistentVolume = codec.from_tree(core_v1.PersistentVolume, tree)
    return found


@pytest.mark.parametrize(
    ("phase", "since", "expected"),
    [
        pytest.param("Bound", BEFORE, NOW, id="a phase begins"),
        pytest.param("Bound", None, NOW, id="a phase begins, without a time"),
        pytest.param("Bound", OTHER, OTHER, id="its writer says when"),
        pytest.param("Available", None, BEFORE, id="it goes on"),
        pytest.param("Available", BEFORE, BEFORE, id="it goes on with its time"),
        pytest.param("Available", OTHER, OTHER, id="its writer knows better"),
    ],
)
def test_a_phase_of_a_volume_begins_when_it_is_told(phase: str, since: str | None, expected: str) -> None:
    old, new = volume("Available", BEFORE), volume(phase, since)
    VOLUMES.prepare_status_update(new, old)
    VOLUMES.renew_status_times(new, old, NOW_SECONDS)
    assert new.status.last_phase_transition_time == expected


@pytest.mark.parametrize(("given", "expected"), [("Bound", "Bound"), ("", "Pending")])
def test_a_volume_without_a_phase_is_pending(given: str, expected: str) -> None:
    found = volume(given, None)
    VOLUMES.default(found)
    assert found.status.phase == expected


def rule(effect: str, since: str | None) -> resource_v1alpha3.DeviceTaintRule:
    tree = {"metadata": {"name": "r"}, "spec": {"taint": {"key": "k", "effect": effect, "timeAdded": since}}}
    found: resource_v1alpha3.DeviceTaintRule = codec.from_tree(resource_v1alpha3.DeviceTaintRule, tree)
    return found


@pytest.mark.parametrize(
    ("effect", "since", "expected"),
    [
        ("NoExecute", BEFORE, NOW),
        ("NoExecute", OTHER, OTHER),
        ("NoSchedule", BEFORE, BEFORE),
        ("NoSchedule", OTHER, OTHER),
    ],
)
def test_a_taint_of_devices_is_new_if_its_effect_is(effect: str, since: str, expected: str) -> None:
    new = rule(effect, since)
    TAINT_RULES.renew_times(new, rule("NoSchedule", BEFORE), NOW_SECONDS)
    assert new.spec.taint.time_added == expected


@pytest.mark.parametrize(("given", "expected"), [(None, NOW), (BEFORE, BEFORE)])
def test_taints_of_devices_have_a_time(given: str | None, expected: str) -> None:
    made = rule("NoSchedule", given)
    TAINT_RULES.default_times(made, NOW_SECONDS)
    assert made.spec.taint.time_added == expected
    taint = resource_v1.DeviceTaint(key="k", effect="NoSchedule", time_added=given)
    found = resource_v1.ResourceSlice(
        spec=resource_v1.ResourceSliceSpec(devices=(resource_v1.Device(name="d", taints=(taint,)),))
    )
    SLICES.default_times(found, NOW_SECONDS)
    assert taint.time_added == expected


@pytest.mark.parametrize(("given", "selected"), [(None, ""), ("n1", "n1")])
def test_slices_are_selected_by_their_node(given: str | None, selected: str) -> None:
    found = resource_v1.ResourceSlice(spec=resource_v1.ResourceSliceSpec(node_name=given, driver="d"))
    assert SLICES.selectable_fields(found) == {"spec.nodeName": selected, "spec.driver": "d"}


@pytest.mark.parametrize("finalizers", [(), ("a/b",), (CLEANUP,), ("a/b", CLEANUP)])
def test_a_definition_that_is_deleted_waits_for_its_objects(finalizers: tuple[str, ...]) -> None:
    conditions = [
        {"type": "Established", "status": "True"},
        {"type": "Terminating", "status": "False", "lastTransitionTime": BEFORE},
    ]
    tree: dict[str, Any] = {"metadata": {"name": "d", "finalizers": finalizers}, "status": {"conditions": conditions}}
    found = codec.from_tree(apiextensions_v1.CustomResourceDefinition, tree)
    shared = found.status
    assert DEFINITIONS.begin_deletion(found, NOW)
    assert found.metadata.finalizers == (*(one for one in finalizers if one != CLEANUP), CLEANUP)
    told = [(one.type, one.status, one.last_transition_time) for one in found.status.conditions]
    assert told == [("Established", "True", None), ("Terminating", "True", NOW)]
    assert len(shared.conditions) == 2
    assert shared.conditions[1].status == "False"


@pytest.mark.parametrize(
    ("deleted", "phase", "errors"),
    [
        (None, "Active", 0),
        (None, "Terminating", 1),
        (NOW, "Terminating", 0),
        (NOW, "Active", 1),
        (NOW, "", 1),
    ],
)
def test_a_namespace_is_terminating_from_its_deletion_on(deleted: str | None, phase: str, errors: int) -> None:
    tree = {"metadata": {"name": "n", "deletionTimestamp": deleted}, "status": {"phase": phase}}
    found = codec.from_tree(core_v1.Namespace, tree)
    assert [one.field for one in NAMESPACES.validate_status_update(found, found)] == ["status.Phase"] * errors
