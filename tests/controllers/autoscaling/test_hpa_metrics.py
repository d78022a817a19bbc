"""Reading custom and external metrics from whoever serves them, in the versions in which they are served."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.selectors.syntax import parse_labels
from bayplan.api.types import autoscaling_v2, meta_v1
from bayplan.client import Client
from bayplan.controllers.autoscaling.hpa_metrics import MetricsError, MetricsReader, PodMetric
from bayplan.support.timestamps import parse_rfc3339
from bayplan.testing.builders import CREATED
from tests.client.transports import StubTransport

T = TypeVar("T")
_CUSTOM = "/apis/custom.metrics.k8s.io"
_APP, _ALL = parse_labels("app=web"), parse_labels("")


class Served(StubTransport):
    """A transport that knows some answers, and which questions it was asked."""

    def __init__(self, **answers: Any) -> None:
        super().__init__(self._find)
        self.answers = answers
        self.asked: list[tuple[str, dict[str, str]]] = []

    def _find(self, method: str, path: str, query: Mapping[str, str]) -> bytes:
        self.asked.append((path, dict(query)))
        for end, answer in self.answers.items():
            if path.endswith(end):
                return json.dumps(answer).encode()
        raise ApiError(meta_v1.Status(code=404, message="404 page not found\n"))


def versions(*served: str) -> dict[str, Any]:
    return {"kind": "APIGroup", "versions": [{"version": one} for one in served]}


def value(name: str, amount: Any, **fields: Any) -> dict[str, Any]:
    return {"describedObject": {"name": name}, "timestamp": CREATED, "value": amount, **fields}


def wait(question: Awaitable[T]) -> T:
    async def run() -> T:
        return await question

    return asyncio.run(run())


def test_metrics_of_pods_are_read_in_the_newest_version_that_is_served() -> None:
    items = {"items": [value("a", "1500m", windowSeconds=30), value("b", 2)]}
    served = Served(**{"custom.metrics.k8s.io": versions("v1beta1", "v1beta2"), "requests": items})
    found = wait(MetricsReader(Client(served)).of_pods("requests", "shop", _APP, parse_labels("verb=GET")))
    time = parse_rfc3339(CREATED)
    assert found == {"a": PodMetric(1500, time, 30.0), "b": PodMetric(2000, time, 60.0)}
    path, query = served.asked[-1]
    assert path == f"{_CUSTOM}/v1beta2/namespaces/shop/pods/*/requests"
    assert query == {"labelSelector": "app=web", "metricLabelSelector": "verb=GET"}


@pytest.mark.parametrize(
    ("reference", "path"),
    [
        (("networking.k8s.io/v1", "Ingress", "main"), "namespaces/shop/ingresses.networking.k8s.io/main/hits"),
        (("v1", "Service", "web"), "namespaces/shop/services/web/hits"),
        (("v1", "Node", "n1"), "nodes/n1/hits"),
        (("v1", "Namespace", "shop"), "namespaces/shop/metrics/hits"),
    ],
)
def test_the_metric_of_an_object_is_where_its_kind_says(reference: tuple[str, str, str], path: str) -> None:
    served = Served(**{"custom.metrics.k8s.io": versions("v1beta1"), "hits": {"items": [value("x", "7")]}})
    version, kind, name = reference
    about = autoscaling_v2.CrossVersionObjectReference(api_version=version, kind=kind, name=name)
    assert wait(MetricsReader(Client(served)).of_object("hits", "shop", about, _ALL)) == 7000
    assert served.asked[-1] == (f"{_CUSTOM}/v1beta1/{path}", {})


def test_external_metrics_are_all_series() -> None:
    series = {"items": [{"metricName": "queue", "value": "5", "timestamp": CREATED}, {"value": "250m"}]}
    served = Served(queue=series)
    assert wait(MetricsReader(Client(served)).external("queue", "shop", _APP)) == (5000, 250)
    assert served.asked[-1][1] == {"labelSelector": "app=web"}


@pytest.mark.parametrize(
    ("served", "message"),
    [
        ({}, "no custom metrics API (custom.metrics.k8s.io) registered"),
        ({"custom.metrics.k8s.io": versions("v9")}, "no known available metric versions found"),
        (
            {"custom.metrics.k8s.io": versions("v1beta2")},
            "the server could not find the requested resource (get pods.custom.metrics.k8s.io)",
        ),
    ],
)
def test_what_is_missing_is_named(served: dict[str, Any], message: str) -> None:
    with pytest.raises(MetricsError) as refused:
        wait(MetricsReader(Client(Served(**served))).of_pods("requests", "shop", _APP, _ALL))
    assert str(refused.value) == f"unable to fetch metrics from custom metrics API: {message}"


def test_an_empty_answer_is_no_answer() -> None:
    served = Served(**{"custom.metrics.k8s.io": versions("v1beta2"), "requests": {"items": []}, "queue": {}})
    reader = MetricsReader(Client(served))
    with pytest.raises(MetricsError, match="no metrics returned from custom metrics API"):
        wait(reader.of_pods("requests", "shop", _APP, _ALL))
    with pytest.raises(MetricsError, match="no metrics returned from external metrics API"):
        wait(reader.external("queue", "shop", _ALL))
