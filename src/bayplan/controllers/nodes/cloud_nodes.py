"""Nodes and their machines in the cloud: new nodes learn where they are, nodes whose machine is gone go, and traffic finds the pods of each.

Source of the behaviour: Kubernetes' cloud-node, cloud-node-lifecycle and node-route controllers.
"""

from __future__ import annotations

import logging
from typing import Any

from bayplan.api.errors import ApiError
from bayplan.api.nodes import is_ready_node
from bayplan.api.strategies.base import clone
from bayplan.api.types import core_v1
from bayplan.controllers.base import condition_of, with_condition
from bayplan.controllers.nodes.cloud import CloudController, CloudError, Instance, Route, routes_of
from bayplan.informers.cache import key_of
from bayplan.support.timestamps import rfc3339

logger = logging.getLogger(__name__)

UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
SHUT_DOWN = "node.cloudprovider.kubernetes.io/shutdown"
_LOOK_SECONDS = 300.0
"""Between two looks at all routes of the cloud."""
_LABELS = {
    "topology.kubernetes.io/zone": "zone",
    "topology.kubernetes.io/region": "region",
    "node.kubernetes.io/instance-type": "instance_type",
}


def initialized(node: core_v1.Node, instance: Instance) -> core_v1.Node:
    """The node with what its machine tells and without the taint that waits for it; the same one if nothing changes."""
    labels = {key: getattr(instance, attribute) for key, attribute in _LABELS.items() if getattr(instance, attribute)}
    taints = tuple(taint for taint in node.spec.taints if taint.key != UNINITIALIZED)
    provider_id = node.spec.provider_id or instance.provider_id
    if labels.items() <= node.metadata.labels.items() and (taints, provider_id) == (
        node.spec.taints,
        node.spec.provider_id,
    ):
        return node
    changed: core_v1.Node = clone(node)
    changed.metadata.labels = {**changed.metadata.labels, **labels}
    changed.spec.taints, changed.spec.provider_id = taints, provider_id
    return changed


class _NodeFollower(CloudController):
    """Base: follows nodes, and forgives writes that came too late."""

    def setup(self) -> None:
        self.nodes = self.informer(core_v1.Node)
        self.nodes.on_change(add=self._seen, update=self._changed, delete=self._gone)

    def _seen(self, node: core_v1.Node) -> None:
        self.queue.add(key_of(node))

    def _changed(self, old: core_v1.Node, new: core_v1.Node) -> None:
        if self.matters(old, new):
            self.queue.add(key_of(new))

    def _gone(self, node: core_v1.Node) -> None:
        """Nothing by default."""

    def matters(self, old: core_v1.Node, new: core_v1.Node) -> bool:
        """Whether a change of a node is to be looked at."""
        return old.spec != new.spec or old.metadata.annotations != new.metadata.annotations

    async def sync(self, node: core_v1.Node) -> None:
        """Bring one node closer to what it should be."""
        raise TypeError(f"{type(self).__name__} has no sync")

    async def reconcile(self, key: str) -> None:
        node = self.nodes.cache.by_key(key)
        if node is None or node.metadata.deletion_timestamp:
            return
        try:
            await self.sync(node)
        except ApiError as error:
            if error.code == 409:
                self.queue.add_rate_limited(key)
            elif error.code != 404:
                raise


class CloudNodeController(_NodeFollower):
    """New nodes get provider id, zone and the like, and may be used then."""

    name = "cloud-node-controller"

    async def sync(self, node: core_v1.Node) -> None:
        instance = await self.cloud.instance(node)
        if instance is None:
            return
        changed = initialized(node, instance)
        if changed is not node:
            await self.client.update(changed)


class CloudNodeLifecycleController(_NodeFollower):
    """Nodes whose machine is gone are deleted; those whose machine is shut down are marked."""

    name = "cloud-node-lifecycle-controller"

    def matters(self, old: core_v1.Node, new: core_v1.Node) -> bool:
        return super().matters(old, new) or is_ready_node(old) != is_ready_node(new)

    def setup(self) -> None:
        self._failing: dict[str, None] = {}
        """Nodes that are not ready."""
        super().setup()
        self.nodes.on_change(add=self._note, update=lambda old, new: self._note(new), delete=self._forget)

    def _note(self, node: core_v1.Node) -> None:
        if is_ready_node(node):
            self._forget(node)
        else:
            self._failing[key_of(node)] = None

    def _forget(self, node: core_v1.Node) -> None:
        self._failing.pop(key_of(node), None)

    async def run_background(self) -> None:
        while True:
            await self.clock.sleep(self.context.settings.node_monitor_period)
            for key in self._failing:
                self.queue.add(key)

    async def sync(self, node: core_v1.Node) -> None:
        shut_down = next((taint for taint in node.spec.taints if taint.key == SHUT_DOWN), None)
        instance = await self.cloud.instance(node)
        if instance is None:
            name = node.metadata.name
            text = f"Deleting node {name} because it does not exist in the cloud provider"
            self.recorder.event(node, "Normal", "DeletingNode", text)
            await self.client.delete(core_v1.Node, name, uid=node.metadata.uid)
        elif instance.is_shut_down != (shut_down is not None):
            changed = clone(node)
            changed.spec.taints = tuple(taint for taint in node.spec.taints if taint.key != SHUT_DOWN)
            if instance.is_shut_down:
                changed.spec.taints = (*changed.spec.taints, core_v1.Taint(key=SHUT_DOWN, effect="NoSchedule"))
            await self.client.update(changed)


class NodeRouteController(_NodeFollower):
    """The networks of nodes are reachable through the cloud; the condition NetworkUnavailable says so."""

    name = "node-route-controller"
    event_source = "route_controller"
    workers = 1

    def matters(self, old: core_v1.Node, new: core_v1.Node) -> bool:
        return old.spec.pod_cidrs != new.spec.pod_cidrs

    def setup(self) -> None:
        self._made: dict[str, Route] = {}
        """Routes that are known to be there, by network."""
        super().setup()

    def _gone(self, node: core_v1.Node) -> None:
        self.queue.add(key_of(node))

    async def run_background(self) -> None:
        """Take over what an earlier run has made, now and then."""
        while self.cloud.makes_routes:
            try:
                self._made = {route.cidr: route for route in await self.cloud.routes()}
            except CloudError as error:
                logger.warning("routes could not be listed: %s", error)
            for route in self._made.values():
                if self.nodes.cache.get("", route.node) is None:
                    self.queue.add(route.node)
            await self.clock.sleep(_LOOK_SECONDS)

    async def reconcile(self, key: str) -> None:
        if self.nodes.cache.by_key(key) is None:
            for route in [route for route in self._made.values() if route.node == key]:
                await self.cloud.delete_route(route)
                self._made.pop(route.cidr, None)
        else:
            await super().reconcile(key)

    async def sync(self, node: core_v1.Node) -> None:
        if not self.cloud.makes_routes:
            return
        for route in routes_of(node):
            if self._made.get(route.cidr) != route:
                await self.cloud.create_route(route)
                self._made[route.cidr] = route
        if node.spec.pod_cidr:
            await self._tell_reachable(node)

    async def _tell_reachable(self, node: core_v1.Node) -> None:
        known = condition_of(node.status.conditions, "NetworkUnavailable")
        if known is None or known.status == "False":
            return  # nobody has said that it is not
        now = rfc3339(self.clock.now())
        condition = core_v1.NodeCondition(
            type="NetworkUnavailable",
            status="False",
            reason="RouteCreated",
            message="RouteController created a route",
            last_heartbeat_time=now,
            last_transition_time=now,
        )
        changed: Any = clone(node)
        changed.status.conditions = with_condition(changed.status.conditions, condition)
        await self.client.update_status(changed)
