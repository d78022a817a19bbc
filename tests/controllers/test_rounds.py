"""Work in rounds goes on after a round that failed, and what a round could not do is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import apps_v1, core_v1, meta_v1
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.client.events import EventRecorder
from bayplan.controllers.base import ControllerContext
from bayplan.controllers.nodes.cloud import CloudError, Route, SimulatedCloud
from bayplan.controllers.nodes.cloud_nodes import NodeRouteController
from bayplan.controllers.workloads.replicaset import ReplicaSetController
from bayplan.informers import InformerFactory
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.clock import LoopClock
from bayplan.support.randomness import SeededRandomness
from bayplan.support.virtual_time import run
from bayplan.testing.builders import pod
from tests.client.transports import Spoiler, StubTransport

CONFLICT = ApiError(meta_v1.Status(status="Failure", code=409, reason="Conflict", message="somebody was faster"))
NO_ANSWER = TransportError("no route")


def play(case: Callable[[VirtualCluster], Awaitable[None]], spoiler: Spoiler) -> None:
    async def main() -> None:
        async with VirtualCluster(nodes=1, transport=spoiler.over) as cluster:
            await case(cluster)

    run(main())


def context_of(client: Client) -> ControllerContext:
    clock, randomness = LoopClock(0.0), SeededRandomness(1)
    recorder = EventRecorder(client, "test", clock, randomness)
    return ControllerContext(client, InformerFactory(client, clock, randomness), clock, randomness, recorder)


def nobody(*_: Any) -> bytes:
    raise AssertionError("nothing was to be asked")


@pytest.mark.parametrize("error", [pytest.param(CONFLICT, id="a conflict"), pytest.param(NO_ANSWER, id="no answer")])
def test_a_pod_that_could_not_be_collected_is_tried_again(error: Exception) -> None:
    async def case(cluster: VirtualCluster) -> None:
        nowhere = pod("stuck", node_selector={"no": "where"}, meta={"finalizers": ("example.com/stay",)})
        await cluster.client.create(nowhere)
        await cluster.client.delete(core_v1.Pod, "stuck", "default")
        await cluster.advance(seconds=120)
        assert (await cluster.client.get(core_v1.Pod, "stuck", "default")).status.phase == "Failed"

    play(case, Spoiler("PUT", "/pods/stuck/status", error))


@pytest.mark.parametrize(
    "end",
    [
        pytest.param("/configmaps/kube-apiserver-legacy-service-account-token-tracking", id="legacy tokens"),
        pytest.param("/certificatesigningrequests", id="certificate signing requests"),
    ],
)
def test_the_next_round_comes_after_one_without_an_answer(end: str) -> None:
    async def case(cluster: VirtualCluster) -> None:
        await cluster.advance(minutes=10)
        spoiler.active = True
        await cluster.advance(days=2)

    spoiler = Spoiler("GET", end, NO_ANSWER)
    spoiler.active = False
    play(case, spoiler)
    assert spoiler.seen > 1


def test_routes_are_listed_again_when_the_cloud_could_not_once() -> None:
    class Cloudy(SimulatedCloud):
        asked = 0

        async def routes(self) -> list[Route]:
            self.asked += 1
            if self.asked == 1:
                raise CloudError("busy")
            return [Route("gone", "10.0.0.0/24")]

    async def main() -> None:
        controller = NodeRouteController(context_of(Client(StubTransport(nobody))), Cloudy())
        task = asyncio.create_task(controller.run_background())
        await asyncio.sleep(1000)
        assert not task.done()
        assert len(controller.queue) == 1, "the route of a node that is not there goes"
        task.cancel()

    run(main())


def test_nothing_is_remembered_of_an_owner_that_is_gone() -> None:
    async def main() -> None:
        controller = ReplicaSetController(context_of(Client(StubTransport(nobody))))
        owner = apps_v1.ReplicaSet(metadata=meta_v1.ObjectMeta(name="web", namespace="default", uid="1"))
        for number in range(30):
            one = pod(f"web-{number}")
            controller.pods.cache.put(one)
        controller.candidates(owner)
        controller._doubt("default/web")
        assert controller._sizes
        await controller.reconcile("default/web")
        assert not controller._sizes
        assert not controller._unsure

    run(main())
