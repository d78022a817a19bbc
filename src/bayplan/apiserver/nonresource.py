"""Paths that are no resources: discovery, OpenAPI, version, health, metrics."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import msgspec

from bayplan import KUBERNETES_VERSION, __version__
from bayplan.api.errors import failure, method_not_allowed, resource_not_found
from bayplan.apiserver import openid
from bayplan.apiserver.discovery import Discovery
from bayplan.apiserver.negotiation import JSON, negotiate
from bayplan.apiserver.openapi import OpenApi
from bayplan.apiserver.representation import in_form
from bayplan.apiserver.requests import Request, Response

if TYPE_CHECKING:
    from bayplan.apiserver.server import ApiServer

TEXT = "text/plain; charset=utf-8"
PUBLIC_PATHS = ("/healthz", "/livez", "/readyz", "/version")
"""What anybody may read."""
_CHECKS = ("ping", "log", "etcd", "informer-sync")


def _not_found() -> Response:
    return Response(404, b"404 page not found\n", TEXT)


class NonResource:
    """Answers everything that `parse_resource_path` does not take."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.discovery = Discovery(server.context.kinds)
        self.openapi = OpenApi(server.context.kinds)

    def handle(self, request: Request) -> Response:
        """The answer. Raises ApiError."""
        path = request.path.rstrip("/") or "/"
        if path == "/index.html":
            path = "/"
        head = path.split("/", 2)[1]
        if head in ("healthz", "livez", "readyz"):
            return self._health(request, path)
        if path == "/version":
            return Response(200, msgspec.json.format(msgspec.json.encode(version_info()), indent=2), is_final=True)
        if path == "/metrics":
            return Response(200, self.server.metrics.render(), "text/plain; version=0.0.4; charset=utf-8")
        if head in (".well-known", "openid"):
            issuer = self.server.context.service_accounts.issuer
            return openid.handle(request, path, issuer, self.server.address) or _not_found()
        if head == "openapi":
            return self.openapi.handle(request) or _not_found()
        if path == "/" or head in ("api", "apis"):
            return self._discover(request, path)
        return _not_found()

    def _discover(self, request: Request, path: str) -> Response:
        found = self.discovery.find(path, request.accept)
        if found is None:
            parts = path.split("/")
            known = len(parts) > 2 and (parts[1] == "api" or parts[2] in self.server.context.kinds.groups())
            if known:
                raise resource_not_found()
            return _not_found()
        if request.method != "GET":
            raise method_not_allowed()
        body, media_type = found
        wanted = negotiate(_plain(request.accept)).media_type if media_type == JSON else JSON
        if wanted != JSON and path != "/":
            return Response(200, in_form(body, wanted), wanted)
        headers = {"Vary": "Accept"} if "as=" in media_type else {}
        return Response(200, body, media_type, headers)

    def _health(self, request: Request, path: str) -> Response:
        _, kind, *rest = path.split("/")
        checks = [*_CHECKS, *(("poststarthook/start-apiextensions-informers",) if kind != "livez" else ())]
        if kind == "readyz":
            checks.append("shutdown")
        if rest:
            if rest[0] not in checks:
                return _not_found()
            checks = [rest[0]]
        excluded = request.query.get("exclude", "").split(",")
        healthy = self.server.ready or kind != "readyz"
        if "verbose" in request.query and not rest:
            lines = [
                f"[+]{name} excluded: ok"
                if name in excluded
                else f"[{'+' if healthy else '-'}]{name} {'ok' if healthy else 'failed: reason withheld'}"
                for name in checks
            ]
            lines.append(f"{kind} check {'passed' if healthy else 'failed'}")
            return Response(200 if healthy else 500, ("\n".join(lines) + "\n").encode(), TEXT)
        if not healthy:
            raise failure(500, "InternalError", f"{kind} check failed", details=False)
        return Response(200, b"ok", TEXT)


def _plain(accept: str) -> str:
    return accept if accept and "as=" not in accept else ""


def version_info() -> dict[str, str]:
    """The body of `/version`: the Kubernetes release that is implemented."""
    major, minor, _ = KUBERNETES_VERSION.split(".")
    system = platform.system().lower()
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": f"v{KUBERNETES_VERSION}+bayplan-{__version__}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": platform.python_implementation(),
        "platform": f"{system}/{ {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(platform.machine(), platform.machine()) }",
    }
