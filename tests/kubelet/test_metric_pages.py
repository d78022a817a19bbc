"""Pages of metrics of simulated nodes, as kwok's objects describe them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from bayplan.api.quantity import parse
from bayplan.api.types import core_v1
from bayplan.kubelet.simulator.answers import PodAnswers
from bayplan.kubelet.simulator.errors import KwokFileError
from bayplan.testing.builders import container, node, pod
from tests.kubelet.simulator.test_pod_answers import answers, document

NODE = node("n")
PODS = (pod("a", containers=(container("one"), container("two"))), pod("b", containers=(container("one"),)))
USAGE = {"one": {"cpu": parse("500m"), "memory": parse("1Ki")}, "two": {"cpu": parse("1")}}


def page(
    found: PodAnswers, path: str = "/metrics/x", now: float = 0.0, pods: tuple[core_v1.Pod, ...] = PODS
) -> str | None:
    def used(each: core_v1.Pod) -> dict[str, Any]:
        names = {one.name for one in each.spec.containers}
        return {name: amounts for name, amounts in USAGE.items() if name in names}

    body = found.page(path, NODE, lambda: pods, used, now, lambda: 0.5)
    return None if body is None else body.decode()


def metrics(directory: Path, *given: dict[str, Any], path: str = "/metrics/x") -> PodAnswers:
    return answers(directory, document("Metric", "m", {"path": path, "metrics": list(given)}))


def series(text: str | None) -> list[str]:
    return [line for line in (text or "").splitlines() if not line.startswith("#")]


def test_a_page_is_at_its_path(tmp_path: Path) -> None:
    gauge = {"name": "up", "kind": "gauge", "value": "1", "help": "Whether\nit runs\n"}
    found = metrics(tmp_path, gauge, path="/metrics/nodes/{nodeName}/all")
    assert page(found, "/metrics/nodes/n/all") == "# HELP up Whether\\nit runs\n# TYPE up gauge\nup 1\n"
    assert page(found, "/metrics/nodes/other/all") is None


def test_each_dimension_has_its_series(tmp_path: Path) -> None:
    label = [{"name": "pod", "value": "pod.metadata.name"}, {"name": "container", "value": "container.name"}]
    found = metrics(
        tmp_path,
        {"name": "n", "kind": "gauge", "value": 'Usage(node, "cpu")'},
        {"name": "p", "kind": "gauge", "value": 'pod.Usage("cpu")', "dimension": "pod", "labels": label[:1]},
        {"name": "c", "kind": "gauge", "dimension": "container", "labels": label}
        | {"value": 'pod.Usage("memory", container.name)'},
    )
    assert series(page(found)) == [
        'c{container="one",pod="a"} 1024',
        'c{container="one",pod="b"} 1024',
        'c{container="two",pod="a"} 0',
        "n 2",
        'p{pod="a"} 1.5',
        'p{pod="b"} 0.5',
    ]


def test_counters_sum_up_what_is_used(tmp_path: Path) -> None:
    label = [{"name": "pod", "value": "pod.metadata.name"}]
    found = metrics(
        tmp_path,
        {"name": "n_total", "kind": "counter", "value": 'node.CumulativeUsage("cpu")'},
        {"name": "p_total", "kind": "counter", "dimension": "pod", "labels": label}
        | {"value": 'CumulativeUsage(pod, "cpu", "one")'},
    )
    assert series(page(found, now=10)) == ["n_total 0", 'p_total{pod="a"} 0', 'p_total{pod="b"} 0']
    assert series(page(found, now=14)) == ["n_total 8", 'p_total{pod="a"} 2', 'p_total{pod="b"} 2']
    page(found, now=15, pods=PODS[:1])
    assert series(page(found, now=16)) == ["n_total 11.5", 'p_total{pod="a"} 3', 'p_total{pod="b"} 0'], (
        "a pod that has gone and come again begins anew"
    )


def test_hidden_buckets_count_in_the_next_one(tmp_path: Path) -> None:
    buckets = [
        {"le": 1.0, "value": "4"},
        {"le": 0.1, "value": "2"},
        {"le": 0.5, "value": "3", "hidden": True},
        {"le": 9, "value": "1", "hidden": True},
    ]
    found = metrics(tmp_path, {"name": "h", "kind": "histogram", "buckets": buckets})
    assert series(page(found)) == [
        'h_bucket{le="0.1"} 2',
        'h_bucket{le="1"} 9',
        'h_bucket{le="+Inf"} 10',
        f"h_sum {4.0 + 0.2 + 1.5 + 9}",
        "h_count 10",
    ]


def test_started_containers_are_counted(tmp_path: Path) -> None:
    found = metrics(tmp_path, {"name": "s", "kind": "counter", "value": "StartedContainersTotal(node.metadata.name)"})
    running = core_v1.ContainerState(running=core_v1.ContainerStateRunning())
    waiting = core_v1.ContainerState(waiting=core_v1.ContainerStateWaiting())
    statuses = tuple(
        core_v1.ContainerStatus(name=name, restart_count=count, state=state, image="", image_id="")
        for name, count, state in (("one", 2, running), ("two", 1, waiting))
    )
    one = pod("a", status=core_v1.PodStatus(container_statuses=statuses))
    assert series(page(found, pods=(one,))) == ["s 4"]


def test_a_series_that_fails_is_left_out_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = metrics(
        tmp_path,
        {"name": "bad", "kind": "gauge", "value": "node.metadata.none"},
        {"name": "odd", "kind": "gauge", "value": '"text"'},
        {"name": "good", "kind": "gauge", "value": "Rand()"},
    )
    with caplog.at_level(logging.WARNING):
        assert series(page(found)) == ["good 0.5"]
    assert [record.getMessage()[:17] for record in caplog.records] == ["metric bad of n: ", "metric odd of n: "]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"path": "/other", "metrics": []}, "path: '/other' does not begin with /metrics"),
        ({"path": "/metrics"}, "missing required field `metrics`"),
        ({"path": "/metrics", "metrics": [{"name": "a", "kind": "summary"}]}, "Invalid enum value 'summary'"),
        ({"path": "/metrics", "metrics": [{"name": "a b", "kind": "gauge", "value": "1"}]}, r"metrics\[0\]\.name"),
        ({"path": "/metrics", "metrics": [{"name": "a", "kind": "gauge", "value": "nope"}]}, r"metrics\[0\]\.value"),
        (
            {"path": "/metrics"}
            | {"metrics": [{"name": "a", "kind": "gauge", "value": "1", "labels": [{"name": "a-b", "value": "1"}]}]},
            r"metrics\[0\]\.labels\[0\]\.name",
        ),
        (
            {"path": "/metrics"}
            | {
                "metrics": [
                    {"name": "a", "kind": "histogram", "buckets": [{"le": 1, "value": "1"}, {"le": 1.0, "value": "2"}]}
                ]
            },
            "two have the same le",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, spec: dict[str, Any], problem: str) -> None:
    with pytest.raises(KwokFileError, match=problem):
        answers(tmp_path, document("Metric", "m", spec))
