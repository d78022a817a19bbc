"""Tells the API server that the node is alive: its status when that changes, and a lease all the time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from bayplan.api.codec import encode
from bayplan.api.errors import ApiError
from bayplan.api.types import coordination_v1, core_v1, meta_v1
from bayplan.client import Client
from bayplan.client.client import STRATEGIC_PATCH
from bayplan.client.errors import TransportError
from bayplan.kubelet.node.status import NodeFacts, has_changed, node_status
from bayplan.kubelet.pods.container_events import ContainerEvents
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness
from bayplan.support.timestamps import rfc3339, rfc3339_micro

logger = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
_RENEWALS = 4
"""How often a lease is renewed within its duration."""
_TRIES = 5


class NodeHeartbeat:
    """Writes the node's status: when it changes, and every few minutes although it does not."""

    def __init__(
        self,
        client: Client,
        node_name: str,
        node: Callable[[], core_v1.Node | None],
        facts: Callable[[], Awaitable[NodeFacts]],
        events: ContainerEvents,
        clock: Clock,
        *,
        update_seconds: float,
        report_seconds: float,
        pod_cidr_changed: Callable[[str], Awaitable[None]],
    ) -> None:
        """pod_cidr_changed: called with the ranges of the node's pods (commas between families), once and when they change."""
        self._client = client
        self._node_name = node_name
        self._node = node
        self._facts = facts
        self._events = events
        self._clock = clock
        self._update_seconds = update_seconds
        self._report_seconds = report_seconds
        self._pod_cidr_changed = pod_cidr_changed
        self._pod_cidr = ""
        self._reported_at = float("-inf")
        self._wanted = asyncio.Event()

    async def run(self) -> None:
        """Look until cancelled; quicker until the node is ready for the first time."""
        while True:
            ready = False
            try:
                ready = await self.look()
            except (ApiError, TransportError, OSError, RuntimeRequestError) as error:
                logger.warning("cannot write the status of node %s: %s", self._node_name, error)
            await self._pause(self._update_seconds if ready else min(1.0, self._update_seconds))

    async def _pause(self, seconds: float) -> None:
        """Wait until it is time to look, or somebody wants it sooner."""
        waiting = [asyncio.ensure_future(each) for each in (self._clock.sleep(seconds), self._wanted.wait())]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        self._wanted.clear()

    def hurry(self) -> None:
        """Look now: what the status says has changed, and somebody waits for it."""
        self._wanted.set()

    async def look(self) -> bool:
        """Write the status if it is time; whether the node is ready. Raises ApiError, TransportError, OSError."""
        node = self._node()
        if node is None:
            return False
        cidr = ",".join(node.spec.pod_cidrs) or node.spec.pod_cidr
        if cidr and cidr != self._pod_cidr:
            await self._pod_cidr_changed(cidr)
            self._pod_cidr = cidr
        now = self._clock.now()
        change = node_status(node, await self._facts(), rfc3339(now))
        ready = any(each.type == "Ready" and each.status == "True" for each in change.status.conditions)
        due = self._clock.monotonic() - self._reported_at >= self._report_seconds
        if not due and not has_changed(node.status, change.status):
            return ready
        patch = status_patch(node.status, change.status)
        if patch:
            await self._client.patch(
                core_v1.Node,
                self._node_name,
                "",
                {"status": patch},
                patch_type=STRATEGIC_PATCH,
                subresource="status",
            )
        self._reported_at = self._clock.monotonic()
        for event_type, reason, message in change.events:
            self._events.node(node, event_type, reason, message)
        return ready


def status_patch(old: core_v1.NodeStatus, new: core_v1.NodeStatus) -> dict[str, Any]:
    """What changes of a status, as a strategic merge patch: conditions and addresses by type, amounts by name, all else as a whole."""
    before, after = msgspec.json.decode(encode(old)), msgspec.json.decode(encode(new))
    patch: dict[str, Any] = {}
    for name, value in after.items():
        known = before.get(name)
        if known == value:
            continue
        if name in ("capacity", "allocatable"):
            patch[name] = {each: amount for each, amount in value.items() if (known or {}).get(each) != amount}
        elif name == "addresses":
            patch[name] = [{"$patch": "replace"}, *value]
        else:
            patch[name] = value
    patch.update((name, None) for name in before.keys() - after.keys())
    return patch


class NodeLease:
    """Renews the node's lease, a quarter of its duration after the last time."""

    def __init__(
        self,
        client: Client,
        node_name: str,
        node: Callable[[], core_v1.Node | None],
        clock: Clock,
        randomness: Randomness,
        *,
        duration_seconds: int,
    ) -> None:
        self._client = client
        self._node_name = node_name
        self._node = node
        self._clock = clock
        self._randomness = randomness
        self._duration = duration_seconds
        self._lease: coordination_v1.Lease | None = None

    async def run(self) -> None:
        """Renew until cancelled."""
        while True:
            for _ in range(_TRIES):
                try:
                    await self.renew()
                    break
                except (ApiError, TransportError) as error:
                    logger.warning("cannot renew the lease of node %s: %s", self._node_name, error)
                    self._lease = None
                    await self._clock.sleep(0.2)
            await self._clock.sleep(self._randomness.jitter(self._duration / _RENEWALS, 0.04))

    async def renew(self) -> None:
        """Renew once; makes the lease if it is not there. Raises ApiError, TransportError."""
        lease = self._lease
        if lease is None:
            lease = await self._existing()
        spec = coordination_v1.LeaseSpec(
            holder_identity=self._node_name,
            lease_duration_seconds=self._duration,
            renew_time=rfc3339_micro(self._clock.now()),
        )
        if lease is None:
            metadata = meta_v1.ObjectMeta(
                name=self._node_name, namespace=LEASE_NAMESPACE, owner_references=self._owner()
            )
            self._lease = await self._client.create(coordination_v1.Lease(metadata=metadata, spec=spec))
            return
        metadata = msgspec.structs.replace(
            lease.metadata, owner_references=lease.metadata.owner_references or self._owner()
        )
        self._lease = await self._client.update(msgspec.structs.replace(lease, metadata=metadata, spec=spec))

    async def _existing(self) -> coordination_v1.Lease | None:
        try:
            return await self._client.get(coordination_v1.Lease, self._node_name, LEASE_NAMESPACE)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def _owner(self) -> tuple[meta_v1.OwnerReference, ...]:
        """The node, so that the lease goes with it."""
        node = self._node()
        if node is None:
            return ()
        return (meta_v1.OwnerReference(api_version="v1", kind="Node", name=self._node_name, uid=node.metadata.uid),)
