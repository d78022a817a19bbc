"""`/healthz`, `/livez` and `/readyz`: one line per check, under the names that kube-apiserver gives them, and each check on a path of its own.

Source: Kubernetes' `apiserver/pkg/server/healthz`, and `component-base/metrics/prometheus/slis` for how often each check passed. A check tells about what stands
for the thing that it names: what a post-start hook of kube-apiserver does is a step of the start here, or a task that is kept running, or both. Steps that have no
counterpart (aggregated discovery of other servers) pass once the server is open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from bayplan.apiserver.metric_stability import described
from bayplan.apiserver.requests import CHECK_HEADERS, TEXT, Request, Response
from bayplan.support.metrics.instruments import Registry

if TYPE_CHECKING:
    from bayplan.apiserver.server import ApiServer

logger = logging.getLogger(__name__)

HEALTH_CHECKS: Final = frozenset(("/healthz", "/livez", "/readyz"))
"""The paths that sum up all checks."""

CACHES: Final = "caches"
"""Step of the start: the store is read into the caches."""
DEFINITIONS: Final = "definitions"
"""Step: custom resources that are defined already are served."""
ALLOCATORS: Final = "allocators"
"""Step: it is known which cluster IPs and node ports are taken."""
BOOTSTRAP: Final = "bootstrap objects"
"""Step: namespaces, priority classes, roles, flow control and API services are published."""
TASKS: Final = "tasks"
"""Step: what the server keeps true while it runs has been started."""
SERVICE: Final = "service"
"""Step of servers with an address: the `kubernetes` service leads to it."""
AUTHENTICATION: Final = "authentication"
"""Step of servers with an address: how clients are authenticated is published."""
START: Final = (CACHES, DEFINITIONS, ALLOCATORS, BOOTSTRAP, TASKS)
"""Steps of every start."""


class _Hook(NamedTuple):
    """What stands for a post-start hook."""

    step: str
    tasks: tuple[str, ...] = ()


_HOOKS: Final = {
    "start-apiserver-admission-initializer": _Hook(CACHES),
    "generic-apiserver-start-informers": _Hook(CACHES),
    "priority-and-fairness-config-consumer": _Hook(BOOTSTRAP, ("DanglingFlowSchemas",)),
    "priority-and-fairness-filter": _Hook(TASKS),
    "storage-object-count-tracker-hook": _Hook(CACHES),
    "start-apiextensions-informers": _Hook(CACHES),
    "start-apiextensions-controllers": _Hook(
        TASKS, ("CustomResourceNames", "CustomResourceApproval", "CustomResourceFinalizer")
    ),
    "crd-informer-synced": _Hook(DEFINITIONS, ("CustomResourceServing",)),
    "start-system-namespaces-controller": _Hook(BOOTSTRAP, ("restore",)),
    "peer-endpoint-reconciler-controller": _Hook(TASKS),
    "start-cluster-authentication-info-controller": _Hook(AUTHENTICATION, ("published authentication",)),
    "start-kube-apiserver-identity-lease-controller": _Hook(TASKS, ("identity",)),
    "start-kube-apiserver-identity-lease-garbage-collector": _Hook(TASKS, ("identity",)),
    "storage-readiness": _Hook(CACHES),
    "start-legacy-token-tracking-controller": _Hook(BOOTSTRAP, ("LegacyTokenUse",)),
    "start-service-ip-repair-controllers": _Hook(ALLOCATORS),
    "rbac/bootstrap-roles": _Hook(BOOTSTRAP),
    "scheduling/bootstrap-system-priority-classes": _Hook(BOOTSTRAP),
    "priority-and-fairness-config-producer": _Hook(BOOTSTRAP, ("restore",)),
    "bootstrap-controller": _Hook(SERVICE, ("service",)),
    "start-kubernetes-service-cidr-controller": _Hook(BOOTSTRAP),
    "start-kube-aggregator-informers": _Hook(CACHES),
    "apiservice-status-local-available-controller": _Hook(TASKS, ("ApiServiceAvailability",)),
    "apiservice-status-remote-available-controller": _Hook(TASKS, ("ApiServiceAvailability",)),
    "apiservice-registration-controller": _Hook(BOOTSTRAP),
    "apiservice-wait-for-first-sync": _Hook(BOOTSTRAP),
    "apiservice-discovery-controller": _Hook(TASKS),
    "kube-apiserver-autoregistration": _Hook(TASKS, ("CustomResourceApiServices",)),
}
_LAST_HOOKS: Final = {
    "apiservice-openapi-controller": _Hook(DEFINITIONS, ("CustomResourceServing",)),
    "apiservice-openapiv3-controller": _Hook(DEFINITIONS, ("CustomResourceServing",)),
}
_COMPONENTS: Final = "component-process"
"""The one check that kube-apiserver does not have: whether scheduler, controllers and simulated nodes of the same cluster run."""

Check = Callable[[], str]
"""Why the server is not healthy, or ""."""


class Health:
    """The checks of one server, and the answers that they make."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._checks: dict[tuple[str, bool], Mapping[str, Check]] = {}
        self._indicators = Registry()
        self._indicators.describe = described
        labels = ("name", "type")
        started = self._indicators.gauge(
            "process_start_time_seconds", "Start time of the process since unix epoch in seconds."
        )
        started.labels().set(server.context.clock.now())
        self._results = self._indicators.gauge(
            "kubernetes_healthcheck", "This metric records the result of a single healthcheck.", labels
        )
        self._counts = self._indicators.counter(
            "kubernetes_healthchecks_total", "This metric records the results of all healthcheck.", (*labels, "status")
        )

    def handle(self, request: Request, path: str) -> Response | None:
        """The answer to `/readyz` and the like, and to `/readyz/<check>`; None if there is no such check."""
        kind, _, name = path.strip("/").partition("/")
        checks = self._checks_of(kind)
        if not name:
            return self._all(request, kind, checks)
        check = checks.get(name)
        if check is None:
            return None
        problem = check()
        if problem:
            return _failed(f"internal server error: {problem}\n")
        return Response(200, b"ok", TEXT)

    def paths(self) -> list[str]:
        """The paths of all checks."""
        kinds = ("healthz", "livez", "readyz")
        return [path for kind in kinds for path in (f"/{kind}", *(f"/{kind}/{name}" for name in self._checks_of(kind)))]

    def reset_indicators(self) -> None:
        """Count anew how often each check passed."""
        self._indicators.reset()

    def indicators(self) -> bytes:
        """`/metrics/slis`: the result of each check when it was last looked at, and how often it was which."""
        return self._indicators.render()

    def _all(self, request: Request, kind: str, checks: Mapping[str, Check]) -> Response:
        excluded = _excluded(request)
        lines, problems = [], []
        for name, check in checks.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok\n")
            elif problem := check():  # the reason is for those who may read the check itself
                problems.append(f"{name}: {problem}")
                self._note(name, kind, is_fine=False)
                lines.append(f"[-]{name} failed: reason withheld\n")
            else:
                self._note(name, kind, is_fine=True)
                lines.append(f"[+]{name} ok\n")
        unknown = sorted(set(excluded) - set(checks))
        if unknown:
            names = ",".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}\n")
        text = "".join(lines)
        if problems:
            logger.info("%s check failed: %s", kind, "; ".join(problems))
            return _failed(f"{text}{kind} check failed\n")
        if "verbose" not in request.query:
            return Response(200, b"ok", TEXT, dict(CHECK_HEADERS))
        return Response(200, f"{text}{kind} check passed\n".encode(), TEXT, dict(CHECK_HEADERS))

    def _note(self, name: str, kind: str, *, is_fine: bool) -> None:
        self._results.labels(name, kind).set(float(is_fine))
        self._counts.labels(name, kind, "success" if is_fine else "error").inc()

    def _checks_of(self, kind: str) -> Mapping[str, Check]:
        """The checks of one of the three paths, in the order in which they are told."""
        is_ready = kind == "readyz"
        services = self._server.context.key_service_error
        has_components = is_ready and bool(self._server.context.component_failures)
        found = self._checks.get((kind, has_components))
        if found is None:
            bootstrap = _Hook(BOOTSTRAP, ("CustomResourceApiServices",))
            found = {
                "ping": _fine,
                "log": _log,
                **({} if is_ready else {"loopback-serving-certificate": _fine}),  # components ask without TLS
                "etcd": self._store,
                **({"etcd-readiness": self._store} if is_ready else {}),
                **self._stores_elsewhere(is_ready=is_ready),
                **({"informer-sync": self._caches} if is_ready else {}),
                **{f"poststarthook/{name}": partial(self._hook, hook) for name, hook in _HOOKS.items()},
                "autoregister-completion": partial(self._hook, bootstrap),
                **{f"poststarthook/{name}": partial(self._hook, hook) for name, hook in _LAST_HOOKS.items()},
                # a restart does not mend a service that is away
                **({"kms-providers": services} if services is not None and kind != "livez" else {}),
                **({_COMPONENTS: self._components} if has_components else {}),
                **({"shutdown": self._stopping} if is_ready else {}),
            }
            self._checks[kind, has_components] = found
        return found

    def _hook(self, hook: _Hook) -> str:
        server = self._server
        if hook.step in server.unfinished:
            return "not finished"
        failures = server.task_failures
        return next((f"{name} failed: {failures[name]}" for name in hook.tasks if name in failures), "")

    def _caches(self) -> str:
        if CACHES in self._server.unfinished:
            return "informers not started yet"
        return "" if DEFINITIONS not in self._server.unfinished else "custom resources are not served yet"

    def _store(self, number: int = 0) -> str:
        """number: of those that some kinds have for themselves, from 1 on; 0 is that of all others."""
        if not self._server.ready:
            return "the store is not open"
        return self._server.context.objects.store_errors[number]

    def _stores_elsewhere(self, *, is_ready: bool) -> dict[str, Check]:
        """The checks of the stores that some kinds have for themselves."""
        names = ("etcd-override", "etcd-override-readiness") if is_ready else ("etcd-override",)
        count = len(self._server.context.objects.store_errors) - 1
        return {f"{name}-{number}": partial(self._store, number + 1) for number in range(count) for name in names}

    def _components(self) -> str:
        failures = {name: failure() for name, failure in self._server.context.component_failures.items()}
        return "; ".join(dict.fromkeys(filter(None, failures.values())))

    def _stopping(self) -> str:
        return "process is shutting down" if self._server.stopping else ""


def _fine() -> str:
    return ""


def _log() -> str:
    """Whether what is logged can be written."""
    try:
        for handler in logging.getLogger().handlers:
            handler.flush()
    except (OSError, ValueError) as error:
        return f"the log cannot be written: {error}"
    return ""


def _excluded(request: Request) -> Sequence[str]:
    """The checks that the request leaves out; the parameter may be repeated."""
    query = request.query
    several = getattr(query, "getall", None)
    if several is not None:
        return tuple(several("exclude", ()))
    return (query["exclude"],) if "exclude" in query else ()


def _failed(text: str) -> Response:
    return Response(500, text.encode(), TEXT, dict(CHECK_HEADERS))
