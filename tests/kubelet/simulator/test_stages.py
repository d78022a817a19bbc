"""Stages as kwok has them: read, chosen, waited for and carried out."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.kubelet.simulator.durations import chance
from bayplan.kubelet.simulator.stages.expressions import at_moment
from bayplan.kubelet.simulator.stages.stage_paths import PathError, parse_path
from bayplan.kubelet.simulator.stages.stages import (
    Delete,
    Event,
    Finalizers,
    Patch,
    Stage,
    StageError,
    body_of,
    choose,
    delay,
    read_stage,
)

PENDING = {
    "metadata": {"name": "web", "annotations": {"stage/delay": "3s", "stage/weight": "9"}, "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main"}]},
    "status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}], "started": False},
}


def stage(name: str = "one", **spec: Any) -> Stage:
    spec = {"resourceRef": {"kind": "Pod"}, "selector": {}, "next": {"delete": True}, **spec}
    found = read_stage({"metadata": {"name": name}, "spec": spec})
    assert found is not None
    return found


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


class TestPaths:
    @pytest.mark.parametrize(
        ("text", "found"),
        [
            (".status.phase", ["Pending"]),
            ('.metadata.annotations["stage/delay"]', ["3s"]),
            ('.metadata.annotations."stage/delay"', ["3s"]),
            ('.status.conditions.[] | select( .type == "Ready" ) | .status', ["False"]),
            ('.status.conditions[] | select(.type != "Ready") | .status', []),
            (".spec.containers[0].name", ["main"]),
            (".spec.containers[7].name", []),
            (".status.started", [False]),
            (".metadata.deletionTimestamp", []),
            (".metadata.name.deeper", []),
            (".", [PENDING]),
        ],
    )
    def test_what_is_found(self, text: str, found: list[Any]) -> None:
        assert parse_path(text).values(PENDING) == found

    @pytest.mark.parametrize("text", ["length", ".a | length", ".a + 1", ".a[1:2]"])
    def test_what_is_not_understood_is_named(self, text: str) -> None:
        with pytest.raises(PathError, match="is not supported"):
            parse_path(text)


class TestSelection:
    @pytest.mark.parametrize(
        ("selector", "fits"),
        [
            ({}, True),
            ({"matchLabels": {"app": "web"}}, True),
            ({"matchAnnotations": {"stage/delay": "4s"}}, False),
            ({"matchExpressions": [expression(".status.phase", "In", "Pending", "Running")]}, True),
            ({"matchExpressions": [expression(".status.phase", "NotIn", "Pending")]}, False),
            ({"matchExpressions": [expression(".status.podIP", "NotIn", "10.0.0.1")]}, True),
            ({"matchExpressions": [expression(".status.podIP", "DoesNotExist")]}, True),
            ({"matchExpressions": [expression(".status.phase", "DoesNotExist")]}, False),
            ({"matchExpressions": [expression(".status.started", "In", "false")]}, True),
            ({"matchExpressions": [{"jq": {"expression": ".status.phase", "operator": "Exists"}}]}, True),
        ],
    )
    def test_which_pods_a_stage_is_for(self, selector: dict[str, Any], fits: bool) -> None:
        assert stage(selector=selector).fits(PENDING) is fits

    def test_weights_decide_and_may_stand_in_the_pod(self) -> None:
        seldom = stage("seldom", weight=1)
        often = stage("often", weight=1, weightFrom={"expressionFrom": '.metadata.annotations["stage/weight"]'})
        never = stage("never", weight=0)
        draws = [choose((seldom, often, never), PENDING, chance("draw", str(index))) for index in range(1000)]
        names = [one.name for one in draws if one is not None]
        assert names.count("often") == pytest.approx(900, rel=0.05)
        assert names.count("never") == 0
        both = {one.name for index in range(100) if (one := choose((never, stage("other")), PENDING, index / 100))}
        assert both == {"never", "other"}, "without any weight each has the same chance"
        assert choose((), PENDING, 0.5) is None


class TestDelay:
    @pytest.mark.parametrize(
        ("given", "low", "high"),
        [
            ({}, 0.0, 0.0),
            ({"durationMilliseconds": 1500}, 1.5, 1.5),
            ({"durationMilliseconds": 1000, "jitterDurationMilliseconds": 5000}, 1.0, 5.0),
            ({"durationMilliseconds": 5000, "jitterDurationMilliseconds": 1000}, 1.0, 1.0),
            ({"durationFrom": {"expressionFrom": '.metadata.annotations["stage/delay"]'}}, 3.0, 3.0),
            (
                {"durationMilliseconds": 1000, "durationFrom": {"expressionFrom": ".metadata.annotations.none"}},
                1.0,
                1.0,
            ),
            ({"durationFrom": {"expressionFrom": ".metadata.name"}}, 0.0, 0.0),
        ],
    )
    def test_how_long_it_takes(self, given: dict[str, Any], low: float, high: float) -> None:
        assert delay(stage(delay=given), PENDING, 1000.0, 0.0) == pytest.approx(low)
        assert delay(stage(delay=given), PENDING, 1000.0, 1.0 - 1e-9) == pytest.approx(high)

    def test_a_moment_in_the_object_is_waited_for(self) -> None:
        pod = {"metadata": {"deletionTimestamp": "1970-01-01T00:17:00Z"}}
        given = {"durationFrom": {"expressionFrom": ".metadata.deletionTimestamp"}}
        assert delay(stage(delay=given), pod, 1000.0, 0.5) == pytest.approx(20.0)


class TestActions:
    def test_what_comes_next_in_order(self) -> None:
        given = {
            "event": {"type": "Normal", "reason": "Created", "message": "made"},
            "finalizers": {"add": [{"value": "a"}], "remove": [{"value": "b"}]},
            "statusTemplate": "phase: Running\nstartTime: {{ Now | Quote }}\n",
        }
        event, finalizers, patch = stage(next=given).actions
        assert event == Event("Normal", "Created", "made")
        assert isinstance(finalizers, Finalizers)
        assert finalizers.apply(("b", "c")) == ["c", "a"]
        assert Finalizers(empty=True).apply(("b",)) == []
        assert isinstance(patch, Patch)
        assert (patch.subresource, patch.content_type) == ("status", "application/strategic-merge-patch+json")
        body = body_of(patch, PENDING, {"Now": lambda: "2026-01-01T00:00:00Z"})
        assert body == {"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}
        assert stage(next={"delete": True, "statusTemplate": "ignored"}).actions == (Delete(),)

    def test_of_what_is_deleted_only_events_are_left(self) -> None:
        patch = {"template": "metadata: {}"}
        steps = [{"delete": True, "patch": patch}, {"event": {"reason": "Gone"}, "patch": patch, "apply": patch}]
        assert stage(next=None, steps=steps).actions == (Delete(), Event("Normal", "Gone", ""))

    def test_steps_are_the_newer_form(self) -> None:
        patch = {"root": "metadata", "template": "labels: {seen: 'yes'}", "type": "merge"}
        steps = [{"event": {"reason": "Seen"}}, {"patch": patch}, {"delete": True}]
        event, written, gone = stage(next=None, steps=steps).actions
        assert isinstance(written, Patch)
        assert (type(event), type(gone), written.content_type) == (Event, Delete, "application/merge-patch+json")
        assert body_of(written, PENDING, {}) == {"metadata": {"labels": {"seen": "yes"}}}

    def test_a_template_that_makes_no_yaml_is_told(self) -> None:
        [patch] = stage(next={"statusTemplate": "a: {{ .metadata.name }}: b"}).actions
        assert isinstance(patch, Patch)
        with pytest.raises(StageError, match="the template makes no YAML"):
            body_of(patch, PENDING, {})


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"selector": None}, "stage one: spec.selector: is required"),
        (
            {"selector": {"matchExpressions": [{"cel": {"expression": "nothing"}}]}},
            "stage one: spec.selector.matchExpressions[0].cel: undeclared reference to 'nothing'",
        ),
        (
            {"selector": {"matchExpressions": [expression(".a", "Near")]}},
            "spec.selector.matchExpressions[0].operator: 'Near' is not one of In, NotIn, Exists, DoesNotExist",
        ),
        ({"delay": {"durationFrom": {"cel": {}}}}, "spec.delay.durationFrom.cel: expression is required"),
        ({"weightFrom": {"expressionFrom": "length"}}, "stage one: 'length': 'length' is not supported"),
        ({"next": {"statusTemplate": "{{ nope }}"}}, "stage one: line 1: function 'nope' is not supported"),
        (
            {"steps": [{"apply": {"type": "json"}}]},
            "spec.steps[0].apply.type: 'json' is not one of apply, merge, strategic",
        ),
        (
            {"steps": [{"apply": {"template": "a: b", "impersonation": {"username": "x"}}}]},
            "spec.steps[0].apply.impersonation: is not supported",
        ),
        ({"next": {"patches": [{"type": "odd"}]}}, "spec.next.patches[0].type: 'odd' is not one of"),
        ({"next": {"patches": [{"impersonation": {"username": "x"}}]}}, "impersonation: is not supported"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_at_once(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(StageError) as refused:
        stage(**spec)
    assert message in str(refused.value)


def cel(text: str) -> dict[str, Any]:
    return {"cel": {"expression": text}}


class TestExpressions:
    """CEL over `self`."""

    @pytest.mark.parametrize(
        ("text", "fits"),
        [
            ("self.status.phase == 'Pending'", True),
            ("has(self.metadata.deletionTimestamp)", False),
            ("'no' in self.metadata.annotations", False),
            ("self.SinceSecond() > 10.0", True),
            ("1", False),
        ],
    )
    def test_selectors(self, text: str, fits: bool) -> None:
        one = stage(selector={"matchExpressions": [cel(text)]})
        metadata = {"name": "web", "creationTimestamp": "1970-01-01T00:00:00Z"}
        data = {**PENDING, "metadata": metadata}
        assert one.has_expressions
        with at_moment(11.0, lambda: 0.5):
            assert one.fits(data) is fits
        assert "annotations" not in metadata, "the object stays as it is"

    def test_one_that_fails_is_told(self) -> None:
        one = stage(selector={"matchExpressions": [cel("self.spec.nothing == 1")]})
        with pytest.raises(StageError, match="no such key: nothing"), at_moment(0.0, lambda: 0.5):
            one.fits(PENDING)

    @pytest.mark.parametrize(
        ("text", "seconds"),
        [
            ("duration('1m30s')", 90.0),
            ("'250ms'", 0.25),
            ("Now() + duration('5s')", 5.0),
            ("timestamp('1970-01-01T00:00:40Z')", 30.0),
        ],
    )
    def test_delays(self, text: str, seconds: float) -> None:
        with at_moment(10.0, lambda: 0.5):
            assert delay(stage(delay={"durationFrom": cel(text)}), PENDING, 10.0, 0.0) == seconds

    def test_weights(self) -> None:
        stages = [stage("one", weightFrom=cel("1")), stage("three", weightFrom=cel("self.spec.containers.size() * 3"))]
        data = {**PENDING, "spec": {"containers": [{"name": "c"}]}}
        with at_moment(0.0, lambda: 0.5):
            chosen = [choose(stages, data, chance) for chance in (0.0, 0.2, 0.3, 0.9)]
        assert [one.name for one in chosen if one is not None] == ["one", "one", "three", "three"]
