"""What containers use, as kwok's objects say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.simulator.errors import KwokFileError
from bayplan.testing.builders import container, node, pod
from tests.kubelet.simulator.test_pod_answers import answers, document

NODE = node("n", cpu="4", memory="8Gi")
CREATED = "2026-01-01T00:00:00Z"
NOW = 1767225600.0 + 120  # two minutes later


def used(directory: Path, spec: dict[str, Any], annotations: dict[str, str] | None = None) -> dict[str, dict[str, str]]:
    web = pod("web", containers=(container("main", cpu="500m", memory="1Gi"), container("side")))
    web.metadata.creation_timestamp = CREATED
    web.metadata.annotations = annotations or {}
    found = answers(directory, document("ClusterResourceUsage", "all", spec)).usage(web, NODE, NOW, lambda: 0.25)
    return {name: {resource: str(amount) for resource, amount in amounts.items()} for name, amounts in found.items()}


def usages(**usage: dict[str, Any]) -> dict[str, Any]:
    return {"usages": [{"containers": ["main"], "usage": usage}]}


def test_quantities_are_taken_as_they_are(tmp_path: Path) -> None:
    spec = {
        "usages": [{"containers": ["main"], "usage": {"cpu": {"value": "250m"}}}, {"usage": {"memory": {"value": 5}}}]
    }
    assert used(tmp_path, spec) == {"main": {"cpu": "250m"}, "side": {"memory": "5"}}


@pytest.mark.parametrize(
    ("expression", "memory"),
    [
        ('Quantity("1Mi") * (pod.SinceSecond() / 60.0)', "2Mi"),
        ("SinceSecond(pod)", "120"),
        ('container.resources.requests["memory"] / 2.0', "512Mi"),
        ('Quantity(pod.spec.containers[0].resources.requests["memory"])', "1Gi"),
        ('node.status.capacity["memory"] * Rand()', "2Gi"),
        ("UnixSecond(Now()) - pod.metadata.creationTimestamp.UnixSecond()", "120"),
        ('"x" in pod.metadata.annotations ? Quantity(pod.metadata.annotations["x"]) : 1.0', "1"),
        ("-5.0", "0"),
        ("7", "7"),
        ('pod.metadata.labels["no"].size()', "0"),
        ('"text"', "0"),
        ("1.0 / 0.0", "0"),
    ],
)
def test_expressions_are_evaluated(tmp_path: Path, expression: str, memory: str) -> None:
    assert used(tmp_path, usages(memory={"expression": expression})) == {"main": {"memory": memory}}


def test_expressions_see_annotations(tmp_path: Path) -> None:
    expression = 'Quantity(pod.metadata.annotations["kwok.x-k8s.io/usage-cpu"])'
    found = used(tmp_path, usages(cpu={"expression": expression}), {"kwok.x-k8s.io/usage-cpu": "1500m"})
    assert found == {"main": {"cpu": "1500m"}}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({}, "value or expression is required"),
        ({"value": "much"}, "quantities must match"),
        ({"expression": "pod."}, "Syntax error"),
        ({"expression": "thing.size()"}, "undeclared reference to 'thing'"),
        ({"expression": 'Usage(pod, "cpu")'}, "undeclared reference to 'Usage'"),
    ],
)
def test_what_can_never_be_worked_out_is_refused(tmp_path: Path, value: dict[str, Any], problem: str) -> None:
    with pytest.raises(KwokFileError, match=rf"spec\.usages\[0\]\.usage\.cpu: .*{problem}"):
        answers(tmp_path, document("ResourceUsage", "web", usages(cpu=value)))


def test_without_objects_nothing_is_said(tmp_path: Path) -> None:
    web: core_v1.Pod = pod("web")
    assert answers(tmp_path).usage(web, NODE, NOW, lambda: 0.0) == {}
