"""What the API server is and has, under kube-apiserver's names: versions, feature gates, caches and node ports. All is read when somebody looks."""

from __future__ import annotations

from functools import partial
from ipaddress import ip_network
from itertools import islice
from typing import TYPE_CHECKING, Final

from bayplan.apiserver.aggregation.registry import is_available
from bayplan.apiserver.reads.cache import ResourceCache
from bayplan.apiserver.reads.history import HISTORY_LIMIT
from bayplan.support.metrics.instruments import Counter, Family, Gauge, Histogram, Registry
from bayplan.support.metrics.process import measure_process

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bayplan.api.kinds import Kind
    from bayplan.apiserver.server import ApiServer

_IPV4: Final = 4
_MOST_ADDRESSES: Final = 1 << 64
"""Larger ranges count as this large, as in kube-apiserver."""
_SAMPLED: Final = 100
"""Objects of a kind whose sizes stand for those of all."""
_RESOURCE: Final = ("group", "resource")
_BUILD_FIELDS: Final = (
    *("major", "minor", "gitVersion", "gitCommit", "gitTreeState"),
    *("buildDate", "goVersion", "compiler", "platform"),
)
_BUILD_LABELS: Final = (
    *("major", "minor", "git_version", "git_commit", "git_tree_state"),
    *("build_date", "go_version", "compiler", "platform"),
)


def measure_state(server: ApiServer, version: Mapping[str, str]) -> None:
    """Add these metrics to the server's registry. version: as `/version` shows it."""
    registry, context = server.metrics, server.context
    measure_process(registry, context.clock.now())
    text = (
        "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which "
        "Kubernetes was built, and platform on which it is running."
    )
    build = registry.gauge("kubernetes_build_info", text, _BUILD_LABELS)
    build.labels(*(version[field] for field in _BUILD_FIELDS)).set(1.0)
    release = f"{version['major']}.{version['minor']}"
    shown = registry.gauge(
        "version_info",
        "Provides the compatibility version info of the component. The component label is the name of the component, usually kube, but is relevant for "
        "aggregated-apiservers.",
        ("binary", "component", "emulation", "min_compat"),
    )
    least = f"{version['minCompatibilityMajor']}.{version['minCompatibilityMinor']}"
    shown.labels(release, "kube", release, least).set(1.0)
    gates = registry.gauge(
        "kubernetes_feature_enabled",
        "This metric records the data about the stage and enablement of a k8s feature.",
        ("name", "stage"),
    )
    for name, stage, is_on in context.settings.kubernetes_gates:
        gates.labels(name, stage).set(float(is_on))
    _measure_allocations(server, registry)
    _CacheMetrics(server, registry)


def _measure_allocations(server: ApiServer, registry: Registry) -> None:
    allocators = server.context.allocators
    prefix = "kube_apiserver_nodeport_allocator_"
    ports = allocators.node_ports
    taken = registry.gauge(f"{prefix}allocated_ports", "Gauge measuring the number of allocated NodePorts for Services")
    free = registry.gauge(f"{prefix}available_ports", "Gauge measuring the number of available NodePorts for Services")
    taken.labels().set_function(lambda: float(len(ports.used)))
    free.labels().set_function(lambda: float(ports.last - ports.first + 1 - len(ports.used)))
    prefix = "kube_apiserver_clusterip_allocator_"
    taken = registry.gauge(
        f"{prefix}allocated_ips", "Gauge measuring the number of allocated IPs for Services", ("cidr",)
    )
    free = registry.gauge(
        f"{prefix}available_ips", "Gauge measuring the number of available IPs for Services", ("cidr",)
    )
    ranges = server.context.settings.service_cluster_ip_range.split(",")
    addresses = server.context.kinds.of_kind("networking.k8s.io/v1", "IPAddress")
    if addresses is None:
        return
    for text in ranges:
        network = ip_network(text, strict=False)
        size = min(network.num_addresses, _MOST_ADDRESSES) - (2 if network.version == _IPV4 else 1)
        count = partial(_taken, server, addresses, network.version, is_alone=len(ranges) == 1)
        taken.labels(text).set_function(count)
        free.labels(text).set_function(lambda size=size, count=count: size - count())  # type: ignore[misc]


def _taken(server: ApiServer, addresses: Kind, version: int, *, is_alone: bool) -> float:
    """How many addresses of a family services have."""
    cache = server.context.objects.cache(addresses)
    if is_alone:
        return float(cache.count)
    return float(sum((":" not in entry.name) == (version == _IPV4) for entry in cache.all()))


class _CacheMetrics:
    """Caches by resource. Those of custom resources come and go, so series are made anew for each look."""

    def __init__(self, server: ApiServer, registry: Registry) -> None:
        self._server = server
        received = "Counter of events received in watch cache broken by resource type."
        self._received = registry.counter("apiserver_watch_cache_events_received_total", received, _RESOURCE)
        self._stored = registry.counter(
            "apiserver_storage_events_received_total", "Number of etcd events received split by kind.", _RESOURCE
        )
        self._dispatched = registry.counter(
            "apiserver_watch_cache_events_dispatched_total",
            "Counter of events dispatched in watch cache broken by resource type.",
            _RESOURCE,
        )
        self._undecoded = registry.counter(
            "apiserver_storage_decode_errors_total",
            "Number of stored object decode errors split by object type",
            _RESOURCE,
        )
        text = "Current resource version of watch cache broken by resource type. This is truncated to the 15 least significant digits."
        self._revision = registry.gauge("apiserver_watch_cache_resource_version", text, _RESOURCE)
        self._capacity = registry.gauge(
            "watch_cache_capacity", "Total capacity of watch cache broken by resource type.", _RESOURCE
        )
        text = (
            "Estimated size of stored objects in database. Estimate is based on sum of last observed sizes of serialized objects. In case of a fetching error, "
            "the value will be -1."
        )
        self._sizes = registry.gauge("apiserver_resource_size_estimate_bytes", text, _RESOURCE)
        self._unavailable = registry.gauge(
            "aggregator_unavailable_apiservice",
            "Gauge of APIServices which are marked as unavailable broken down by APIService name.",
            ("name",),
        )
        registry.on_render(self._update)

    def _update(self) -> None:
        services = {one.metadata.name: one for one in self._server.context.aggregated.services().values()}
        for (name,) in [labels for labels in self._unavailable.children if labels[0] not in services]:
            self._unavailable.remove(name)
        for name, service in services.items():
            self._unavailable.labels(name).set(float(not is_available(service)))
        found = {(one.kind.group, one.kind.plural): one for one in self._server.context.objects.caches()}
        families: tuple[Family[Counter] | Family[Gauge] | Family[Histogram], ...] = (
            *(self._received, self._stored, self._dispatched, self._undecoded),
            *(self._revision, self._capacity, self._sizes),
        )
        for family in families:
            for labels in [labels for labels in family.children if labels not in found]:
                family.remove(*labels)
        for (group, plural), cache in found.items():
            for counter in (self._received, self._stored, self._dispatched):
                counter.labels(group, plural).value = cache.events
            if cache.unreadable.total:
                self._undecoded.labels(group, plural).value = cache.unreadable.total
            self._revision.labels(group, plural).set(cache.revision)
            self._capacity.labels(group, plural).set(HISTORY_LIMIT)
            self._sizes.labels(group, plural).set(_size_of(cache))


def _size_of(cache: ResourceCache) -> float:
    if cache.unreadable:
        return -1.0
    sizes = [len(entry.body) for entry in islice(cache.all(), _SAMPLED)]
    return sum(sizes) * cache.count / len(sizes) if sizes else 0.0
