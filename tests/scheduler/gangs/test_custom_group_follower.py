"""The status of custom groups is written once per change, and again if the server did not take it."""

from __future__ import annotations

import asyncio
import json
import random
from types import SimpleNamespace
from typing import Any

from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.types import meta_v1
from bayplan.client.errors import TransportError
from bayplan.scheduler.configuration.settings import load
from bayplan.scheduler.core import SchedulerCore
from bayplan.scheduler.gangs.custom_group_follower import CustomGroupFollower
from bayplan.scheduler.library import typed
from bayplan.support.clock import LoopClock
from bayplan.support.randomness import SeededRandomness
from bayplan.support.virtual_time import run
from tests.scheduler.plugins.test_custom_groups import COSCHEDULING, of_coscheduling

RESOURCES = {"resources": [{"name": "podgroups"}, {"name": "podgroups/status"}]}


class Server:
    """A client and informers that know one group, and some pods."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.written: list[dict[str, Any]] = []
        self.listeners: dict[str, dict[str, Any]] = {}
        self.pods: list[Any] = []
        self.kinds = self
        self.cache = SimpleNamespace(by_index=lambda name, value: self.pods)

    def add(self, kind: Any) -> None:
        """The kind is known now."""

    def informer(self, cls: Any) -> Any:
        def on_change(**listeners: Any) -> None:
            self.listeners[cls.__name__] = listeners

        return SimpleNamespace(add_index=lambda *_: None, on_change=on_change, cache=self.cache)

    async def raw(self, method: str, path: str, query: Any = None, body: bytes = b"", content_type: str = "") -> bytes:
        if method == "GET":
            return json.dumps(RESOURCES).encode()
        if self.failures:
            self.failures -= 1
            raise TransportError("nobody answers")
        assert path == "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups/g/status"
        self.written.append(json.loads(body)["status"])
        return b"{}"


def group(version: str, **status: Any) -> CustomObject:
    metadata = meta_v1.ObjectMeta(name="g", namespace="default", uid="u", resource_version=version)
    return CustomObject(
        "PodGroup", "scheduling.x-k8s.io/v1alpha1", metadata, {"spec": {"minMember": 1}, "status": status}
    )


def test_what_the_server_did_not_take_is_written_again_and_nothing_twice() -> None:
    async def story() -> None:
        server, clock = Server(failures=2), LoopClock(0.0)
        core = SchedulerCore(load(COSCHEDULING), clock, random.Random(1))
        client: Any = server
        follower = CustomGroupFollower(
            core, clock, SeededRandomness(1), lambda _, take: take(), lambda obj, problem: None
        )
        await follower.find(client, client)
        task = asyncio.create_task(follower.run(client))
        server.listeners["PodGroup"]["add"](group("1"))
        await asyncio.sleep(0)
        assert server.written == []
        await asyncio.sleep(10)
        assert [one["phase"] for one in server.written] == ["Pending"]
        pod = typed("Pod", of_coscheduling("p", "g"))
        server.pods = [pod]
        server.listeners["Pod"]["add"](pod)
        await asyncio.sleep(10)
        assert len(server.written) == 1, "what was written has not come back yet"
        server.listeners["PodGroup"]["update"](group("1"), group("2", **server.written[0]))
        await asyncio.sleep(10)
        assert [one["phase"] for one in server.written] == ["Pending", "Scheduling"]
        task.cancel()

    run(story())
