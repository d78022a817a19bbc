"""`/openapi/v3` and `/openapi/v2`, made from the table of kinds and the schema facts. Made when first asked for, then kept."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any, Final

import msgspec

from bayplan import KUBERNETES_VERSION
from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.kinds import Kind, KindTable
from bayplan.api.schema import Schema
from bayplan.apiserver.aggregation.openapi import merge
from bayplan.apiserver.aggregation.registry import AggregatedApis, RemoteApi
from bayplan.apiserver.openapi import builtin_routes as openapi_builtin_routes
from bayplan.apiserver.openapi import custom as openapi_custom
from bayplan.apiserver.openapi import custom_routes as openapi_custom_routes
from bayplan.apiserver.openapi import protobuf as openapi_protobuf
from bayplan.apiserver.openapi import protobuf_v3 as openapi_protobuf_v3
from bayplan.apiserver.openapi.builtin_routes import OTHERS, discovery_route
from bayplan.apiserver.openapi.paths import paths_v2, paths_v3
from bayplan.apiserver.openapi.routes import Route
from bayplan.apiserver.openapi.schemas import schemas_v2, schemas_v3
from bayplan.apiserver.reads.negotiation import JSON, clauses_by_quality, first_acceptable
from bayplan.apiserver.requests import Request, Response

_YEAR_SECONDS: Final = 365 * 86_400
_INFO: Final = {"title": "Kubernetes", "version": f"v{KUBERNETES_VERSION}"}
_CUSTOM_INFO: Final = {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
_TOKEN: Final = {
    "BearerToken": {
        "description": "Bearer Token authentication",
        "type": "apiKey",
        "name": "authorization",
        "in": "header",
    }
}


@dataclass(frozen=True, slots=True)
class _Version:
    """A version of OpenAPI: its protobuf form, by two names of which the second is that of the answer, and what answers depend on."""

    media_type: str
    content_type: str
    protobuf: Callable[[dict[str, Any]], bytes]
    vary: str


_V2: Final = _Version(
    openapi_protobuf.MEDIA_TYPE, openapi_protobuf.CONTENT_TYPE, openapi_protobuf.document, "Accept-Encoding, Accept"
)
_V3: Final = _Version(
    openapi_protobuf_v3.MEDIA_TYPE, openapi_protobuf_v3.CONTENT_TYPE, openapi_protobuf_v3.document, "Accept"
)
_UNGROUPED: Final = {
    "api": discovery_route("/api/"),
    "apis": discovery_route("/apis/"),
    **{one.path.strip("/"): one for one in OTHERS},
}
"""The operations whose documents are of no group."""


class OpenApi:
    """The documents of one table of kinds."""

    def __init__(
        self, kinds: KindTable, aggregated: AggregatedApis, now: Callable[[], float], gates: Collection[str] = ()
    ) -> None:
        """aggregated: what other servers answer; their documents of version 3 are theirs to give. now: Unix seconds. gates: Bayplan's own that are on."""
        self._now = now
        self._made_at = now()
        """Unix seconds. Another second for every change, since clients that ask again name the second."""
        self.kinds = kinds
        self._gates = gates
        self._aggregated = aggregated
        self._documents: dict[str, bytes] = {}
        self._tags: dict[str, str] = {}
        """What stands for each document in headers, by path."""
        self._made_of = self._stamp()

    def _stamp(self) -> tuple[int, int]:
        """Changes with everything that documents are made of."""
        self._aggregated.services()
        return self.kinds.changes, self._aggregated.changes

    def _remotes(self) -> dict[str, RemoteApi]:
        """What other servers have, by `GROUP/VERSION`."""
        return {"/".join(key): self._aggregated.remote(key) for key in sorted(self._aggregated.services())}

    def handle(self, request: Request) -> Response | None:
        """The document asked for; None if there is none."""
        path = request.path
        if path.endswith("/"):
            return Response(404, b"", "") if path.startswith("/openapi/v3/") else None
        if self._made_of != (stamp := self._stamp()):
            self._documents.clear()
            self._tags.clear()
            self._made_of, self._made_at = stamp, max(self._now(), self._made_at + 1)
        if path == "/openapi/v2":
            return self._respond(request, path, self._v2, _V2)
        if path == "/openapi/v3":
            data = self._encoded(path, self._index, msgspec.json.encode)
            return Response(200, data, "text/plain; charset=utf-8", self._validators(""))
        name = path.removeprefix("/openapi/v3/")
        make = self._maker(name)
        if make is None:
            return None
        found = self._respond(request, path, make, _V3)
        return self._lasting(request, name, found) if found.body else found

    def _lasting(self, request: Request, name: str, found: Response) -> Response:
        """A document whose content the client names, which may be kept for a year; if it is another one by now, where that is."""
        given = request.query.get("hash")
        if not given:
            return found
        url = self._urls()[name]
        if url.endswith(f"?hash={given}"):
            expires = formatdate(self._now() + _YEAR_SECONDS, usegmt=True).replace("GMT", "UTC")
            found.headers |= {"Cache-Control": "public, immutable", "Expires": expires}
            return found
        kept = {one: value for one, value in found.headers.items() if one in ("ETag", "Vary")}
        return Response(301, b"", found.content_type, {**kept, "Location": url}, is_final=True)

    def _validators(self, tag: str) -> dict[str, str]:
        """Headers by which clients ask again."""
        modified = {"Last-Modified": formatdate(self._made_at, usegmt=True), "Accept-Ranges": "bytes"}
        return {"ETag": f'"{tag}"', **modified} if tag else modified

    def _maker(self, name: str) -> Callable[[], dict[str, Any]] | None:
        """What makes a document of version 3; None if there is none of that name."""
        for group, versions in self.kinds.groups().items():
            for version in versions:
                if name == _prefix(group, version):
                    return functools.partial(self._v3, group, version)
        route = _index_routes(self.kinds).get(name)
        return None if route is None else functools.partial(_document_v3, [route])

    def _respond(self, request: Request, path: str, make: Callable[[], dict[str, Any]], version: _Version) -> Response:
        """A document as JSON or protobuf, whichever the client wants; 406 without a body, as Kubernetes answers, if it wants neither."""
        clauses = clauses_by_quality(request.accept or "*/*")
        form = first_acceptable(clauses, (JSON, version.media_type, version.content_type))
        if not clauses and version is _V3:
            return Response(200, b"", "", {})
        headers = {"Vary": version.vary}
        if form is None:
            return Response(406, b"", "", headers)
        if path not in self._tags:
            self._tags[path] = hashlib.sha512(self._encoded(path, make, msgspec.json.encode)).hexdigest().upper()
        headers |= self._validators(self._tags[path])
        if form == JSON:
            return Response(200, self._encoded(path, make, msgspec.json.encode), JSON, headers, is_final=True)
        data = self._encoded(f"{path} protobuf", make, version.protobuf)
        return Response(200, data, version.content_type, headers)

    def _encoded(
        self, name: str, make: Callable[[], dict[str, Any]], encode: Callable[[dict[str, Any]], bytes]
    ) -> bytes:
        """A document, made when it is first asked for."""
        data = self._documents.get(name)
        if data is None:
            data = self._documents[name] = encode(make())
        return data

    def _index(self) -> dict[str, Any]:
        urls = self._urls()
        return {"paths": {name: {"serverRelativeURL": urls[name]} for name in sorted(urls)}}

    def _urls(self) -> dict[str, str]:
        """Where each document of version 3 is, by name: with a hash that changes when the document does."""
        contents = dict.fromkeys(sorted(_index_routes(self.kinds)), "")
        for kind in self.kinds:
            contents.setdefault(_prefix(kind.group, kind.version), "")
            if isinstance(kind, CustomKind):
                contents[_prefix(kind.group, kind.version)] += msgspec.json.encode(
                    (kind.kind, kind.definition)
                ).decode()
        common = f"{KUBERNETES_VERSION}{sorted(contents)}{','.join(sorted(self._gates))}"

        def url(name: str) -> str:
            digest = hashlib.sha256((contents[name] or common).encode()).hexdigest().upper()
            return f"/openapi/v3/{name}?hash={digest}"

        urls = {name: url(name) for name in contents}
        for group_version, remote in self._remotes().items():
            name = f"apis/{group_version}"
            urls.pop(name, None)
            if remote.openapi_v3:
                urls[name] = f"/openapi/v3/{name}?{remote.openapi_v3}"
        return urls

    def _v3(self, group: str, version: str) -> dict[str, Any]:
        kinds = [kind for kind in self.kinds if (kind.group, kind.version) == (group, version)]
        own = _published(kinds, v2=False)
        return _document_v3(list(_routes(kinds)), own, group, version, self._gates)

    def _v2(self) -> dict[str, Any]:
        remotes = self._remotes()
        kinds = [kind for kind in self.kinds if f"{kind.group}/{kind.version}" not in remotes]
        routes = [*_routes(kinds), *_index_routes(self.kinds).values()]
        paths, parameters = paths_v2(routes)
        own = {
            "swagger": "2.0",
            "info": _INFO,
            "paths": paths,
            "definitions": schemas_v2(_models(routes), _published(kinds, v2=True), self._gates),
            "parameters": parameters,
            "securityDefinitions": _TOKEN,
            "security": [{"BearerToken": []}],
        }
        return merge(own, ((name, remote.openapi_v2) for name, remote in remotes.items() if remote.openapi_v2))


def _document_v3(
    routes: list[Route],
    own: dict[str, Schema] | None = None,
    group: str = "",
    version: str = "",
    gates: Collection[str] = (),
) -> dict[str, Any]:
    """A document of version 3. own: the definitions of custom resources, whose documents are made by another part of Kubernetes' server."""
    schemas = schemas_v3(_models(routes), own or {}, group, version, gates)
    components = {**({"schemas": schemas} if schemas else {}), **({} if own else {"securitySchemes": _TOKEN})}
    info = _CUSTOM_INFO if own else _INFO
    return {"openapi": "3.0.0", "info": info, "paths": paths_v3(routes), "components": components}


def _routes(kinds: Iterable[Kind]) -> Iterator[Route]:
    """The operations of kinds and of the group versions that are not of custom resources."""
    for kind in kinds:
        if isinstance(kind, CustomKind):
            yield from openapi_custom_routes.routes_of(kind)
        else:
            yield discovery_route(f"/{_prefix(kind.group, kind.version)}/")
            if kind.type is not None:
                yield from openapi_builtin_routes.routes_of(kind)


def _models(routes: Iterable[Route]) -> set[str]:
    """The definitions that operations name."""
    return {name for route in routes for name in (route.produced, route.body) if name}


def _published(kinds: Iterable[Kind], *, v2: bool) -> dict[str, Schema]:
    """The definitions of custom resources."""
    own: dict[str, Schema] = {}
    for kind in kinds:
        if isinstance(kind, CustomKind):
            own |= openapi_custom.published(kind, v2=v2)
    return own


def _index_routes(kinds: KindTable) -> dict[str, Route]:
    """What has a document but no resources: the lists of groups and versions, and what is not of any group."""
    groups = {kind.group for kind in kinds if kind.group and not kind.is_custom}
    return {**_UNGROUPED, **{f"apis/{group}": discovery_route(f"/apis/{group}/") for group in groups}}


def _prefix(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"
