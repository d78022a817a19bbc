"""What simulated nodes tell about themselves besides their registration: that they live, which images they have, that they are short of memory."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from bayplan.api.codec import encode
from bayplan.api.errors import ApiError
from bayplan.api.types import coordination_v1, core_v1
from bayplan.client import Client
from bayplan.client.client import STRATEGIC_PATCH
from bayplan.client.errors import TransportError
from bayplan.client.events import EventRecorder
from bayplan.informers import Informer
from bayplan.kubelet.simulator.nodes.node_images import NodeImages
from bayplan.kubelet.simulator.nodes.objects import LEASE_NAMESPACE, is_silent, make_lease, renewed
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)


class NodeReports:
    """Writes leases and parts of statuses of nodes."""

    def __init__(
        self,
        client: Client,
        settings: SimulatorSettings,
        *,
        nodes: Informer[core_v1.Node],
        leases: Informer[coordination_v1.Lease],
        clock: Clock,
        recorder: EventRecorder,
    ) -> None:
        self.client = client
        self.settings = settings
        self.nodes = nodes
        self.leases = leases
        self.clock = clock
        self.recorder = recorder
        self.images = NodeImages()

    async def try_to_renew(self, name: str, now: float) -> None:
        """Show that a node lives. Raises nothing: the next renewal tries again."""
        try:
            await self.renew(name, now)
        except (ApiError, TransportError) as error:
            logger.warning("lease of %s: %s", name, error)

    async def renew_all(self, names: Sequence[str], now: float) -> None:
        """Show that nodes live, with as few messages as possible. Raises nothing: the next renewal tries again."""
        seconds, sent, left = self.settings.promised_seconds, {}, []
        for name in names:
            lease = self.leases.cache.get(LEASE_NAMESPACE, name)
            if lease is None:
                left.append(name)
            else:
                sent[name] = (self.client.replacement(renewed(lease, now, seconds)),)
        if sent:
            problems = await self.client.transport.send_all(list(sent.values()))
            for name, problem in zip(sent, problems, strict=True):
                if problem is not None and not _is_lost_race(problem):
                    logger.warning("lease of %s: %s", name, problem)
        for name in left:
            await self.try_to_renew(name, now)

    async def renew(self, name: str, now: float) -> None:
        """Show that a node lives, unless somebody just has. Raises ApiError, TransportError."""
        lease, seconds = self.leases.cache.get(LEASE_NAMESPACE, name), self.settings.promised_seconds
        try:
            if lease is None:
                node = self.nodes.cache.get("", name)
                if node is not None:
                    await self.client.create(make_lease(node, now, seconds))
                return
            await self.client.update(renewed(lease, now, seconds))
        except ApiError as error:
            if not _is_lost_race(error):
                raise

    async def say_last(self, name: str) -> None:
        """The last that is heard of a node that falls silent: that it was well until now, and nothing about what comes. Raises ApiError, TransportError."""
        lease = self.leases.cache.get(LEASE_NAMESPACE, name)
        node = self.nodes.cache.get("", name)
        if lease is not None and node is not None and is_silent(node):
            await self.client.update(renewed(lease, self.clock.now()))

    async def try_to_report_images(self, name: str) -> None:
        """Show which images a node has got since its last report. Raises nothing: the next report tries again."""
        node = self.nodes.cache.get("", name)
        patch = self.images.patch(node) if node is not None else None
        if patch is None:
            return
        try:
            await self.client.patch(core_v1.Node, name, "", patch, subresource="status")
        except (ApiError, TransportError) as error:
            logger.warning("images of %s: %s", name, error)
            self.images.again(name)

    async def write_condition(self, node: core_v1.Node, condition: core_v1.NodeCondition) -> None:
        """Show that a node has got or lost a condition. Raises ApiError, TransportError."""
        shown = msgspec.json.decode(encode(condition))
        patch = {"status": {"conditions": [shown]}}
        await self.client.patch(
            core_v1.Node, node.metadata.name, "", patch, patch_type=STRATEGIC_PATCH, subresource="status"
        )
        word = f"NodeHas{condition.reason.removeprefix('KubeletHas')}"
        self._tell(node, "Normal", word, f"Node {node.metadata.name} status is now: {word}")

    def say_short_of(self, node: core_v1.Node, resource: str) -> None:
        """Tell that a node evicts pods."""
        self._tell(node, "Warning", "EvictionThresholdMet", f"Attempting to reclaim {resource}")

    def _tell(self, node: core_v1.Node, event_type: str, reason: str, message: str) -> None:
        name = node.metadata.name
        where = core_v1.ObjectReference(kind="Node", name=name, uid=name)  # kubelets name the node as its uid
        self.recorder.event(where, event_type, reason, message)


def _is_lost_race(problem: ApiError | TransportError) -> bool:
    """Whether a lease was not renewed since somebody else has written or removed it."""
    return isinstance(problem, ApiError) and problem.code in (404, 409)
