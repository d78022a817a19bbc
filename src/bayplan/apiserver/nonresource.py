"""Paths that are no resources: discovery, OpenAPI, version, health, metrics, forwards."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from bayplan import KUBERNETES_VERSION, __version__
from bayplan.api.errors import failure, method_not_allowed, resource_not_found
from bayplan.apiserver.aggregation.forwarding import relay_to
from bayplan.apiserver.aggregation.probing import AGGREGATOR
from bayplan.apiserver.discovery.documents import Discovery
from bayplan.apiserver.flow_control.dumps import ROOT, dump
from bayplan.apiserver.health import HEALTH_CHECKS, Health
from bayplan.apiserver.openapi.documents import OpenApi
from bayplan.apiserver.profiles import profile_page
from bayplan.apiserver.reads.negotiation import JSON, OFFERED, check_produced, negotiate_document
from bayplan.apiserver.reads.representation import in_form
from bayplan.apiserver.requests import TEXT, Request, Response, bool_parameter
from bayplan.apiserver.routing import forwards_page
from bayplan.apiserver.service_account_tokens.issuing import TokenIssuer
from bayplan.apiserver.state_metrics import measure_state
from bayplan.apiserver.zpages import flagz, statusz
from bayplan.support.metrics.instruments import CONTENT_TYPE

if TYPE_CHECKING:
    from bayplan.apiserver.server import ApiServer

_GROUP_PARTS = 3
"""Parts of `/apis/GROUP`: that and what is above it are answered to any method and without a router."""
_CONFIGURATION, _KEY_SET = "/.well-known/openid-configuration", "/openid/v1/jwks"
_KEY_SET_TYPE = "application/jwk-set+json"
_CACHE = {"Cache-Control": "public, max-age=3600"}
_OTHER_PATHS = (
    _CONFIGURATION,
    "/flagz",
    "/metrics",
    "/metrics/slis",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    _KEY_SET,
    "/statusz",
    "/version",
)
"""Paths in the index besides those of discovery and health."""
_AGGREGATED = {"Vary": "Accept", "Cache-Control": "public"}


def page_not_found() -> Response:
    """404 of paths of which nobody knows."""
    return Response(404, b"404 page not found\n", TEXT, {"X-Content-Type-Options": "nosniff"})


class NonResource:
    """Answers everything that `requests.resolve` finds no resource for."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self._started = server.context.clock.now()
        measure_state(server, version_info())
        self._health = Health(server)
        self.discovery = Discovery(server.context.kinds, server.context.aggregated)
        self.openapi = OpenApi(
            server.context.kinds,
            server.context.aggregated,
            server.context.clock.now,
            server.context.settings.feature_gates,
        )

    async def handle(self, request: Request) -> Response:
        """The answer. Raises ApiError."""
        path = request.path.rstrip("/") or "/"
        if path[0] != "/":
            return page_not_found()
        page = await self._page(request)
        if page is not None:
            return page
        head = path.split("/", 2)[1]
        if head in ("healthz", "livez", "readyz"):
            found = None if request.path.endswith("/") else self._health.handle(request, path)
            return found or page_not_found()
        if path == "/version":
            if request.method != "GET":
                raise method_not_allowed()
            check_produced(request.accept, (JSON,))
            return Response(200, msgspec.json.format(msgspec.json.encode(version_info()), indent=2), is_final=True)
        if head in (".well-known", "openid"):
            issuer = self.server.context.service_accounts.issuer
            return _openid(request, path, issuer, self.server.address) or page_not_found()
        if head == "openapi":
            service = self.server.context.aggregated.find(path.removeprefix("/openapi/v3"))
            if service is not None:
                return Response(200, relay=relay_to(self.server.context, service, path, AGGREGATOR))
            unknown = Response(404, b"", "") if path.startswith("/openapi/v3/") else page_not_found()
            return self.openapi.handle(request) or unknown
        if path == "/bayplan/what-if" and self.server.what_if is not None:
            return await self._what_if(request, self.server.what_if)
        if head == "bayplan":
            return forwards_page.handle(request, path, self.server.context.services.forwards) or page_not_found()
        if head in ("api", "apis"):
            return self._discover(request, path)
        return page_not_found()

    def check(self, request: Request) -> Response | None:
        """See `NonResourceHandler`."""
        return self._health.handle(request, request.path) if request.path in HEALTH_CHECKS else None

    @staticmethod
    async def _what_if(
        request: Request, ask: Callable[[str, bytes, str, bool], Awaitable[tuple[int, bytes]]]
    ) -> Response:
        if request.method not in ("GET", "POST"):
            raise method_not_allowed()
        explain = bool_parameter(request.query, "explain")
        code, body = await ask(request.method, request.body, request.query.get("namespace", "default"), explain)
        return Response(code, body)

    async def _page(self, request: Request) -> Response | None:
        """The answer of paths that are taken as they are written and answer any method; None for others. Raises ApiError."""
        path, context = request.path, self.server.context
        if path in ("/", "/index.html"):
            body = msgspec.json.format(msgspec.json.encode({"paths": self._paths()}), indent=2)
            return Response(200, body, JSON, is_final=True)
        if path == "/metrics":
            return await self._metrics(request)
        if path == "/metrics/slis":
            if request.method == "DELETE":
                self._health.reset_indicators()
                return Response(200, b"metrics reset\n", TEXT)
            return Response(200, self._health.indicators(), CONTENT_TYPE, self._process_start)
        if path == "/flagz":
            return flagz(request.accept, context.settings.flags, context.randomness)
        if path == "/statusz":
            return statusz(request.accept, self._started, context.clock.now(), self._paths(), context.randomness)
        if path == "/debug" or path.startswith("/debug/"):
            return await self._debug(request)
        return None

    def _paths(self) -> list[str]:
        """The index at `/`."""
        return sorted((*self.discovery.paths(), *self._health.paths(), *_OTHER_PATHS))

    async def _debug(self, request: Request) -> Response:
        if self.server.gate is not None and request.path.startswith(ROOT):
            details = bool_parameter(request.query, "includeRequestDetails")
            return dump(self.server.gate, request.path, details=details) or page_not_found()
        context = self.server.context
        page = await profile_page(request, context.clock) if context.settings.profiling else None
        return page or page_not_found()

    @property
    def _process_start(self) -> dict[str, str]:
        return {"Process-Start-Time-Unix": str(int(self._started))}

    async def _metrics(self, request: Request) -> Response:
        if request.method == "DELETE":
            self.server.metrics.reset()
            return Response(200, b"metrics reset\n", TEXT)
        text = await (self.server.gathered_metrics or self.server.own_metrics)()
        return Response(200, text, CONTENT_TYPE, self._process_start)

    def _discover(self, request: Request, path: str) -> Response:
        if request.path.startswith("/apis//"):
            return page_not_found()
        if (
            path == "/apis/apiregistration.k8s.io" and request.method != "GET"
        ):  # the only group whose own server routes it
            raise method_not_allowed()
        # who asks for all groups at once is only heard where the path has no slash behind it
        found = self.discovery.find(path, "" if request.path.endswith("/") else request.accept)
        if found is None:
            parts = path.split("/")
            known = len(parts) > 2 and (parts[1] == "api" or self.server.context.kinds.has_built_in_group(parts[2]))
            if known:
                raise resource_not_found()
            return page_not_found()
        parts = path.split("/")
        is_routed = (
            parts[1] == "api"
            or len(parts) > _GROUP_PARTS
            or request.path.endswith("//")
            or path == "/apis/apiregistration.k8s.io"
        )
        if is_routed and request.method != "GET":
            raise method_not_allowed()
        body, media_type = found
        if media_type != JSON:
            tag = hashlib.sha512(body).hexdigest().upper()
            return Response(200, body, media_type, {**_AGGREGATED, "ETag": f'"{tag}"'})
        if is_routed and (parts[1] == "api" or self.server.context.kinds.has_built_in_group(parts[2])):
            check_produced(request.accept, OFFERED)
        wanted = negotiate_document(request.accept)
        return Response(200, body if wanted == JSON else in_form(body, wanted), wanted)


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


def _openid(request: Request, path: str, issuer: TokenIssuer, address: str) -> Response | None:
    """How others verify service account tokens: OpenID discovery and the key set; None if the path is another. address: where this server is found (host:port).

    Raises ApiError (405, 406). Source: Kubernetes' `pkg/serviceaccount/openidmetadata.go`.
    """
    if path not in (_CONFIGURATION, _KEY_SET):
        return None
    if request.method != "GET":
        raise method_not_allowed()
    produced = _KEY_SET_TYPE if path == _KEY_SET else "application/json"
    if not _accepts(request.accept, produced):
        raise failure(406, "NotAcceptable", f"406: Not Acceptable\n\nAvailable representations: {produced}")
    if path == _KEY_SET:
        return Response(200, issuer.keys.jwks(), produced, dict(_CACHE), is_final=True)
    body = {
        "issuer": issuer.issuer,
        "jwks_uri": issuer.jwks_uri or f"https://{address}{_KEY_SET}",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": issuer.keys.algorithms(),
    }
    return Response(200, msgspec.json.encode(body), produced, dict(_CACHE), is_final=True)


def _accepts(accept: str, media_type: str) -> bool:
    """Whether an Accept header takes a media type; without one everything is taken."""
    if not accept:
        return True
    wanted = {part.partition(";")[0].strip() for part in accept.split(",")}
    return bool(wanted & {"*/*", media_type})
