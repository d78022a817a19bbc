"""Endpoints and EndpointSlices: the addresses behind a service, in the old form and the new."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from bayplan.api.codec import encode
from bayplan.api.errors import ApiError
from bayplan.api.strategies.base import clone
from bayplan.api.types import core_v1, discovery_v1, meta_v1
from bayplan.controllers.base import Controller, owner_reference
from bayplan.controllers.pods import is_ready
from bayplan.informers.cache import key_of

MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SERVICE_NAME = "kubernetes.io/service-name"
MANAGER = "endpointslice-controller.k8s.io"
HEADLESS = "service.kubernetes.io/headless"
MAX_ENDPOINTS = 100
"""Endpoints per slice."""
_ZONE = "topology.kubernetes.io/zone"


class _ServiceController(Controller):
    """Queues services when they, or pods that they select, change."""

    workers = 8

    def setup(self) -> None:
        self.services = self.informer(core_v1.Service)
        self.pods = self.informer(core_v1.Pod)
        self.services.add_index("namespace", lambda service: (service.metadata.namespace,))
        self.pods.add_index("namespace", lambda pod: (pod.metadata.namespace,))
        self.watch_keys(self.services)
        self.pods.on_change(add=self._pod_touched, update=self._pod_changed, delete=self._pod_touched)

    def _pod_touched(self, pod: core_v1.Pod) -> None:
        for service in self.services.cache.by_index("namespace", pod.metadata.namespace):
            selector = service.spec.selector
            if selector and selector.items() <= pod.metadata.labels.items():
                self.queue.add(key_of(service))

    def _pod_changed(self, old: core_v1.Pod, new: core_v1.Pod) -> None:
        if _shown(old) != _shown(new):
            self._pod_touched(new)
            if old.metadata.labels != new.metadata.labels:
                self._pod_touched(old)

    def selected(self, service: core_v1.Service) -> list[core_v1.Pod]:
        """Pods behind a service that have an address, in order of name."""
        wanted = service.spec.selector.items()
        pods = (
            pod
            for pod in self.pods.cache.by_index("namespace", service.metadata.namespace)
            if wanted <= pod.metadata.labels.items()
            and pod.status.pod_ip
            and pod.status.phase not in ("Succeeded", "Failed")
        )
        return sorted(pods, key=lambda pod: pod.metadata.name)


def _shown(pod: core_v1.Pod) -> tuple[Any, ...]:
    """What endpoints show of a pod."""
    return (
        pod.metadata.labels,
        pod.status.pod_ip,
        pod.spec.node_name,
        is_ready(pod),
        pod.metadata.deletion_timestamp,
        pod.status.phase,
    )


def target_port(pod: core_v1.Pod, port: core_v1.ServicePort) -> int | None:
    """The port number of a pod that a service port leads to; None if the pod has no port of that name."""
    wanted = port.target_port or port.port
    if isinstance(wanted, int):
        return wanted
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        for one in container.ports:
            if one.name == wanted and (one.protocol or "TCP") == (port.protocol or "TCP"):
                return one.container_port
    return None


def ports_of(service: core_v1.Service, pod: core_v1.Pod) -> tuple[tuple[str, int, str, str | None], ...]:
    """(name, number, protocol, application protocol) of the pod's ports that the service leads to."""
    found = []
    for port in service.spec.ports:
        number = target_port(pod, port)
        if number is not None:
            found.append((port.name, number, port.protocol or "TCP", port.app_protocol))
    return tuple(found)


def host_name(service: core_v1.Service, pod: core_v1.Pod) -> str:
    """The pod's name in the service's domain: its hostname, if the service is its subdomain; else ""."""
    return pod.spec.hostname if pod.spec.hostname and pod.spec.subdomain == service.metadata.name else ""


def _pod_reference(pod: core_v1.Pod) -> core_v1.ObjectReference:
    return core_v1.ObjectReference(
        kind="Pod", namespace=pod.metadata.namespace, name=pod.metadata.name, uid=pod.metadata.uid
    )


def subsets_of(service: core_v1.Service, pods: Sequence[core_v1.Pod]) -> tuple[core_v1.EndpointSubset, ...]:
    """The subsets of an Endpoints object: pods with equal ports together."""
    groups: dict[tuple[tuple[str, int, str, str | None], ...], tuple[list[Any], list[Any]]] = {}
    for pod in pods:
        if pod.metadata.deletion_timestamp and not service.spec.publish_not_ready_addresses:
            continue
        ports = ports_of(service, pod)
        if not ports and (service.spec.ports or service.spec.cluster_ip != "None"):
            continue
        address = core_v1.EndpointAddress(
            ip=pod.status.pod_ip,
            hostname=host_name(service, pod),
            node_name=pod.spec.node_name or None,
            target_ref=_pod_reference(pod),
        )
        ready, not_ready = groups.setdefault(ports, ([], []))
        (ready if is_ready(pod) or service.spec.publish_not_ready_addresses else not_ready).append(address)
    return tuple(
        core_v1.EndpointSubset(
            addresses=tuple(ready),
            not_ready_addresses=tuple(not_ready),
            ports=tuple(
                core_v1.EndpointPort(name=name, port=number, protocol=protocol, app_protocol=app)
                for name, number, protocol, app in ports
            ),
        )
        for ports, (ready, not_ready) in sorted(groups.items(), key=lambda item: repr(item[0]))
    )


class EndpointsController(_ServiceController):
    """The old form."""

    name = "endpoints-controller"

    def setup(self) -> None:
        super().setup()
        self.endpoints = self.informer(core_v1.Endpoints)

    async def reconcile(self, key: str) -> None:
        service: core_v1.Service | None = self.services.cache.by_key(key)
        existing: core_v1.Endpoints | None = self.endpoints.cache.by_key(key)
        if service is None:
            if existing is not None:
                await _ignoring_races(
                    self.client.delete(core_v1.Endpoints, existing.metadata.name, existing.metadata.namespace)
                )
            return
        if not service.spec.selector or service.metadata.deletion_timestamp:
            return
        subsets = subsets_of(service, self.selected(service))
        labels = {**service.metadata.labels, "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
        if service.spec.cluster_ip == "None":
            labels[HEADLESS] = ""
        if existing is None:
            metadata = meta_v1.ObjectMeta(
                name=service.metadata.name, namespace=service.metadata.namespace, labels=labels
            )
            await _ignoring_races(self.client.create(core_v1.Endpoints(metadata=metadata, subsets=subsets)))
        elif existing.subsets != subsets or existing.metadata.labels != labels:
            changed = clone(existing)
            changed.subsets, changed.metadata.labels = subsets, labels
            if await _ignoring_races(self.client.update(changed)):
                self.queue.add_rate_limited(key)


async def _ignoring_races(write: Any) -> bool:
    """Await a write; returns whether somebody else was faster."""
    try:
        await write
    except ApiError as error:
        if error.code not in (404, 409) and error.reason != "Forbidden":
            raise
        return True
    return False


class EndpointSliceController(_ServiceController):
    """The new form."""

    name = "endpointslice-controller"

    def setup(self) -> None:
        super().setup()
        self.nodes = self.informer(core_v1.Node)
        self.slices = self.informer(discovery_v1.EndpointSlice)
        self.slices.add_index("service", _service_of)
        self.slices.on_change(update=lambda old, new: self._slice_touched(new), delete=self._slice_touched)

    def _slice_touched(self, one: discovery_v1.EndpointSlice) -> None:
        for key in _service_of(one):
            self.queue.add(key)

    async def reconcile(self, key: str) -> None:
        service: core_v1.Service | None = self.services.cache.by_key(key)
        if (
            service is None
            or not service.spec.selector
            or service.metadata.deletion_timestamp
            or service.spec.type == "ExternalName"
        ):
            return
        wanted = self._wanted(service)
        existing = {one.metadata.name: one for one in self.slices.cache.by_index("service", key)}
        raced = False
        for one in wanted:
            known = existing.pop(one.metadata.name, None)
            if known is None:
                raced |= await _ignoring_races(self.client.create(one))
            elif (known.endpoints, known.ports, known.metadata.labels) != (
                one.endpoints,
                one.ports,
                one.metadata.labels,
            ):
                one.metadata.resource_version = known.metadata.resource_version
                raced |= await _ignoring_races(self.client.update(one))
        for one in existing.values():
            await _ignoring_races(
                self.client.delete(discovery_v1.EndpointSlice, one.metadata.name, one.metadata.namespace)
            )
        if raced:
            self.queue.add_rate_limited(key)

    def _wanted(self, service: core_v1.Service) -> list[discovery_v1.EndpointSlice]:
        """The slices of a service: pods with equal ports together, at most MAX_ENDPOINTS in each; one empty slice if there is nothing."""
        groups: dict[tuple[tuple[str, int, str, str | None], ...], list[core_v1.Pod]] = {}
        for pod in self.selected(service):
            groups.setdefault(ports_of(service, pod), []).append(pod)
        result: list[discovery_v1.EndpointSlice] = []
        for ports, pods in sorted(groups.items(), key=lambda item: repr(item[0])) or [((), [])]:
            for start in range(0, max(len(pods), 1), MAX_ENDPOINTS):
                result.append(self._slice(service, ports, pods[start : start + MAX_ENDPOINTS], len(result)))
        return result

    def _slice(
        self,
        service: core_v1.Service,
        ports: tuple[tuple[str, int, str, str | None], ...],
        pods: Sequence[core_v1.Pod],
        number: int,
    ) -> discovery_v1.EndpointSlice:
        labels = {**service.metadata.labels, SERVICE_NAME: service.metadata.name, MANAGED_BY: MANAGER}
        if service.spec.cluster_ip == "None":
            labels[HEADLESS] = ""
        digest = hashlib.sha256(encode((service.metadata.uid, number))).hexdigest()
        suffix = "".join("bcdfghjklmnpqrstvwxz2456789"[int(digest[at : at + 2], 16) % 27] for at in range(0, 10, 2))
        return discovery_v1.EndpointSlice(
            metadata=meta_v1.ObjectMeta(
                name=f"{service.metadata.name}-{suffix}",
                generate_name=f"{service.metadata.name}-",
                namespace=service.metadata.namespace,
                labels=labels,
                owner_references=(owner_reference("v1", "Service", service),),
            ),
            address_type="IPv6" if service.spec.ip_families[:1] == ("IPv6",) else "IPv4",
            endpoints=tuple(self._endpoint(service, pod) for pod in pods),
            ports=tuple(
                discovery_v1.EndpointPort(name=name, port=port, protocol=protocol, app_protocol=app)
                for name, port, protocol, app in ports
            ),
        )

    def _endpoint(self, service: core_v1.Service, pod: core_v1.Pod) -> discovery_v1.Endpoint:
        terminating = bool(pod.metadata.deletion_timestamp)
        serving = is_ready(pod)
        ready = service.spec.publish_not_ready_addresses or (serving and not terminating)
        node = self.nodes.cache.get("", pod.spec.node_name)
        return discovery_v1.Endpoint(
            addresses=(pod.status.pod_ip,),
            conditions=discovery_v1.EndpointConditions(ready=ready, serving=serving, terminating=terminating),
            hostname=host_name(service, pod) or None,
            node_name=pod.spec.node_name or None,
            target_ref=_pod_reference(pod),
            zone=node.metadata.labels.get(_ZONE) if node is not None else None,
        )


def _service_of(one: discovery_v1.EndpointSlice) -> tuple[str, ...]:
    labels = one.metadata.labels
    if labels.get(MANAGED_BY) != MANAGER or SERVICE_NAME not in labels:
        return ()
    return (f"{one.metadata.namespace}/{labels[SERVICE_NAME]}",)
