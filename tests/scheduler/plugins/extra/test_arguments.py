"""What is wrong with the arguments of the extra plugins, by the place where it is."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.scheduler.configuration.settings import load
from bayplan.scheduler.errors import SettingsError
from bayplan.scheduler.framework import extra_arguments as arguments
from bayplan.scheduler.profile import Profile
from bayplan.scheduler.registry import EXTRA_PLUGINS
from bayplan.scheduler.snapshot.snapshot import Snapshot

ARGS = "profiles[0].pluginConfig[0].args"

WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("TenantFairness", {"queue": []}, 'unknown field "'),
    ("TenantFairness", {"queues": [{"weight": 1}]}, "queues[0].name: Required value"),
    ("TenantFairness", {"queues": [{"name": "a"}, {"name": "a"}]}, 'queues[1].name: Duplicate value: "a"'),
    ("TenantFairness", {"queues": [{"name": "a", "weight": 0}]}, "queues[0].weight: Invalid value: 0"),
    ("TenantFairness", {"queues": [{"name": "a", "quota": {"cpu": "much"}}]}, "queues[0].quota.cpu: Invalid value"),
    ("TenantFairness", {"queues": [{"name": "a", "quota": {"cpu": "-1"}}]}, "must not be negative"),
    ("TenantFairness", {"queues": [{"name": "a", "borrowingLimit": {"cpu": 1}}]}, "borrowingLimit.cpu: Invalid value"),
    ("EarliestDeadline", {"hopeless": "Maybe"}, 'hopeless: Unsupported value: "Maybe"'),
    ("EarliestDeadline", {"margin": "soon"}, "margin"),
    ("DataLocality", {"domainWeight": 101}, "domainWeight: Invalid value: 101"),
    ("DataLocality", {"topologyKey": 5}, "topologyKey"),
    ("Interference", {}, "classes: Required value"),
    ("Interference", {"classes": [{"name": "a", "noise": -1}]}, "classes[0].noise: Invalid value: -1"),
    ("TimeSlots", {"slots": [{"name": "a", "start": "25:00"}]}, 'slots[0].start: Invalid value: "25:00"'),
    ("TimeSlots", {"slots": [{"name": "a", "days": ["Someday"]}]}, 'slots[0].days: Unsupported value: "Someday"'),
    ("TimeSlots", {"slots": [{"name": "a", "utcOffset": "CET"}]}, 'slots[0].utcOffset: Invalid value: "CET"'),
    ("TimeSlots", {}, "slots: Required value"),
]


def settings(name: str, args: dict[str, Any]) -> Any:
    return load({"profiles": [{"pluginConfig": [{"name": name, "args": args}]}]}).profiles[0].arguments[name]


@pytest.mark.parametrize(("name", "args", "text"), WRONG, ids=[f"{one[0]} {one[2]}" for one in WRONG])
def test_what_is_wrong_is_named(name: str, args: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings(name, args)
    assert text in str(caught.value)
    assert ARGS in str(caught.value)


def test_quantities_are_in_the_units_of_the_columns() -> None:
    queue = {"name": "a", "weight": 2, "quota": {"cpu": "1500m", "memory": "1Gi"}, "borrowingLimit": {"cpu": 1}}
    assert settings("TenantFairness", {"queues": [queue]}).queues == (
        arguments.TenantQueue("a", 2, {"cpu": 1500, "memory": 1 << 30}, {"cpu": 1000}),
    )


def test_times_are_minutes_and_days_numbers() -> None:
    slot = {"name": "n", "days": ["Sat", "Sun"], "start": "22:30", "end": "06:00", "utcOffset": "-03:30"}
    assert settings("TimeSlots", {"slots": [slot]}).slots == (arguments.TimeSlot("n", (5, 6), 1350, 360, -210),)


def test_durations_are_seconds() -> None:
    found = settings("EarliestDeadline", {"defaultRunTime": "10m", "margin": "90s"})
    assert (found.default_run_time, found.margin, found.hopeless) == (600.0, 90.0, "Refuse")


def test_no_default_profile_has_them() -> None:

    profile = Profile(load(None).profiles[0], Snapshot())
    assert not {entry.name for entry in EXTRA_PLUGINS} & profile.plugins.keys()
    assert all(entry.load().name == entry.name for entry in EXTRA_PLUGINS)
