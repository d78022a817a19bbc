"""A scheduler against an API server in this process, with nobody else in the cluster: tests play the other parts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any

from bayplan.api.errors import ApiError
from bayplan.api.types.core_v1 import Event, Node, Pod
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.client import Client
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.settings import CLUSTER_API, ClusterSettings
from bayplan.kubelet.simulator import SimulatorSettings
from bayplan.scheduler.library import typed
from bayplan.testing.mutations import detect_mutations
from tests.scheduler.objects import Tree

ALONE = {"nodes": SimulatorSettings(nodes=0), "run_controllers": False}


class World:
    """What a test sees of the cluster."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def create(self, *trees: Tree) -> list[Any]:
        """Create objects from trees in the form of the API; status is written as well."""
        return [await self._create(tree) for tree in trees]

    async def _create(self, tree: Tree) -> Any:
        made = typed(tree["kind"], tree)
        created = await self.client.create(made)
        if tree["kind"] == "Node":
            # The API server taints new nodes until a controller finds them ready; there is none here.
            created = await self.client.patch(Node, created.metadata.name, "", {"spec": {"taints": None}})
        if "status" in tree and tree["kind"] not in ("Pod", "PersistentVolumeClaim", "ResourceClaim"):
            made.metadata.resource_version = created.metadata.resource_version
            return await self.client.update_status(made)
        return created

    async def pod(self, name: str) -> Pod:
        """A pod as it is now."""
        return await self.client.get(Pod, name, "default")

    async def until(self, condition: Callable[[], Awaitable[Any]], seconds: float = 10) -> Any:
        """Wait until a condition holds, and return what it answered. AssertionError if it never does."""
        answer = None
        try:
            async with asyncio.timeout(seconds):
                while not (answer := await condition()):  # noqa: ASYNC110  (a question to the API)
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"never came true: {condition}") from None
        return answer

    async def bound(self, name: str) -> str:
        """Wait until a pod has its node; the node's name."""

        async def node_name() -> str:
            return (await self.pod(name)).spec.node_name

        return str(await self.until(node_name))

    async def refused(self, name: str, text: str) -> str:
        """Wait until a pod's condition contains a text; the whole message."""

        async def message() -> str:
            conditions = (await self.pod(name)).status.conditions
            found = [item.message for item in conditions if item.type == "PodScheduled" and text in item.message]
            return found[0] if found else ""

        try:
            return str(await self.until(message))
        except AssertionError:
            raise AssertionError(f"{text!r} is not in {(await self.pod(name)).status.conditions}") from None

    async def gone(self, cls: type[Any], name: str, namespace: str = "default") -> bool:
        """Whether an object does not exist."""
        try:
            await self.client.get(cls, name, namespace)
        except ApiError as error:
            return error.code == 404
        return False

    async def events(self, reason: str) -> list[str]:
        """Messages of the events with a reason."""
        return [item.message for item in (await self.client.list(Event, "default")).items if item.reason == reason]


def play(
    story: Callable[[World], Awaitable[None]],
    *,
    config: Path | None = None,
    around: AbstractAsyncContextManager[object] | None = None,
    api: ApiServerSettings = CLUSTER_API,
) -> None:
    """Run a story in a cluster of its own, `around` which something else is there; nobody may change what is shared."""

    async def main() -> None:
        async with around or nullcontext():
            await run()

    async def run() -> None:
        cluster = Cluster(ClusterSettings(**ALONE, scheduler_config=config, api=api))  # type: ignore[arg-type]
        await cluster.start()
        try:
            async with asyncio.timeout(30):
                world = World(cluster.client())
                await world.create({"kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}})
                await story(world)
        finally:
            await cluster.stop()

    with detect_mutations():
        asyncio.run(main())
