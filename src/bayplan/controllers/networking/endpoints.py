"""Endpoints: the addresses behind a service, in the old form.

Source of the behaviour: Kubernetes' `pkg/controller/endpoint`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api.strategies.base import clone
from bayplan.api.types import core_v1, meta_v1
from bayplan.controllers.networking.service_pods import (
    HEADLESS,
    Ports,
    ServiceController,
    addresses_of,
    families_of,
    host_name,
    lost_race,
    pod_reference,
    ports_of,
    with_address,
    with_trigger,
)
from bayplan.controllers.pods import is_ready

OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
MANAGED_BY = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
CAPACITY = 1000
"""Addresses of one Endpoints object; more are left out, those that are not ready first."""


def subsets_of(service: core_v1.Service, pods: Sequence[core_v1.Pod]) -> tuple[core_v1.EndpointSubset, ...]:
    """The subsets of an Endpoints object: pods with equal ports together, addresses of the service's first family."""
    groups: dict[Ports, tuple[list[core_v1.EndpointAddress], list[core_v1.EndpointAddress]]] = {}
    all_ready = service.spec.publish_not_ready_addresses
    family = families_of(service)[0]
    for pod in pods:
        if pod.metadata.deletion_timestamp and not all_ready:
            continue
        ports, ips = ports_of(service, pod), addresses_of(pod, family)
        if not ips or (not ports and (service.spec.ports or service.spec.cluster_ip != "None")):
            continue
        address = core_v1.EndpointAddress(
            ip=ips[0],
            hostname=host_name(service, pod),
            node_name=pod.spec.node_name or None,
            target_ref=pod_reference(pod),
        )
        ready, not_ready = groups.setdefault(ports, ([], []))
        (ready if is_ready(pod) or all_ready else not_ready).append(address)
    return tuple(
        core_v1.EndpointSubset(
            addresses=_in_order(ready),
            not_ready_addresses=_in_order(not_ready),
            ports=tuple(
                core_v1.EndpointPort(name=name, port=number, protocol=protocol, app_protocol=app)
                for name, number, protocol, app in ports
            ),
        )
        for ports, (ready, not_ready) in sorted(groups.items(), key=lambda item: repr(item[0]))
    )


def _in_order(addresses: list[core_v1.EndpointAddress]) -> tuple[core_v1.EndpointAddress, ...]:
    return tuple(sorted(addresses, key=lambda one: (one.ip, one.target_ref.uid if one.target_ref else "")))


def truncated(
    subsets: tuple[core_v1.EndpointSubset, ...], capacity: int = CAPACITY
) -> tuple[core_v1.EndpointSubset, ...]:
    """The subsets with at most `capacity` addresses in all, in proportion, ready ones before others. The same object if they fit."""
    ready = sum(len(subset.addresses) for subset in subsets)
    total = ready + sum(len(subset.not_ready_addresses) for subset in subsets)
    if total <= capacity:
        return subsets
    all_ready = ready >= capacity
    can_be_added = capacity if all_ready else capacity - ready
    of = ready if all_ready else total - ready
    result = []
    for subset in subsets:
        share = len(subset.addresses if all_ready else subset.not_ready_addresses) * can_be_added // of
        kept = core_v1.EndpointSubset(
            addresses=subset.addresses[:share] if all_ready else subset.addresses,
            not_ready_addresses=() if all_ready else subset.not_ready_addresses[:share],
            ports=subset.ports,
        )
        if kept.addresses or kept.not_ready_addresses:
            result.append(kept)
    return tuple(result)


class EndpointsController(ServiceController):
    """See the module."""

    name = "endpoints-controller"
    event_source = "endpoint-controller"

    def setup(self) -> None:
        super().setup()
        self.endpoints = self.informer(core_v1.Endpoints)

    async def reconcile(self, key: str) -> None:
        service: core_v1.Service | None = self.services.cache.by_key(key)
        existing: core_v1.Endpoints | None = self.endpoints.cache.by_key(key)
        if service is None:
            self.trigger_times.forget(key)
            if existing is not None:
                metadata = existing.metadata
                await lost_race(
                    self.client.delete(core_v1.Endpoints, metadata.name, metadata.namespace, uid=metadata.uid)
                )
            return
        if not service.spec.selector or service.metadata.deletion_timestamp or service.spec.type == "ExternalName":
            return
        pods = self.matching(service)
        changed_at = self.trigger_times.trigger(key, service, pods)
        all_subsets = subsets_of(service, with_address(pods))
        subsets = truncated(all_subsets)
        labels = {**service.metadata.labels, **MANAGED_BY}
        labels.pop(HEADLESS, None)
        if service.spec.cluster_ip == "None":
            labels[HEADLESS] = ""
        over = {OVER_CAPACITY: "truncated"} if subsets is not all_subsets else {}
        if existing is None:
            metadata = meta_v1.ObjectMeta(
                name=service.metadata.name,
                namespace=service.metadata.namespace,
                labels=labels,
                annotations=with_trigger(over, changed_at),
            )
            if await lost_race(self.client.create(core_v1.Endpoints(metadata=metadata, subsets=subsets))):
                self.queue.add_rate_limited(key)
            return
        annotations = {name: value for name, value in existing.metadata.annotations.items() if name != OVER_CAPACITY}
        annotations |= over
        before = (existing.subsets, existing.metadata.labels, existing.metadata.annotations)
        if before != (subsets, labels, annotations):
            changed = clone(existing)
            changed.subsets, changed.metadata.labels = subsets, labels
            changed.metadata.annotations = with_trigger(annotations, changed_at)
            if await lost_race(self.client.update(changed)):
                self.queue.add_rate_limited(key)
