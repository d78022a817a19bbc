"""Pods behind services: what Endpoints and EndpointSlices have in common.

Source of the behaviour: Kubernetes' `pkg/controller/endpoint`, `k8s.io/endpointslice` and `pkg/api/v1/endpoints`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.controllers.base import Controller, index_by_namespace
from bayplan.controllers.pods import has_ended, is_ready
from bayplan.informers.cache import key_of

HEADLESS = "service.kubernetes.io/headless"
LAST_CHANGE = "endpoints.kubernetes.io/last-change-trigger-time"
Ports = tuple[tuple[str, int, str, str | None], ...]
"""(name, number, protocol, application protocol) of each port."""


class ServiceController(Controller):
    """Queues services when they, or pods that they select, change."""

    workers = 8

    def setup(self) -> None:
        self.services = self.informer(core_v1.Service)
        self.pods = self.informer(core_v1.Pod)
        index_by_namespace(self.services)
        index_by_namespace(self.pods)
        self.watch_keys(self.services)
        self.trigger_times = TriggerTimes()
        self.pods.on_change(add=self._pod_touched, update=self._pod_changed, delete=self._pod_touched)

    def _pod_touched(self, pod: core_v1.Pod) -> None:
        for service in self.services.cache.by_index("namespace", pod.metadata.namespace):
            selector = service.spec.selector
            if selector and selector.items() <= pod.metadata.labels.items():
                self.queue.add(key_of(service))

    def _pod_changed(self, old: core_v1.Pod, new: core_v1.Pod) -> None:
        if _shows_otherwise(old, new):
            self._pod_touched(new)
            if old.metadata.labels != new.metadata.labels:
                self._pod_touched(old)

    def matching(self, service: core_v1.Service) -> list[core_v1.Pod]:
        """Pods that a service selects, in order of name."""
        wanted = service.spec.selector.items()
        pods = self.pods.cache.by_index("namespace", service.metadata.namespace)
        found = (pod for pod in pods if wanted <= pod.metadata.labels.items())
        return sorted(found, key=lambda pod: pod.metadata.name)


def with_address(pods: Iterable[core_v1.Pod]) -> list[core_v1.Pod]:
    """Those that can be reached."""
    return [pod for pod in pods if (pod.status.pod_ip or pod.status.pod_ips) and not has_ended(pod)]


class TriggerTimes:
    """When that happened which endpoints are written for: readers measure from then how long changes take to arrive.

    >>> times, service = TriggerTimes(), core_v1.Service()
    >>> service.metadata.creation_timestamp = "2026-01-01T00:00:00Z"
    >>> times.trigger("a/b", service, []), times.trigger("a/b", service, [])
    ('2026-01-01T00:00:00Z', '')
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, dict[str, str]]] = {}
        """Key of a service -> when it was made, and when each of its pods last became ready or the contrary."""

    def trigger(self, key: str, service: core_v1.Service, pods: Iterable[core_v1.Pod]) -> str:
        """The earliest change since the last call for the service; "" if there is none. A service that is new counts from when it was made."""
        made = service.metadata.creation_timestamp or ""
        times = {
            pod.metadata.name: condition.last_transition_time
            for pod in pods
            for condition in pod.status.conditions
            if condition.type == "Ready" and condition.last_transition_time
        }
        known = self._known.get(key)
        self._known[key] = (made, times)
        if known is None:
            return made
        changed = [time for name, time in times.items() if time > known[1].get(name, "")]
        return min([*changed, *([made] if made > known[0] else ())], default="")

    def forget(self, key: str) -> None:
        """The service is gone."""
        self._known.pop(key, None)


def with_trigger(annotations: Mapping[str, str], time: str) -> dict[str, str]:
    """Annotations of endpoints that are written because of what happened then."""
    kept = {name: value for name, value in annotations.items() if name != LAST_CHANGE}
    return {**kept, LAST_CHANGE: time} if time else kept


def _shows_otherwise(old: core_v1.Pod, new: core_v1.Pod) -> bool:
    """Whether what endpoints show of a pod has changed."""
    before, after = old.status, new.status
    return (
        old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or before.phase != after.phase
        or before.pod_ip != after.pod_ip
        or before.pod_ips != after.pod_ips
        or (before.conditions != after.conditions and is_ready(old) != is_ready(new))
        or (old.spec is not new.spec and old.spec.node_name != new.spec.node_name)
        or old.metadata.labels != new.metadata.labels
    )


def target_port(pod: core_v1.Pod, port: core_v1.ServicePort) -> int | None:
    """The port number of a pod that a service port leads to; None if the pod has no port of that name. Of init containers only those count that run beside the
    others."""
    wanted = port.target_port or port.port
    if isinstance(wanted, int):
        return wanted
    sidecars = (one for one in pod.spec.init_containers if one.restart_policy == "Always")
    for container in (*pod.spec.containers, *sidecars):
        for one in container.ports:
            if one.name == wanted and (one.protocol or "TCP") == (port.protocol or "TCP"):
                return one.container_port
    return None


def ports_of(service: core_v1.Service, pod: core_v1.Pod) -> Ports:
    """The pod's ports that the service leads to."""
    found = []
    for port in service.spec.ports:
        number = target_port(pod, port)
        if number is not None:
            found.append((port.name, number, port.protocol or "TCP", port.app_protocol))
    return tuple(found)


def host_name(service: core_v1.Service, pod: core_v1.Pod) -> str:
    """The pod's name in the service's domain: its hostname, if the service is its subdomain; else ""."""
    return pod.spec.hostname if pod.spec.hostname and pod.spec.subdomain == service.metadata.name else ""


def pod_reference(pod: core_v1.Pod) -> core_v1.ObjectReference:
    """What an address says of its pod."""
    return core_v1.ObjectReference(
        kind="Pod", namespace=pod.metadata.namespace, name=pod.metadata.name, uid=pod.metadata.uid
    )


def family_of(address: str) -> str:
    """`IPv4` or `IPv6`."""
    return "IPv6" if ":" in address else "IPv4"


def addresses_of(pod: core_v1.Pod, family: str) -> tuple[str, ...]:
    """The pod's addresses of a family."""
    listed = tuple(one.ip for one in pod.status.pod_ips) or (pod.status.pod_ip,)
    return tuple(ip for ip in listed if ip and family_of(ip) == family)


def families_of(service: core_v1.Service) -> tuple[str, ...]:
    """Families of a service's addresses, the first one first. A service that says nothing about it has those of its cluster IPs, or IPv4."""
    if service.spec.ip_families:
        return service.spec.ip_families
    given = service.spec.cluster_ips or (service.spec.cluster_ip,)
    return tuple(dict.fromkeys(family_of(ip) for ip in given if ip and ip != "None")) or ("IPv4",)


async def lost_race(write: Any) -> bool:
    """Await a write; returns whether somebody else was faster, or the namespace is going away."""
    try:
        await write
    except ApiError as error:
        if error.code not in (404, 409) and error.reason != "Forbidden":
            raise
        return True
    return False
