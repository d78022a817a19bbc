"""The table of feature gates: consistent with the list of 1.36, and with itself."""

from __future__ import annotations

import pytest

from bayplan.cli.flags.feature_gates import known_gates
from bayplan.simulation.rehearsal.gates import HISTORIES, LATEST, VERSIONS, changes, gates_on


def test_the_last_release_has_the_defaults_and_locks_of_the_versioned_feature_list() -> None:
    known = known_gates()
    for one in HISTORIES:
        assert one.is_on(LATEST) == known[one.name].default, one.name
        assert one.is_locked(LATEST) == known[one.name].is_locked, one.name


@pytest.mark.parametrize(
    ("version", "gate", "is_on", "is_locked"),
    [
        ("1.33", "DynamicResourceAllocation", False, False),
        ("1.34", "DynamicResourceAllocation", True, False),
        ("1.35", "DynamicResourceAllocation", True, True),
        ("1.33", "PodLevelResources", False, False),
        ("1.34", "PodLevelResources", True, False),
        ("1.33", "SchedulerQueueingHints", True, False),
        ("1.34", "SchedulerQueueingHints", True, True),
        ("1.35", "NodeDeclaredFeatures", False, False),
        ("1.36", "NodeDeclaredFeatures", True, False),
        ("1.35", "VolumeAttributesClass", True, False),
        ("1.36", "VolumeAttributesClass", True, True),
    ],
)
def test_a_gate_is_on_and_locked_as_in_that_release(version: str, gate: str, is_on: bool, is_locked: bool) -> None:
    history = next(one for one in HISTORIES if one.name == gate)
    assert (history.is_on(version), history.is_locked(version)) == (is_on, is_locked)


def test_later_releases_switch_on_more() -> None:
    counts = [len(gates_on(version)) for version in VERSIONS]
    assert counts == sorted(set(counts))


def test_equal_releases_differ_in_no_gate() -> None:
    assert changes("1.35", "1.35") == ()
    assert {one.name for one in changes("1.33", "1.36")} == {one.name for one in HISTORIES}
    assert [one.name for one in changes("1.34", "1.35")] == [
        "DynamicResourceAllocation",
        "InPlacePodVerticalScaling",
        "NominatedNodeNameForExpectation",
        "OpportunisticBatching",
    ]
