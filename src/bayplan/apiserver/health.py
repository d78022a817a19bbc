"""`/healthz`, `/livez` and `/readyz`: one line per check, under the names that kube-apiserver gives them, and each check on a path of its own.

Source: Kubernetes' `apiserver/pkg/server/healthz`. Checks of what starts with the server pass once it has started; that of the store writes nothing, but fails
when the store is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from bayplan.apiserver.requests import Request, Response

if TYPE_CHECKING:
    from bayplan.apiserver.server import ApiServer

TEXT = "text/plain; charset=utf-8"
_HEADERS = {"X-Content-Type-Options": "nosniff"}
_STARTED = (
    "start-apiserver-admission-initializer",
    "generic-apiserver-start-informers",
    "priority-and-fairness-config-consumer",
    "priority-and-fairness-filter",
    "storage-object-count-tracker-hook",
    "start-apiextensions-informers",
    "start-apiextensions-controllers",
    "crd-informer-synced",
    "start-system-namespaces-controller",
    "peer-endpoint-reconciler-controller",
    "start-cluster-authentication-info-controller",
    "start-kube-apiserver-identity-lease-controller",
    "start-kube-apiserver-identity-lease-garbage-collector",
    "storage-readiness",
    "start-legacy-token-tracking-controller",
    "start-service-ip-repair-controllers",
    "rbac/bootstrap-roles",
    "scheduling/bootstrap-system-priority-classes",
    "priority-and-fairness-config-producer",
    "bootstrap-controller",
    "start-kubernetes-service-cidr-controller",
    "start-kube-aggregator-informers",
    "apiservice-status-local-available-controller",
    "apiservice-status-remote-available-controller",
    "apiservice-registration-controller",
    "apiservice-wait-for-first-sync",
    "apiservice-discovery-controller",
    "kube-apiserver-autoregistration",
)
_OPENAPI = ("apiservice-openapi-controller", "apiservice-openapiv3-controller")

Check = Callable[[], str]
"""Why the server is not healthy, or ""."""


class Health:
    """The checks of one server, and the answers that they make."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._checks: dict[str, Mapping[str, Check]] = {}

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

    def _all(self, request: Request, kind: str, checks: Mapping[str, Check]) -> Response:
        excluded = _excluded(request)
        lines, failed = [], False
        for name, check in checks.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok\n")
            elif check():  # the reason is for those who may read the check itself
                failed = True
                lines.append(f"[-]{name} failed: reason withheld\n")
            else:
                lines.append(f"[+]{name} ok\n")
        unknown = sorted(set(excluded) - set(checks))
        if unknown:
            names = ",".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}\n")
        text = "".join(lines)
        if failed:
            return _failed(f"{text}{kind} check failed\n")
        if "verbose" not in request.query:
            return Response(200, b"ok", TEXT, dict(_HEADERS))
        return Response(200, f"{text}{kind} check passed\n".encode(), TEXT, dict(_HEADERS))

    def _checks_of(self, kind: str) -> Mapping[str, Check]:
        """The checks of one of the three paths, in the order in which they are told."""
        found = self._checks.get(kind)
        if found is None:
            hooks = {f"poststarthook/{name}": self._started for name in _STARTED}
            last = {f"poststarthook/{name}": self._started for name in _OPENAPI}
            ready = {"etcd-readiness": self._store, "informer-sync": self._started} if kind == "readyz" else {}
            loopback = {} if kind == "readyz" else {"loopback-serving-certificate": _fine}
            stop = {"shutdown": self._stopping} if kind == "readyz" else {}
            found = {
                "ping": _fine,
                "log": _fine,
                **loopback,
                "etcd": self._store,
                **ready,
                **hooks,
                "autoregister-completion": self._started,
                **last,
                **stop,
            }
            self._checks[kind] = found
        return found

    def _started(self) -> str:
        return "" if self._server.ready or self._server.stopping else "not finished"

    def _store(self) -> str:
        return "" if self._server.ready else "the store is not open"

    def _stopping(self) -> str:
        return "process is shutting down" if self._server.stopping else ""


def _fine() -> str:
    return ""


def _excluded(request: Request) -> Sequence[str]:
    """The checks that the request leaves out; the parameter may be repeated."""
    query = request.query
    several = getattr(query, "getall", None)
    if several is not None:
        return tuple(several("exclude", ()))
    return (query["exclude"],) if "exclude" in query else ()


def _failed(text: str) -> Response:
    return Response(500, text.encode(), TEXT, dict(_HEADERS))
