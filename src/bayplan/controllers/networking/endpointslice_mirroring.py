"""EndpointSlice mirroring: Endpoints that somebody wrote by hand for a service without selector are shown as EndpointSlices too.

Source of the behaviour: Kubernetes' `pkg/controller/endpointslicemirroring`. Works from when the controllers run; Endpoints of services with selectors cost a look.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from bayplan.api.types import core_v1, discovery_v1, meta_v1
from bayplan.controllers.base import Controller, owner_reference
from bayplan.controllers.networking import endpointslice_rules as rules
from bayplan.controllers.networking.endpointslice_rules import MANAGED_BY, SERVICE_NAME, Shape
from bayplan.controllers.networking.endpointslice_writes import write_slices
from bayplan.controllers.networking.service_pods import LAST_CHANGE, family_of
from bayplan.informers.cache import key_of

MANAGER = "endpointslicemirroring-controller.k8s.io"
SKIP = "endpointslice.kubernetes.io/skip-mirror"
_LEADER = "control-plane.alpha.kubernetes.io/leader"
_NOT_MIRRORED = ("kubectl.kubernetes.io/last-applied-configuration", LAST_CHANGE)


def is_to_be_mirrored(endpoints: core_v1.Endpoints, service: core_v1.Service | None) -> bool:
    """Whether slices have to show these Endpoints: neither opted out, nor a lock of old leader elections, nor made by a controller from a selector."""
    metadata = endpoints.metadata
    return (
        metadata.labels.get(SKIP) != "true"
        and _LEADER not in metadata.annotations
        and not metadata.deletion_timestamp
        and service is not None
        and not service.spec.selector
    )


def mirrored(endpoints: core_v1.Endpoints, limit: int) -> tuple[dict[Shape, list[discovery_v1.Endpoint]], int, int]:
    """(endpoints by shape, invalid addresses, addresses beyond `limit` of a subset); those two are left out."""
    wanted: dict[Shape, list[discovery_v1.Endpoint]] = {}
    invalid = beyond = 0
    for subset in endpoints.subsets:
        ports = tuple((port.name, port.port, port.protocol or "TCP", port.app_protocol) for port in subset.ports)
        added = 0
        for ready, addresses in ((True, subset.addresses), (False, subset.not_ready_addresses)):
            for address in addresses:
                if added >= limit:
                    beyond += 1
                elif not _is_address(address.ip):
                    invalid += 1
                else:
                    added += 1
                    wanted.setdefault((family_of(address.ip), ports), []).append(_endpoint(address, ready))
    return wanted, invalid, beyond


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _endpoint(address: core_v1.EndpointAddress, ready: bool) -> discovery_v1.Endpoint:
    return discovery_v1.Endpoint(
        addresses=(address.ip,),
        conditions=discovery_v1.EndpointConditions(ready=ready),
        hostname=address.hostname or None,
        node_name=address.node_name,
        target_ref=address.target_ref,
    )


class EndpointSliceMirroringController(Controller):
    """See the module."""

    name = "endpointslice-mirroring-controller"
    event_source = "endpoint-slice-mirroring-controller"
    workers = 5

    def setup(self) -> None:
        self.services = self.informer(core_v1.Service)
        self.endpoints = self.informer(core_v1.Endpoints)
        self.slices = self.informer(discovery_v1.EndpointSlice)
        self.slices.add_index("mirror", _mirror_of)
        self.endpoints.on_change(
            add=self._endpoints_seen, update=lambda old, new: self._endpoints_seen(new), delete=self._endpoints_seen
        )
        self.services.on_change(add=self._service_seen, update=self._service_changed, delete=self._service_seen)
        self.slices.on_change(update=lambda old, new: self._slice_touched(new), delete=self._slice_touched)

    def _endpoints_seen(self, endpoints: core_v1.Endpoints) -> None:
        service: core_v1.Service | None = self.services.cache.by_key(key_of(endpoints))
        if service is None or not service.spec.selector:
            self.queue.add(key_of(endpoints))

    def _service_seen(self, service: core_v1.Service) -> None:
        if not service.spec.selector or self.slices.cache.by_index("mirror", key_of(service)):
            self.queue.add(key_of(service))

    def _service_changed(self, old: core_v1.Service, new: core_v1.Service) -> None:
        if bool(old.spec.selector) != bool(new.spec.selector):
            self.queue.add(key_of(new))

    def _slice_touched(self, one: discovery_v1.EndpointSlice) -> None:
        for key in _mirror_of(one):
            self.queue.add(key)

    async def reconcile(self, key: str) -> None:
        endpoints: core_v1.Endpoints | None = self.endpoints.cache.by_key(key)
        existing = [one for one in self.slices.cache.by_index("mirror", key) if not one.metadata.deletion_timestamp]
        changes = rules.Changes(delete=existing)
        if endpoints is not None and is_to_be_mirrored(endpoints, self.services.cache.by_key(key)):
            changes = self._changes(endpoints, existing)
        if await write_slices(self.client, changes):
            self.queue.add_rate_limited(key)

    def _changes(self, endpoints: core_v1.Endpoints, existing: Sequence[discovery_v1.EndpointSlice]) -> rules.Changes:
        limit = self.context.settings.mirroring_max_endpoints_per_subset
        wanted, invalid, beyond = mirrored(endpoints, limit)
        if invalid:
            text = f"Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices"
            self.recorder.event(endpoints, "Warning", "InvalidIPAddress", text)
        if beyond:
            text = (
                f"A max of {limit} addresses can be mirrored to EndpointSlices per Endpoints subset. "
                f"{beyond} addresses were skipped"
            )
            self.recorder.event(endpoints, "Warning", "TooManyAddressesToMirror", text)
        metadata = endpoints.metadata
        labels = {**metadata.labels, SERVICE_NAME: metadata.name, MANAGED_BY: MANAGER}
        annotations = {name: value for name, value in metadata.annotations.items() if name not in _NOT_MIRRORED}

        def make(shape: Shape, taken: Sequence[discovery_v1.EndpointSlice]) -> discovery_v1.EndpointSlice:
            made = meta_v1.ObjectMeta(
                name=rules.free_name(metadata.name, metadata.uid, taken),
                generate_name=f"{metadata.name}-",
                namespace=metadata.namespace,
                labels=labels,
                annotations=annotations,
                owner_references=(owner_reference("v1", "Endpoints", endpoints),),
            )
            return discovery_v1.EndpointSlice(metadata=made, address_type=shape[0], ports=rules.ports_in(shape))

        return rules.pack(existing, wanted, labels, annotations, limit, make)


def _mirror_of(one: discovery_v1.EndpointSlice) -> tuple[str, ...]:
    labels = one.metadata.labels
    if labels.get(MANAGED_BY) != MANAGER or SERVICE_NAME not in labels:
        return ()
    return (f"{one.metadata.namespace}/{labels[SERVICE_NAME]}",)
