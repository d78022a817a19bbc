"""Reading metrics.k8s.io."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from bayplan.api.quota.amounts import to_wire
from bayplan.client import Client
from bayplan.descheduler.errors import UsageError
from bayplan.descheduler.usage_reader import read_usage


class Answers:
    """A client whose server has these lists."""

    def __init__(self, **lists: Any) -> None:
        self._lists = lists

    async def raw(self, method: str, path: str) -> bytes:
        assert method == "GET"
        return json.dumps({"items": self._lists[path.removeprefix("/apis/metrics.k8s.io/v1beta1/")]}).encode()


def read(**lists: Any) -> Any:
    return asyncio.run(read_usage(cast(Client, Answers(**lists))))


def test_containers_of_a_pod_add_up() -> None:
    usage = read(
        nodes=[{"metadata": {"name": "a"}, "usage": {"cpu": "250m", "memory": "1Gi"}}],
        pods=[
            {
                "metadata": {"name": "p", "namespace": "n"},
                "containers": [{"name": "x", "usage": {"cpu": "100m"}}, {"name": "y", "usage": {"cpu": "50m", "memory": "1Mi"}}],
            }
        ],
    )  # fmt: skip
    assert {name: to_wire(amounts) for name, amounts in usage.nodes.items()} == {"a": {"cpu": "250m", "memory": "1Gi"}}
    assert {key: to_wire(amounts) for key, amounts in usage.pods.items()} == {
        ("n", "p"): {"cpu": "150m", "memory": "1Mi"}
    }


def test_lists_may_be_null() -> None:
    usage = read(nodes=None, pods=None)
    assert (dict(usage.nodes), dict(usage.pods)) == ({}, {})


def test_an_answer_that_is_no_list_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"metrics\.k8s\.io/v1beta1/nodes: .*items"):
        read(nodes="x", pods=[])
