"""What the API server measures, under kube-apiserver's names: requests, how long they took, watches, objects.

A request costs one dictionary look-up: its series are found by what tells requests apart and are kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.api.kinds import Kind
from bayplan.apiserver.discovery.deprecation import deprecation_of
from bayplan.apiserver.objects import ObjectStore
from bayplan.apiserver.reads.cache import ResourceCache
from bayplan.apiserver.requests import Request, ResourcePath, Response
from bayplan.support.metrics.instruments import Counter, Gauge, Histogram, Registry, exponential_buckets

_SCOPE = ("verb", "group", "version", "resource", "subresource", "scope", "component")
_BUCKETS = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0),
    *(4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)
_COMPONENT = "apiserver"
_WITH_BODIES = frozenset(("create", "update", "patch"))
_CONNECT = frozenset(("attach", "exec", "portforward", "proxy"))
_APPLY = "application/apply-patch+"
_VERBS = {
    **{verb: verb.upper() for verb in ("get", "list", "watch", "patch", "delete", "deletecollection", "put", "post")},
    "head": "GET",
    "create": "POST",
    "update": "PUT",
}
"""What metrics call verbs, and the methods of other paths; all else is `other`, so that clients cannot make series as they like."""


@dataclass(frozen=True, slots=True)
class _Series:
    total: Counter
    duration: Histogram
    responses: Histogram | None
    """Bytes of responses, of reads."""
    bodies: Histogram | None
    """Bytes of bodies, of writes."""


class RequestMetrics:
    """The series of one API server."""

    def __init__(self, registry: Registry, objects: ObjectStore) -> None:
        self._total = registry.counter(
            "apiserver_request_total",
            "Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, component, and HTTP response code.",
            ("verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component", "code"),
        )
        self._duration = registry.histogram(
            "apiserver_request_duration_seconds",
            "Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, scope and component.",
            ("verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"),
            _BUCKETS,
        )
        self._sli = registry.histogram(
            "apiserver_request_sli_duration_seconds",
            "Response latency distribution (not counting webhook duration and priority & fairness queue wait times) in seconds for each verb, group, version, "
            "resource, subresource, scope and component.",
            _SCOPE,
            _BUCKETS,
        )
        self._slo = registry.histogram(
            "apiserver_request_slo_duration_seconds",
            "Response latency distribution (not counting webhook duration and priority & fairness queue wait times) in seconds for each verb, group, version, "
            "resource, subresource, scope and component.",
            _SCOPE,
            _BUCKETS,
        )
        self._response_sizes = registry.histogram(
            "apiserver_response_sizes",
            "Response size distribution in bytes for each group, version, verb, resource, subresource, scope and component.",
            _SCOPE,
            exponential_buckets(1000, 10, 7),
        )
        self._body_sizes = registry.histogram(
            "apiserver_request_body_size_bytes",
            "Apiserver request body size in bytes broken out by resource and verb.",
            ("resource", "verb", "group"),
            exponential_buckets(50_000, 1.5, 11),
        )
        self._lists = registry.counter(
            "apiserver_cache_list_total",
            "Number of LIST requests served from watch cache",
            ("group", "resource", "index"),
        )
        registry.on_render(self._sum_up)
        self._terminations = registry.counter(
            "apiserver_request_terminations_total",
            "Number of requests which apiserver terminated in self-defense.",
            (*_SCOPE, "code"),
        )
        self._deprecated = registry.gauge(
            "apiserver_requested_deprecated_apis",
            "Gauge of deprecated APIs that have been requested, broken out by API group, version, resource, subresource, and removed_release.",
            ("group", "version", "resource", "subresource", "removed_release"),
        )
        self._long_running = registry.gauge(
            "apiserver_longrunning_requests", "Long-running requests that are being served.", _SCOPE
        )
        self._watch_events = registry.counter(
            "apiserver_watch_events_total", "Events sent to watchers.", ("group", "version", "resource")
        )
        self.in_flight = registry.gauge(
            "apiserver_current_inflight_requests",
            "Maximal number of currently used inflight request limit of this apiserver per request kind in last second.",
            ("request_kind",),
        )
        _measure_objects(registry, objects)
        self._series: dict[object, _Series] = {}

    def record(self, request: Request, path: ResourcePath | None, response: Response, seconds: float) -> None:
        """Count a request that has been answered, `seconds` after it came."""
        query = request.query
        verb = request.info.verb
        key = (
            verb if verb in _VERBS else "",
            response.code,
            None if path is None else (_name(path.kind), path.subresource, bool(path.name), bool(path.namespace)),
            response.watcher is not None,
            bool(query) and "dryRun" in query,
            verb == "patch" and request.content_type.startswith(_APPLY),
        )
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = self._make(request, path, response)
        series.total.value += 1
        if response.watcher is None:
            series.duration.observe(seconds)
        if series.responses is not None:
            series.responses.observe(len(response.body))
        elif series.bodies is not None:
            series.bodies.observe(len(request.body))

    def record_rejected(self, request: Request, path: ResourcePath | None, response: Response) -> None:
        """Count a request that was not let in. How long that took says nothing."""
        self._make(request, path, response).total.value += 1
        self._terminations.labels(*_labels(request, path, is_watch=False), str(response.code)).inc()

    def _make(self, request: Request, path: ResourcePath | None, response: Response) -> _Series:
        verb, *place = _labels(request, path, is_watch=response.watcher is not None)
        if path is not None and deprecation_of(path.kind):  # nothing that is served says when it will be removed
            self._deprecated.labels(*place[:4], "").set(1.0)
        labels = (verb, "All" if "dryRun" in request.query else "", *place)
        is_write = path is not None and request.info.verb in _WITH_BODIES
        return _Series(
            self._total.labels(*labels, str(response.code)),
            self._duration.labels(*labels),
            self._response_sizes.labels(verb, *place) if verb in ("GET", "LIST") else None,
            self._body_sizes.labels(place[2], request.info.verb, place[0]) if is_write else None,
        )

    def _sum_up(self) -> None:
        """Durations without `dry_run`. Time in the queues of priority and fairness is in neither; time in webhooks is in both."""
        sums: dict[tuple[str, ...], Histogram] = {}
        for (verb, _, *place), child in self._duration.children.items():
            total = sums.setdefault((verb, *place), Histogram(_BUCKETS))
            total.counts = [one + other for one, other in zip(total.counts, child.counts, strict=True)]
            total.sum += child.sum
        lists: dict[tuple[str, str], float] = {}
        for (verb, _, group, _, resource, _, _, _, code), counter in self._total.children.items():
            if verb == "LIST" and code == "200":
                lists[group, resource] = lists.get((group, resource), 0.0) + counter.value
        for (group, resource), value in lists.items():
            self._lists.labels(group, resource, "").value = value
        for labels, total in sums.items():
            for family in (self._sli, self._slo):
                series = family.labels(*labels)
                series.counts, series.sum = total.counts, total.sum

    def watch_opened(self, request: Request, path: ResourcePath) -> Gauge:
        """The series of running watches of this sort."""
        return self._long_running.labels(*_labels(request, path, is_watch=True))

    def watch_events(self, kind: Kind) -> Counter:
        """The series of events of a kind."""
        return self._watch_events.labels(kind.group, kind.version, kind.plural)


def _name(kind: Kind) -> object:
    """What stands for a kind among the series: not the rows of custom resources, which go with their definitions."""
    return kind.path() if kind.is_custom else kind


def _labels(request: Request, path: ResourcePath | None, *, is_watch: bool) -> tuple[str, ...]:
    """Verb, group, version, resource, subresource, scope, component."""
    verb = _VERBS.get(request.info.verb, "other")
    if path is None:
        return verb, "", "", "", "", "", _COMPONENT
    subresource = path.subresource.name if path.subresource is not None else ""
    if subresource in _CONNECT:
        verb = "CONNECT"
    elif is_watch:
        verb = "WATCH"
    elif verb == "PATCH" and request.content_type.startswith(_APPLY):
        verb = "APPLY"
    scope = "resource" if path.name or verb == "POST" else "namespace" if path.namespace else "cluster"
    return verb, path.kind.group, path.kind.version, path.kind.plural, subresource, scope, _COMPONENT


def _measure_objects(registry: Registry, objects: ObjectStore) -> None:
    """Numbers of objects, asked for when somebody looks."""
    text = "Number of stored objects at the time of last check split by kind. In case of a fetching error, the value will be -1."
    now = registry.gauge("apiserver_resource_objects", text, ("group", "resource"))
    former = f"[DEPRECATED, consider using apiserver_resource_objects instead] {text}"
    before = registry.gauge("apiserver_storage_objects", former, ("resource",))
    for cache in objects.caches():
        kind = cache.kind
        now.labels(kind.group, kind.plural).set_function(lambda cache=cache: _count_of(cache))  # type: ignore[misc]
        before.labels(kind.group_resource).set_function(lambda cache=cache: _count_of(cache))  # type: ignore[misc]


def _count_of(cache: ResourceCache) -> float:
    return -1.0 if cache.unreadable else float(cache.count)
