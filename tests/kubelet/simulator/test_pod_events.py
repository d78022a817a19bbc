"""What simulated kubelets tell about pods."""

from __future__ import annotations

import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.simulator.events import ALL, NONE, WARNINGS, Told, about_deletion, chosen
from bayplan.kubelet.simulator.pods import next_step
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.support.timestamps import parse_rfc3339
from bayplan.testing.builders import CREATED, changed, container, pod

NOW = parse_rfc3339(CREATED)


def story(one: core_v1.Pod, *moments: float, choice: str = ALL) -> tuple[core_v1.Pod, list[Told]]:
    """The pod after a look at each of these moments, and what was told."""
    found: list[Told] = []
    settings = SimulatorSettings(nodes=1, events=choice)
    for moment in moments:
        step = next_step(one, NOW + moment, settings, "172.18.0.1", "10.128.0.2", 0.0)
        found += chosen(step.told, choice)
        if step.status is not None:
            one = changed(one, status=step.status)
    return one, found


def bound(image: str = "app:1", **annotations: str) -> core_v1.Pod:
    named = {f"bayplan.dev/{name}": value for name, value in annotations.items()}
    probe = core_v1.Probe(period_seconds=1, failure_threshold=1)
    meta = {"generation": 1, "uid": "u", "annotations": named}
    main = container(image=image, liveness_probe=probe)
    return pod("web", meta=meta, node_name="n", restart_policy="Always", containers=(main,))


def reasons(found: list[Told]) -> list[str]:
    return [one.reason for one in found]


def test_a_start_is_told_if_it_is_asked_for() -> None:
    running, found = story(bound(), 0, 0, 5)
    assert reasons(found) == ["Pulled", "Created", "Started"]
    assert [each.container for each in found] == ["main"] * 3
    assert found[1].message == "Container created"
    assert story(bound(), 0, 0, choice=WARNINGS)[1] == []
    stopped = about_deletion(running)
    assert reasons(list(chosen(stopped, ALL))) == ["Killing"]
    assert chosen(stopped, WARNINGS) == ()


def test_a_crash_loop_is_told_once_per_round() -> None:
    _, found = story(bound(**{"run-seconds": "1", "exit-code": "1"}), 0, 0, 1, 2, 3, choice=WARNINGS)
    text = "Back-off restarting failed container main in pod web_default(u)"
    assert found == [Told("Warning", "BackOff", text, "main")]
    assert story(bound(**{"run-seconds": "1", "exit-code": "1"}), 0, 0, 1, 2, choice=NONE)[1] == []


def test_images_that_are_not_there_and_kills_are_told() -> None:
    pulled = ["Pulling", "Failed", "Failed"]
    assert reasons(story(bound("nonexistent"), 0, 0, 1, choice=WARNINGS)[1]) == pulled
    waiting, found = story(bound("nonexistent"), 0, 0, 2, 5, choice=WARNINGS)
    assert reasons(found) == [*pulled, "BackOff", "Failed"]
    assert [each.message for each in found[2:]] == [
        "Error: ErrImagePull",
        'Back-off pulling image "nonexistent"',
        "Error: ImagePullBackOff",
    ]
    assert reasons(story(waiting, 10, choice=WARNINGS)[1]) == pulled
    assert reasons(story(bound(**{"oom-seconds": "1"}), 0, 0, 1, choice=WARNINGS)[1]) == ["OOMKilling"]
    assert reasons(story(bound(live="false"), 0, 0, 1, choice=WARNINGS)[1]) == ["Unhealthy", "Killing"]


def test_lost_readiness_is_told() -> None:
    one, _ = story(bound(), 0, 0)
    one.metadata.annotations = {"bayplan.dev/ready": "false"}
    assert reasons(story(one, 1, choice=WARNINGS)[1]) == ["Unhealthy"]


@pytest.mark.parametrize(
    ("annotation", "value", "words"),
    [
        ("run-secs", "5", "nothing reads it; did you mean bayplan.dev/run-seconds?"),
        ("start-seconds", "soon", "'soon' is no duration such as 2, 1.5s or 1m30s"),
        ("run-seconds.main", "uniform(1,2)", "is no duration"),
        ("run-seconds", "normal(1)", "normal takes two numbers"),
        ("exit-code", "1@often", "'1@often' is no exit code such as 1 or 1@20%"),
        ("ready", "no", "'no' is neither true nor false"),
        ("cpu-usage", "lots", "'lots' is no usage such as 300m"),
        ("memory-usage", "50Mi@0s 50%@1m", "is no usage"),
    ],
)
def test_an_annotation_that_cannot_be_understood_is_told_once(annotation: str, value: str, words: str) -> None:
    _, found = story(bound(**{annotation: value}), 0, 0, 5, 10, choice=WARNINGS)
    invalid = [one for one in found if one.reason == "InvalidAnnotation"]
    assert [one.message.startswith(f"annotation bayplan.dev/{annotation}: ") for one in invalid] == [True]
    assert words in invalid[0].message


def test_annotations_that_can_be_read_are_not_told() -> None:
    good = {
        "start-seconds": "lognormal(4,0.5)",
        "pull-seconds": "1..3",
        "run-seconds.main": "1m30s",
        "exit-code.main": "1@10%",
        "ready": "True",
        "cpu-usage": "wave(50m,400m,1h)",
        "cpu-usage.main": "50%",
        "memory-usage": "50Mi@0s 600Mi@10m",
        "deadline-after": "read by the scheduler",
        "affinity-during-execution": "read by scheduler and controllers",
        "vertical-min.main": "read by a controller",
    }
    assert story(bound(**good), 0, 0, choice=WARNINGS)[1] == []
