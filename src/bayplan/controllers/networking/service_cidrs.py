"""Service CIDRs: a new range is made ready to be given out; one that is deleted stays until no service has an address of it.

Source: KEP-1880. The API server gives out addresses of ranges that are ready and not being deleted.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any

from bayplan.api.errors import ApiError
from bayplan.api.types import networking_v1
from bayplan.controllers.base import Controller
from bayplan.informers.cache import key_of
from bayplan.support.timestamps import parse_rfc3339, rfc3339

FINALIZER = "networking.k8s.io/service-cidr-finalizer"
READY = "Kubernetes Service CIDR is ready"
TERMINATING = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"
GRACE_SECONDS = 10.0
"""A deleted range is looked at again after this time: an address may have been given out just before."""


def addresses_left(
    found: networking_v1.ServiceCIDR,
    others: Iterable[networking_v1.ServiceCIDR],
    addresses: Iterable[str],
) -> list[str]:
    """The addresses that would be in no range any more without this one. Ranges that are being deleted do not count."""
    own = [ipaddress.ip_network(cidr) for cidr in found.spec.cidrs]
    rest = [
        ipaddress.ip_network(cidr)
        for other in others
        if other.metadata.name != found.metadata.name and other.metadata.deletion_timestamp is None
        for cidr in other.spec.cidrs
    ]
    left = []
    for text in addresses:
        address = ipaddress.ip_address(text)
        if any(address in network for network in own) and not any(address in network for network in rest):
            left.append(text)
    return left


class ServiceCIDRsController(Controller):
    """See the module."""

    name = "service-cidr-controller"

    def setup(self) -> None:
        self.cidrs = self.informer(networking_v1.ServiceCIDR)
        self.addresses = self.informer(networking_v1.IPAddress)
        self.watch_keys(self.cidrs)
        self.cidrs.on_change(add=self._touch_deleted, delete=self._touch_deleted)
        self.addresses.on_change(delete=self._touch_deleted)

    def _touch_deleted(self, obj: Any) -> None:
        """Another range or one address less may set a deleted range free."""
        for found in self.cidrs.cache:
            if found.metadata.deletion_timestamp is not None:
                self.queue.add(key_of(found))

    async def reconcile(self, key: str) -> None:
        found = self.cidrs.cache.by_key(key)
        if found is None:
            return
        try:
            await (self._release(found) if found.metadata.deletion_timestamp is not None else self._keep(found))
        except ApiError as error:
            if error.code == 409:
                self.queue.add_rate_limited(key)
            elif error.code != 404:
                raise

    async def _keep(self, found: networking_v1.ServiceCIDR) -> None:
        if FINALIZER not in found.metadata.finalizers:
            found = await self._finalizers(found, [*found.metadata.finalizers, FINALIZER])
        if not any(one.type == "Ready" and one.status == "True" for one in found.status.conditions):
            await self._ready(found, "True", "", READY)

    async def _release(self, found: networking_v1.ServiceCIDR) -> None:
        metadata = found.metadata
        if FINALIZER not in metadata.finalizers:
            return
        names = (address.metadata.name for address in self.addresses.cache)
        if addresses_left(found, self.cidrs.cache, names):
            if not any(one.type == "Ready" and one.reason == "Terminating" for one in found.status.conditions):
                await self._ready(found, "False", "Terminating", TERMINATING)
            return
        waited = self.clock.now() - parse_rfc3339(metadata.deletion_timestamp or "")
        if waited < GRACE_SECONDS:
            self.queue.add_after(key_of(found), GRACE_SECONDS - waited)
            return
        await self._finalizers(found, [name for name in metadata.finalizers if name != FINALIZER])

    async def _finalizers(self, found: networking_v1.ServiceCIDR, wanted: list[str]) -> networking_v1.ServiceCIDR:
        metadata = {
            "uid": found.metadata.uid,
            "resourceVersion": found.metadata.resource_version,
            "finalizers": wanted or None,
        }
        return await self.client.patch(networking_v1.ServiceCIDR, found.metadata.name, "", {"metadata": metadata})

    async def _ready(self, found: networking_v1.ServiceCIDR, status: str, reason: str, message: str) -> None:
        condition = {
            "type": "Ready",
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": rfc3339(self.clock.now()),
        }
        others = [one for one in found.status.conditions if one.type != "Ready"]
        patch = {
            "metadata": {"resourceVersion": found.metadata.resource_version},
            "status": {"conditions": [*others, condition]},
        }
        await self.client.patch(networking_v1.ServiceCIDR, found.metadata.name, "", patch, subresource="status")
