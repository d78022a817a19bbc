"""Which nodes of a cluster count as Ready, and waiting for them."""

from __future__ import annotations

import asyncio

import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.cluster.node_readiness import NodeReadiness, wait_for_nodes
from bayplan.support.timestamps import rfc3339
from tests.apiserver.serving import client_of, opened

SINCE = 1_000.5


def node(name: str, status: str, told: float = SINCE) -> core_v1.Node:
    condition = core_v1.NodeCondition(type="Ready", status=status, last_heartbeat_time=rfc3339(told))
    return core_v1.Node(
        metadata=meta_v1.ObjectMeta(name=name), status=core_v1.NodeStatus(conditions=(condition,) if status else ())
    )


@pytest.mark.parametrize(
    ("nodes", "enough", "unready"),
    [
        ([], False, ["real"]),
        ([("real", "True", SINCE)], False, []),
        ([("real", "True", SINCE), ("b", "True", 0.0)], True, []),
        ([("real", "True", SINCE - 2), ("b", "True", 0.0), ("c", "True", 0.0)], False, ["real"]),
        ([("real", "True", SINCE), ("b", "False", SINCE)], False, ["b"]),
        ([("real", "", SINCE), ("b", "Unknown", SINCE)], False, ["b", "real"]),
        ([("real", "True", SINCE), ("b", "True", 0.0), ("b", "Unknown", 0.0)], False, ["b"]),
    ],
    ids=["none", "one of two", "all", "a status of before", "not ready", "no status", "no longer"],
)
def test_nodes_count_once_they_are_ready(nodes: list[tuple[str, str, float]], enough: bool, unready: list[str]) -> None:
    readiness = NodeReadiness(2, ["real"], SINCE)
    for each in nodes:
        readiness.put(node(*each))
    assert (readiness.are_enough(), readiness.unready) == (enough, unready)


def test_a_node_that_goes_does_not_count() -> None:
    readiness = NodeReadiness(1, [], SINCE)
    readiness.put(node("a", "True"))
    readiness.remove(node("a", "True"))
    assert not readiness.are_enough()


def test_the_wait_ends_with_the_last_node() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            await client.create(node("a", "True"))
            readiness = NodeReadiness(2, [], SINCE)
            waiting = asyncio.create_task(wait_for_nodes(client, readiness, 60.0))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            await client.create(node("b", "False"))
            await asyncio.sleep(0.05)
            assert (waiting.done(), readiness.unready) == (False, ["b"])
            status = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            await client.patch(core_v1.Node, "b", "", status, subresource="status")
            await asyncio.wait_for(waiting, 10.0)
            assert readiness.are_enough()

    asyncio.run(run())


def test_the_wait_ends_also_without_them() -> None:
    async def run() -> None:
        async with opened() as api:
            readiness = NodeReadiness(1, [], SINCE)
            await wait_for_nodes(client_of(api), readiness, 0.05)
            assert not readiness.are_enough()

    asyncio.run(run())
