"""Defaults that pods have and templates do not: requests from limits, host ports, quality of service, addresses."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bayplan.api import quantity
from bayplan.api.pods.execution_rules import preferred_pod_terms, required_pod_terms
from bayplan.api.types import core_v1, meta_v1
from bayplan.support.memory.memo import memoized

Resources = dict[str, str | int | float]
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def default_pod(pod: core_v1.Pod) -> None:
    """Defaults of a pod whose spec has been defaulted by `default_pod_spec`."""
    spec = pod.spec
    for container in spec.containers + spec.init_containers:
        limits = container.resources.limits
        if limits:
            requests = container.resources.requests
            for name, value in limits.items():
                requests.setdefault(name, value)
    if spec.resources is not None and spec.resources.limits:
        _default_pod_requests(spec, spec.resources)
    if spec.enable_service_links is None:
        spec.enable_service_links = True
    if spec.host_network:
        for container in spec.containers + spec.init_containers:
            for port in container.ports:
                port.host_port = port.host_port or port.container_port
    status = pod.status
    if status.pod_ip or status.pod_ips or status.host_ip:
        _default_addresses(status)


def _default_addresses(status: core_v1.PodStatus) -> None:
    """`podIP` is the first of `podIPs`: whichever is missing follows from the other."""
    if status.pod_ips and not status.pod_ip:
        status.pod_ip = status.pod_ips[0].ip
    elif status.pod_ip and (not status.pod_ips or status.pod_ips[0].ip != status.pod_ip):
        status.pod_ips = (core_v1.PodIP(ip=status.pod_ip),)


def _default_pod_requests(spec: core_v1.PodSpec, resources: core_v1.ResourceRequirements) -> None:
    requests = resources.requests
    containers = container_requests(spec)
    for name, total in containers.items():
        if name in ("cpu", "memory"):
            requests.setdefault(name, str(total))
    for name, value in resources.limits.items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            requests.setdefault(name, value)


def container_requests(spec: core_v1.PodSpec) -> dict[str, quantity.Quantity]:
    """What all containers together request: the sum of the regular ones and sidecars, or more if an init
    container needs more."""
    return _aggregate(spec, lambda container: container.resources.requests)


def container_limits(spec: core_v1.PodSpec) -> dict[str, quantity.Quantity]:
    """What all containers together may use, added up as `container_requests` are."""
    return _aggregate(spec, lambda container: container.resources.limits)


def _aggregate(
    spec: core_v1.PodSpec, amounts: Callable[[core_v1.Container], Resources]
) -> dict[str, quantity.Quantity]:
    totals: dict[str, quantity.Quantity] = {}
    for container in spec.containers:
        _add(totals, amounts(container))
    sidecars: dict[str, quantity.Quantity] = {}
    peaks: dict[str, quantity.Quantity] = {}
    for container in spec.init_containers:
        if container.restart_policy == "Always":
            _add(totals, amounts(container))
            _add(sidecars, amounts(container))
            needed = dict(sidecars)
        else:
            needed = dict(sidecars)
            _add(needed, amounts(container))
        _raise_to(peaks, needed)
    _raise_to(totals, peaks)
    return totals


def _add(totals: dict[str, quantity.Quantity], resources: Resources) -> None:
    for name, value in resources.items():
        parsed = quantity.parse(value)
        totals[name] = totals[name].add(parsed) if name in totals else parsed


def _raise_to(totals: dict[str, quantity.Quantity], least: dict[str, quantity.Quantity]) -> None:
    for name, value in least.items():
        if name not in totals or totals[name] < value:
            totals[name] = value


def qos_class(spec: core_v1.PodSpec) -> str:
    """Quality of service: by the pod's own resources if it has them, else by those of its containers."""
    if spec.resources is not None and (spec.resources.requests or spec.resources.limits):
        return _qos_of([spec.resources])
    return _qos_of([container.resources for container in spec.containers + spec.init_containers])


def _qos_of(parts: list[core_v1.ResourceRequirements]) -> str:
    """Guaranteed needs limits for cpu and memory everywhere, so sums are made only where nothing lacks one."""
    limited = all(_is_positive(part.limits.get(name)) for part in parts for name in _COMPUTE)
    if limited and parts:
        requests: dict[str, quantity.Quantity] = {}
        limits: dict[str, quantity.Quantity] = {}
        for part in parts:
            _add(requests, {name: part.requests[name] for name in _COMPUTE if _is_positive(part.requests.get(name))})
            _add(limits, {name: part.limits[name] for name in _COMPUTE})
        return "Guaranteed" if requests == limits else "Burstable"
    for part in parts:
        for name in _COMPUTE:
            if _is_positive(part.requests.get(name)) or _is_positive(part.limits.get(name)):
                return "Burstable"
    return "BestEffort"


_COMPUTE = ("cpu", "memory")


@memoized(65536)
def _is_positive(amount: str | int | float | None) -> bool:
    return amount is not None and quantity.parse(amount).sign() > 0


def merge_match_label_keys(pod: core_v1.Pod) -> None:
    """Write the pod's own values of `matchLabelKeys` and `mismatchLabelKeys` into the selectors of its affinity
    terms and spread constraints."""
    spec, labels = pod.spec, pod.metadata.labels
    for constraint in spec.topology_spread_constraints:
        if constraint.match_label_keys and constraint.label_selector is not None:
            _extend(constraint.label_selector, labels, constraint.match_label_keys, "In")
    affinity = spec.affinity
    if affinity is None:
        return
    for part in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if part is None:
            continue
        preferred = (one.pod_affinity_term for one in preferred_pod_terms(part))
        for term in (*required_pod_terms(part), *preferred):
            if term.label_selector is not None:
                _extend(term.label_selector, labels, term.match_label_keys, "In")
                _extend(term.label_selector, labels, term.mismatch_label_keys, "NotIn")


def _extend(selector: meta_v1.LabelSelector, labels: dict[str, str], keys: tuple[str, ...], operator: str) -> None:
    added = tuple(
        meta_v1.LabelSelectorRequirement(key=key, operator=operator, values=(labels[key],))
        for key in keys
        if key in labels
    )
    if added:
        selector.match_expressions += added


def app_armor_from_annotations(pod: core_v1.Pod) -> None:
    """Deprecated AppArmor annotations become the field of the container they name, where the pod's own does not say the same."""
    if pod.spec.os is not None and pod.spec.os.name == "windows":
        return
    of_pod = pod.spec.security_context.app_armor_profile if pod.spec.security_context is not None else None
    for key, value in pod.metadata.annotations.items():
        if not key.startswith(_APPARMOR):
            continue
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            if container.name != key.removeprefix(_APPARMOR):
                continue
            context = container.security_context
            if context is not None and context.app_armor_profile is not None:
                continue
            profile = app_armor_profile(value)
            if profile is not None and profile != of_pod:
                context = context or core_v1.SecurityContext()
                container.security_context = msgspec.structs.replace(context, app_armor_profile=profile)


_MAX_PROFILE = 4095


def app_armor_profile(annotation: str) -> core_v1.AppArmorProfile | None:
    """The profile that a deprecated annotation stands for; None if it is none."""
    if annotation == "unconfined":
        return core_v1.AppArmorProfile(type="Unconfined")
    if annotation == "runtime/default":
        return core_v1.AppArmorProfile(type="RuntimeDefault")
    name = annotation.removeprefix("localhost/")
    if name != annotation and name and name == name.strip() and len(name) <= _MAX_PROFILE:
        return core_v1.AppArmorProfile(type="Localhost", localhost_profile=name)
    return None
