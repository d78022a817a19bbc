"""What the recorder keeps of writes, and what a picture shows of objects."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.simulation.lessons import code_places
from bayplan.simulation.lessons.code_places import locate
from bayplan.simulation.lessons.lesson import CodePlace
from bayplan.simulation.lessons.recorder import Recorder, state_of
from bayplan.simulation.trace import Write


def write(after: dict[str, Any] | None, before: dict[str, Any] | None = None, at: float = 1.0) -> Write:
    """A write as the trace tells of it."""
    verb = "delete" if after is None else "update" if before is not None else "create"
    tree = after or before or {}
    stored = [None if one is None else msgspec.json.encode(one) for one in (after, before)]
    return Write(at, 7, "someone", verb, f"{tree['kind']}/{tree['metadata']['name']}", stored[0], stored[1])


def an_object(kind: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": "x"}, **fields}


def test_writes_before_the_beginning_make_the_first_state_and_later_ones_are_changes() -> None:
    recorder = Recorder()
    one, other = an_object("Node"), {**an_object("Node"), "metadata": {"name": "gone"}}
    recorder.take(write(one))
    recorder.take(write(other))
    recorder.take(write(None, other))
    recorder.take(write(an_object("Event", reason="Old")))
    recorder.take(write(an_object("ConfigMap")))
    recorder.begin(10.0)
    recorder.take(write({**one, "spec": {"unschedulable": True}}, one, at=12.5))
    assert [(each.kind, each.name, each.at) for each in recorder.initial] == [("Node", "x", 0.0)]
    (change,) = recorder.changes
    assert (change.at, change.verb, change.actor, change.revision) == (2.5, "update", "someone", 7)
    assert [each.path for each in change.difference] == ["spec.unschedulable"]
    assert recorder.initial[0].difference == []


def test_what_no_scenario_tells_of_is_left_out() -> None:
    recorder = Recorder()
    recorder.begin(0.0)
    event = an_object("Event", count=1)
    for one in (write(an_object("Lease")), write(an_object("EndpointSlice")), write({**event, "count": 2}, event)):
        recorder.take(one)
    assert recorder.changes == []
    recorder.take(write(event))
    assert [(each.kind, each.difference) for each in recorder.changes] == [("Event", [])]


def test_an_object_that_is_deleted_has_no_state_and_no_difference() -> None:
    recorder = Recorder()
    recorder.begin(0.0)
    pod = an_object("Pod", spec={"nodeName": "a"})
    recorder.take(write(pod))
    assert recorder.first_named("Pod", "x*") == "x"
    assert recorder.first_named("Pod", "y*") is None
    recorder.take(write(None, pod))
    assert recorder.first_named("Pod", "x*") is None
    gone = recorder.changes[-1]
    assert (gone.verb, gone.name, gone.state, gone.difference) == ("delete", "x", None, [])


def conditions(**states: str) -> list[dict[str, str]]:
    return [{"type": name, "status": state} for name, state in states.items()]


@pytest.mark.parametrize(
    ("pod", "place"),
    [
        (an_object("Pod"), "waiting"),
        (an_object("Pod", spec={"nodeName": "a"}, status={"phase": "Pending"}), "starting"),
        (an_object("Pod", spec={"nodeName": "a"}, status={"phase": "Running"}), "running"),
        (an_object("Pod", spec={"nodeName": "a"}, status={"phase": "Running", "conditions": conditions(Ready="False")}), "running"),
        (an_object("Pod", spec={"nodeName": "a"}, status={"phase": "Running", "conditions": conditions(Ready="True")}), "ready"),
        (an_object("Pod", spec={"nodeName": "a"}, status={"phase": "Failed"}), "ended"),
        ({"kind": "Pod", "metadata": {"name": "x", "deletionTimestamp": "2026"}, "status": {"phase": "Running"}}, "leaving"),
    ],
)  # fmt: skip
def test_a_pod_is_at_one_place_of_its_way(pod: dict[str, Any], place: str) -> None:
    assert state_of(pod)["place"] == place


def test_a_node_shows_what_keeps_pods_away() -> None:
    node = {
        "kind": "Node",
        "metadata": {"name": "a", "labels": {"topology.kubernetes.io/zone": "z"}},
        "spec": {"unschedulable": True, "taints": [{"key": "gpu", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "4"}, "conditions": conditions(Ready="True")},
    }
    expected = {"ready": True, "cordoned": True, "taints": ["gpu:NoSchedule"], "zone": "z", "cpu": "4"}
    assert state_of(node) == expected
    unknown = {**node, "status": {"conditions": conditions(Ready="Unknown")}}
    assert state_of(unknown)["ready"] is False
    assert state_of(an_object("Node")) == {"ready": False, "cordoned": False, "taints": [], "zone": "", "cpu": ""}


def test_an_event_says_what_it_is_about() -> None:
    about = {"kind": "Pod", "name": "web"}
    event = an_object("Event", reason="Scheduled", message="to a", type="Normal", involvedObject=about)
    assert state_of(event) == {"reason": "Scheduled", "message": "to a", "type": "Normal", "about": "Pod web"}


def test_workloads_show_their_counts_and_other_kinds_nothing() -> None:
    deployment = an_object("Deployment", spec={"replicas": 3}, status={"readyReplicas": 2, "replicas": 3})
    assert state_of(deployment) == {"wanted": 3, "ready": 2, "made": 3}
    assert state_of(an_object("ConfigMap")) == {}


def test_long_code_is_cut_off_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    place = CodePlace("simulation/lessons/recorder.py", "Recorder.take")
    whole = locate(place)
    assert "more" not in whole.source.splitlines()[-1]
    lines = len(whole.source.splitlines())
    monkeypatch.setattr(code_places, "_MOST_LINES", lines)
    assert locate(place) == whole
    monkeypatch.setattr(code_places, "_MOST_LINES", 3)
    assert locate(place).source.splitlines()[-1] == f"... and {lines - 3} lines more"
