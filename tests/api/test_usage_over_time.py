"""Usage that changes while a pod runs."""

from __future__ import annotations

import pytest

from bayplan.api.simulated_usage import breakpoints, container_usage
from bayplan.api.types import core_v1
from bayplan.support.timestamps import parse_rfc3339
from bayplan.testing.builders import CREATED, pod

CPU = "bayplan.dev/cpu-usage"
START = parse_rfc3339(CREATED)


def used(text: str, age: float) -> str:
    running = core_v1.ContainerState(running=core_v1.ContainerStateRunning(started_at=CREATED))
    status = core_v1.PodStatus(container_statuses=(core_v1.ContainerStatus(name="main", state=running),))
    one = pod("web", cpu="1", status=status, meta={"annotations": {CPU: text}})
    return str(container_usage(one, lambda: 0.5, START + age)["main"]["cpu"])


@pytest.mark.parametrize(
    ("text", "age", "expected"),
    [
        pytest.param("50m@0s 450m@40s", 0, "50m", id="at the first point"),
        pytest.param("50m@0s 450m@40s", 10, "150m", id="straight between the points"),
        pytest.param("50m@0s 450m@40s", 1000, "450m", id="the last point holds"),
        pytest.param("50m@1m 450m@2m", 10, "50m", id="before the first point it holds too"),
        pytest.param("10%@0s 90%@1m 10%@1m30s", 75, "500m", id="parts of the request, down again"),
        pytest.param("wave(100m,300m,1h)", 0, "100m", id="a wave begins low"),
        pytest.param("wave(100m,300m,1h)", 1800, "300m", id="is high after half of its time"),
        pytest.param("wave(100m,300m,1h)", 3600, "100m", id="and low again"),
        pytest.param("50m@soon", 0, "100m", id="what cannot be read counts as none"),
        pytest.param("wave(1,2,0s)", 0, "100m", id="a wave needs time"),
        pytest.param("10%@0s 1@1m", 30, "100m", id="parts and amounts do not mix"),
    ],
)
def test_cpu_at_an_age(text: str, age: float, expected: str) -> None:
    assert used(text, age) == expected


@pytest.mark.parametrize(
    ("text", "ages"),
    [("50m@0s 450m@40s", [0.0, 40.0]), ("wave(1,2,1h)", [0.0, 1800.0]), ("100m", []), ("1@soon", []), ("", [])],
)
def test_where_usage_bends(text: str, ages: list[float]) -> None:
    assert breakpoints(pod("web", meta={"annotations": {CPU: text}}), "cpu", "main") == ages
