"""Owners in a namespace that is going away: what they miss cannot be made any more, and that is nobody's fault."""

from __future__ import annotations

import logging

import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support import virtual_time

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "going"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}, "finalizers": ["example.com/hold"]},
            "spec": {"containers": [{"name": "c", "image": "c"}]},
        },
    },
}


def test_nothing_is_tried_in_vain_and_nobody_complains(caplog: pytest.LogCaptureFixture) -> None:
    written: list[str] = []

    async def run() -> None:
        async with VirtualCluster(nodes=2, trace=written.append) as cluster:
            await cluster.client.create(core_v1.Namespace(metadata=meta_v1.ObjectMeta(name="going")))
            await cluster.advance(seconds=2)
            await cluster.apply(DEPLOYMENT)
            await cluster.advance(seconds=10)
            await cluster.client.delete(core_v1.Namespace, "going")
            await cluster.advance(seconds=60)
            pods = (await cluster.client.list(core_v1.Pod, "going")).items
            assert [bool(pod.metadata.deletion_timestamp) for pod in pods] == [True] * 3  # held by their finalizer

    with caplog.at_level(logging.INFO):
        virtual_time.run(run())
    assert [line for line in written if "FailedCreate" in line] == []
    assert [record.getMessage() for record in caplog.records if "terminated" in record.getMessage()] == []
