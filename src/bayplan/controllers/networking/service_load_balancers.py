"""Services of type LoadBalancer get a balancer of the cloud, and give it back.

Source of the behaviour: Kubernetes' service controller in the cloud controller manager.
"""

from __future__ import annotations

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.nodes import is_ready_node
from bayplan.api.strategies.base import clone
from bayplan.api.types import core_v1
from bayplan.controllers.nodes.cloud import CloudController, CloudError
from bayplan.informers.cache import key_of

FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
_EXCLUDED = "node.kubernetes.io/exclude-from-external-load-balancers"


def wants_balancer(service: core_v1.Service) -> bool:
    """Whether the cloud's own controller is to make a balancer: of the type, and of no other class."""
    spec = service.spec
    return spec.type == "LoadBalancer" and not spec.load_balancer_class and not service.metadata.deletion_timestamp


def has_balancer(service: core_v1.Service) -> bool:
    """Whether a balancer was made, or was begun to be."""
    return FINALIZER in service.metadata.finalizers


def serves(node: core_v1.Node) -> bool:
    """Whether a balancer sends traffic to a node."""
    return is_ready_node(node) and _EXCLUDED not in node.metadata.labels and not node.metadata.deletion_timestamp


class ServiceLoadBalancerController(CloudController):
    """See the module."""

    name = "service-lb-controller"
    event_source = "service-controller"

    def setup(self) -> None:
        self.services = self.informer(core_v1.Service)
        self.nodes = self.informer(core_v1.Node)
        self.services.on_change(add=self._seen, update=lambda old, new: self._seen(new))
        self.nodes.on_change(add=self._node_changed, update=self._node_updated, delete=self._node_changed)
        self._cloud_recalls = False
        """Whether the cloud has been told what services had when this began."""

    def _seen(self, service: core_v1.Service) -> None:
        if wants_balancer(service) or has_balancer(service):
            self.queue.add(key_of(service))

    def _node_updated(self, old: core_v1.Node, new: core_v1.Node) -> None:
        if serves(old) != serves(new):
            self._node_changed(new)

    def _node_changed(self, node: core_v1.Node) -> None:
        for service in self.services.cache:
            if has_balancer(service):
                self.queue.add(key_of(service))

    async def reconcile(self, key: str) -> None:
        if not self._cloud_recalls:
            self._cloud_recalls = True
            self.cloud.recall_load_balancers(one for one in self.services.cache if has_balancer(one))
        service = self.services.cache.by_key(key)
        if service is None:
            return
        try:
            if wants_balancer(service):
                await self._ensure(service)
            elif has_balancer(service):
                await self._delete(service)
        except ApiError as error:
            if error.code == 409:
                self.queue.add_rate_limited(key)
            elif error.code != 404:
                raise

    async def _ensure(self, service: core_v1.Service) -> None:
        is_new = not service.status.load_balancer.ingress
        if not has_balancer(service):
            service = await self._finalizers(service, (*service.metadata.finalizers, FINALIZER))
        if is_new:
            self.recorder.event(service, "Normal", "EnsuringLoadBalancer", "Ensuring load balancer")
        try:
            ingress = await self.cloud.ensure_load_balancer(
                service, [node for node in self.nodes.cache if serves(node)]
            )
        except CloudError as error:
            text = f"Error syncing load balancer: failed to ensure load balancer: {error}"
            self.recorder.event(service, "Warning", "SyncLoadBalancerFailed", text)
            raise
        await self._write(service, ingress)
        if is_new:
            self.recorder.event(service, "Normal", "EnsuredLoadBalancer", "Ensured load balancer")

    async def _delete(self, service: core_v1.Service) -> None:
        """The service goes, or is of another type now."""
        self.recorder.event(service, "Normal", "DeletingLoadBalancer", "Deleting load balancer")
        try:
            await self.cloud.delete_load_balancer(service)
        except CloudError as error:
            text = f"Error syncing load balancer: failed to delete load balancer: {error}"
            self.recorder.event(service, "Warning", "SyncLoadBalancerFailed", text)
            raise
        self.recorder.event(service, "Normal", "DeletedLoadBalancer", "Deleted load balancer")
        if service.status.load_balancer.ingress:
            service = await self._write(service, ())
        await self._finalizers(service, tuple(one for one in service.metadata.finalizers if one != FINALIZER))

    async def _write(
        self, service: core_v1.Service, ingress: tuple[core_v1.LoadBalancerIngress, ...]
    ) -> core_v1.Service:
        if ingress == service.status.load_balancer.ingress:
            return service
        changed = clone(service)
        balancer = msgspec.structs.replace(changed.status.load_balancer, ingress=ingress)
        changed.status = msgspec.structs.replace(changed.status, load_balancer=balancer)
        written: core_v1.Service = await self.client.update_status(changed)
        return written

    async def _finalizers(self, service: core_v1.Service, finalizers: tuple[str, ...]) -> core_v1.Service:
        metadata = service.metadata
        patch = {"metadata": {"resourceVersion": metadata.resource_version, "finalizers": finalizers or None}}
        return await self.client.patch(core_v1.Service, metadata.name, metadata.namespace, patch)
