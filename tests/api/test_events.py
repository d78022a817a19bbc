"""Rules of events: what old clients may write, what `events.k8s.io` asks for besides, and by what they are selected."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api import codec
from bayplan.api.errors import FieldError
from bayplan.api.strategies.core.events import STRATEGY
from bayplan.api.types import core_v1, events_v1

TIME = "2026-01-02T03:04:05.000006Z"


def core(namespace: str = "shop", involved: str = "shop", **more: Any) -> core_v1.Event:
    tree = {
        "metadata": {"name": "e", "namespace": namespace},
        "involvedObject": {"kind": "Pod", "namespace": involved, "name": "web"},
        **more,
    }
    found: core_v1.Event = codec.from_tree(core_v1.Event, tree)
    return found


def new(**more: Any) -> events_v1.Event:
    tree = {
        "metadata": {"name": "e", "namespace": "shop"},
        "regarding": {"kind": "Pod", "namespace": "shop", "name": "web"},
        "eventTime": TIME,
        "type": "Normal",
        "reportingController": "example.com/c",
        "reportingInstance": "c-0",
        "action": "Act",
        "reason": "Why",
        **more,
    }
    found: events_v1.Event = codec.from_tree(events_v1.Event, tree)
    return found


def told(errors: list[FieldError]) -> list[str]:
    return [f"{error.field} {error.type.name}" for error in errors]


@pytest.mark.parametrize(
    ("source", "reporter", "selected"),
    [("kubelet", "", "kubelet"), ("", "example.com/c", "example.com/c"), ("kubelet", "example.com/c", "kubelet")],
)
def test_an_event_is_selected_by_its_source_or_else_by_who_reports_it(
    source: str, reporter: str, selected: str
) -> None:
    old = STRATEGY.selectable_fields(core(source={"component": source}, reportingComponent=reporter))
    assert (old["source"], old["reportingComponent"]) == (selected, reporter)
    assert old["involvedObject.name"] == "web"
    newer = STRATEGY.selectable_fields(
        new(deprecatedSource={"component": source}, reportingController=reporter, type="Warning")
    )
    assert (newer["source"], newer["reportingComponent"], newer["type"]) == (selected, reporter, "Warning")
    assert newer["involvedObject.kind"] == "Pod"


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (core(), []),
        (core(involved="other"), ["involvedObject.namespace INVALID"]),
        (core("default", ""), []),
        (core("kube-system", ""), ["involvedObject.namespace INVALID"]),
        (
            core(
                "kube-system", "", eventTime=TIME, reportingComponent="c", reportingInstance="i", action="A", reason="R"
            ),
            [],
        ),
        (
            core("shop", "", eventTime=TIME, reportingComponent="c", reportingInstance="i", action="A", reason="R"),
            ["involvedObject.namespace INVALID"],
        ),
        (new(), []),
        (new(reason="", action="a" * 128), ["reason REQUIRED"]),
        (new(action="a" * 129), ["action INVALID"]),
        (new(note="n" * 1024), []),
        (new(note="n" * 1025), ["message INVALID"]),
        (new(reportingController="a b"), ["reportingController INVALID"]),
    ],
)
def test_events_of_both_groups(event: core_v1.Event | events_v1.Event, expected: list[str]) -> None:
    assert told(STRATEGY.validate(event)) == expected


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, []),
        ({"type": "Bad"}, ["type INVALID"]),
        ({"eventTime": None}, ["eventTime REQUIRED"]),
        ({"deprecatedCount": 1}, ["count INVALID"]),
        ({"deprecatedSource": {"host": "h"}}, ["source INVALID"]),
        ({"deprecatedFirstTimestamp": "2026-01-02T03:04:05Z"}, ["firstTimestamp INVALID"]),
        ({"series": {"count": 2, "lastObservedTime": TIME}}, []),
        ({"series": {"count": 1, "lastObservedTime": TIME}}, ["series.count INVALID"]),
        ({"series": {"count": 2}}, ["series.lastObservedTime REQUIRED"]),
    ],
)
def test_new_events_of_the_newer_group(more: dict[str, Any], expected: list[str]) -> None:
    assert told(STRATEGY.validate_create(new(**more))) == expected


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, []),
        ({"series": {"count": 2, "lastObservedTime": TIME}}, []),
        ({"series": {"count": 1, "lastObservedTime": TIME}}, ["series.count INVALID"]),
        ({"note": "n"}, ["message INVALID"]),
        ({"type": "Warning"}, ["type INVALID"]),
        ({"reportingInstance": "c-1"}, ["reportingInstance INVALID"]),
    ],
)
def test_only_the_series_of_an_event_changes(more: dict[str, Any], expected: list[str]) -> None:
    assert told(STRATEGY.validate_update(new(**more), new())) == expected


def test_old_clients_may_change_what_they_like() -> None:
    assert STRATEGY.validate_update(core(reason="Other", message="m"), core()) == []
    assert STRATEGY.validate_create(core()) == []
