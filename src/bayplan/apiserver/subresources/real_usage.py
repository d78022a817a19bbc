"""What nodes with a kubelet of their own and their pods use, as these kubelets say in /stats/summary.

Kubelets are asked when somebody wants to know. One that does not answer in time is left out, as metrics-server leaves it out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.apiserver.context import Context
from bayplan.apiserver.routing import relays
from bayplan.apiserver.routing.relays import kubelet_address

logger = logging.getLogger(__name__)

_MOST_AT_ONCE = 32
"""Kubelets that are asked at the same time."""


class Cpu(msgspec.Struct, rename="camel"):
    """Use of cpu, in billionths of one, at a time."""

    time: str = ""
    usage_nano_cores: int | None = None


class Memory(msgspec.Struct, rename="camel"):
    """Use of memory in bytes."""

    working_set_bytes: int | None = None


class Usage(msgspec.Struct):
    """A node or a container."""

    name: str = ""
    cpu: Cpu = msgspec.field(default_factory=Cpu)
    memory: Memory = msgspec.field(default_factory=Memory)

    def wire(self) -> dict[str, str] | None:
        """Amounts as metrics-server writes them; None while only one measurement was made, or none."""
        cpu, memory = self.cpu.usage_nano_cores, self.memory.working_set_bytes
        if cpu is None or memory is None:
            return None
        return {"cpu": f"{cpu}n", "memory": f"{memory // 1024}Ki"}


class PodReference(msgspec.Struct):
    """Which pod is meant."""

    uid: str = ""


class PodUsage(msgspec.Struct, rename={"pod": "podRef"}):
    """The containers of a pod that run."""

    pod: PodReference = msgspec.field(default_factory=PodReference)
    containers: list[Usage] = msgspec.field(default_factory=list)

    def wire(self) -> list[dict[str, object]] | None:
        """Containers with their amounts; None unless all of them are known."""
        found = [(each.name, each.wire()) for each in self.containers]
        if not found or any(usage is None for _, usage in found):
            return None
        return [{"name": name, "usage": usage} for name, usage in found]

    def time(self) -> str:
        """When the first of the containers was measured."""
        return min((each.cpu.time for each in self.containers), default="")


class NodeUsage(msgspec.Struct):
    """A node with its pods."""

    node: Usage = msgspec.field(default_factory=Usage)
    pods: list[PodUsage] = msgspec.field(default_factory=list)

    def by_uid(self) -> dict[str, PodUsage]:
        """Pods by uid."""
        return {each.pod.uid: each for each in self.pods}


async def real_usage(context: Context, nodes: Iterable[core_v1.Node]) -> dict[str, NodeUsage]:
    """What the kubelets of these nodes say, by node; nodes that do not answer are left out."""
    if context.kubelet_page is None:
        return {}
    turns = asyncio.Semaphore(_MOST_AT_ONCE)

    async def ask(node: core_v1.Node) -> tuple[str, NodeUsage | None]:
        async with turns:
            return node.metadata.name, await _ask(context, node)

    found = await asyncio.gather(*(ask(node) for node in nodes))
    return {name: usage for name, usage in found if usage is not None}


async def _ask(context: Context, node: core_v1.Node) -> NodeUsage | None:
    assert context.kubelet_page is not None
    try:
        host, port = kubelet_address(node, context.settings.kubelet_preferred_address_types)
        if not port:
            raise relays.unavailable("it names no port of a kubelet")
        return msgspec.json.decode(await context.kubelet_page(host, port, "/stats/summary"), type=NodeUsage)
    except (ApiError, msgspec.MsgspecError) as error:
        logger.warning("what node %s uses is not known: %s", node.metadata.name, error)
        return None
