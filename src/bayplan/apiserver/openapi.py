"""`/openapi/v3` and `/openapi/v2`, made from the table of kinds and the schema facts. Made when first asked for, then kept."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from bayplan import KUBERNETES_VERSION
from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.kinds import Kind, KindTable, Subresource
from bayplan.api.schema import Schema, definition_of, definitions
from bayplan.apiserver import openapi_custom, openapi_protobuf
from bayplan.apiserver.aggregation.openapi import merge
from bayplan.apiserver.aggregation.registry import AggregatedApis, RemoteApi
from bayplan.apiserver.negotiation import negotiate
from bayplan.apiserver.openapi_texts import documented_definitions
from bayplan.apiserver.requests import Request, Response

_PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_QUERY = {
    "get": ("pretty",),
    "list": (
        "pretty", "allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "resourceVersionMatch",
        "sendInitialEvents", "timeoutSeconds", "watch",
    ),
    "post": ("pretty", "dryRun", "fieldManager", "fieldValidation"),
    "put": ("pretty", "dryRun", "fieldManager", "fieldValidation"),
    "patch": ("pretty", "dryRun", "fieldManager", "fieldValidation", "force"),
    "delete": ("pretty", "dryRun", "gracePeriodSeconds", "ignoreStoreReadErrorWithClusterBreakingPotential", "orphanDependents", "propagationPolicy"),
}  # fmt: skip
_INTEGERS = {"limit", "timeoutSeconds", "gracePeriodSeconds"}
_BOOLEANS = {
    "watch",
    "allowWatchBookmarks",
    "sendInitialEvents",
    "force",
    "orphanDependents",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
}
_ACTIONS = {
    "get": "get",
    "list": "list",
    "post": "post",
    "put": "put",
    "patch": "patch",
    "delete": "delete",
    "deletecollection": "deletecollection",
}


class OpenApi:
    """The documents of one table of kinds."""

    def __init__(self, kinds: KindTable, aggregated: AggregatedApis) -> None:
        """aggregated: what other servers answer; their documents of version 3 are theirs to give."""
        self.kinds = kinds
        self._aggregated = aggregated
        self._documents: dict[str, bytes] = {}
        self._made_of = self._stamp()

    def _stamp(self) -> tuple[int, int]:
        """Changes with everything that documents are made of."""
        self._aggregated.services()
        return self.kinds.changes, self._aggregated.changes

    def _remotes(self) -> dict[str, RemoteApi]:
        """What other servers have, by `GROUP/VERSION`."""
        return {"/".join(key): self._aggregated.remote(key) for key in sorted(self._aggregated.services())}

    def handle(self, request: Request) -> Response | None:
        """The document asked for; None if there is none. Raises ApiError (406)."""
        path = request.path.rstrip("/")
        if self._made_of != (stamp := self._stamp()):
            self._documents.clear()
            self._made_of = stamp
        if path == "/openapi/v2":
            if openapi_protobuf.MEDIA_TYPE in request.accept:
                return self._protobuf()
            negotiate(request.accept)
            return self._respond(path, self._v2, headers={"Vary": "Accept-Encoding, Accept"})
        if path == "/openapi/v3":
            return self._respond(path, self._index, "text/plain; charset=utf-8")
        name = path.removeprefix("/openapi/v3/")
        for group, versions in self.kinds.groups().items():
            for version in versions:
                if name == _prefix(group, version):
                    make = functools.partial(self._v3, group, version)
                    return self._respond(path, make, headers={"Vary": "Accept"})
        if name in _index_paths(self.kinds):
            return self._respond(path, functools.partial(_index_document, name), headers={"Vary": "Accept"})
        return None

    def _respond(
        self,
        path: str,
        make: Callable[[], Any],
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> Response:
        data = self._documents.get(path)
        if data is None:
            data = self._documents[path] = msgspec.json.encode(make())
        return Response(200, data, content_type, headers or {})

    def _protobuf(self) -> Response:
        data = self._documents.get(openapi_protobuf.MEDIA_TYPE)
        if data is None:
            data = self._documents[openapi_protobuf.MEDIA_TYPE] = openapi_protobuf.document(self._v2())
        return Response(200, data, openapi_protobuf.CONTENT_TYPE)

    def _index(self) -> dict[str, Any]:
        contents = dict.fromkeys(sorted(_index_paths(self.kinds)), "")
        for kind in self.kinds:
            contents.setdefault(_prefix(kind.group, kind.version), "")
            if isinstance(kind, CustomKind):
                contents[_prefix(kind.group, kind.version)] += msgspec.json.encode(
                    (kind.kind, kind.definition)
                ).decode()
        common = f"{KUBERNETES_VERSION}{sorted(contents)}"

        def url(name: str) -> str:
            digest = hashlib.sha256((contents[name] or common).encode()).hexdigest().upper()
            return f"/openapi/v3/{name}?hash={digest}"

        urls = {name: url(name) for name in contents}
        for group_version, remote in self._remotes().items():
            name = f"apis/{group_version}"
            urls.pop(name, None)
            if remote.openapi_v3:
                urls[name] = f"/openapi/v3/{name}?{remote.openapi_v3}"
        return {"paths": {name: {"serverRelativeURL": urls[name]} for name in sorted(urls)}}

    def _kinds_of(self, group: str, version: str) -> list[Kind]:
        return [kind for kind in self.kinds if (kind.group, kind.version) == (group, version) and kind.type is not None]

    def _v3(self, group: str, version: str) -> dict[str, Any]:
        paths: dict[str, Any] = {f"/{_prefix(group, version)}/": {"get": {"operationId": "getAPIResources"}}}
        kinds = self._kinds_of(group, version)
        for kind in kinds:
            paths |= _paths_of(kind)
        schemas = _schemas(kinds, v2=False)
        schemas = {name: _schema_v3(schemas[name]) for name in sorted(schemas)}
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": f"v{KUBERNETES_VERSION}"},
            "paths": dict(sorted(paths.items())),
            "components": {"schemas": schemas},
        }

    def _v2(self) -> dict[str, Any]:
        paths: dict[str, Any] = {}
        remotes = self._remotes()
        mine = [kind for kind in self.kinds if f"{kind.group}/{kind.version}" not in remotes]
        kinds = [kind for kind in mine if kind.type is not None]
        for kind in mine:
            if kind.type is not None:
                paths |= _paths_of(kind)
            paths |= _group_path(_prefix(kind.group, kind.version))
        for name in _index_paths(self.kinds):
            paths |= _group_path(name)
        own = {
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": f"v{KUBERNETES_VERSION}"},
            "paths": dict(sorted(paths.items())),
            "definitions": {name: _schema_v2(schema) for name, schema in _schemas(kinds, v2=True).items()},
        }
        return merge(own, ((name, remote.openapi_v2) for name, remote in remotes.items() if remote.openapi_v2))


def _schemas(kinds: Iterable[Kind], *, v2: bool) -> dict[str, Schema]:
    """The definitions of kinds, and of all that these refer to."""
    roots = {_META + name for name in ("DeleteOptions", "Patch", "Status", "WatchEvent")}
    own: dict[str, Schema] = {}
    for kind in kinds:
        roots |= {_subresource_definition(one) for one in kind.subresources if one.version}
        if isinstance(kind, CustomKind):
            own |= openapi_custom.published(kind, v2=v2)
        else:
            roots |= {definition_of(kind.type), definition_of(kind.type) + "List", _META + "APIResourceList"}
    roots |= {reference for schema in own.values() for reference in _references(schema) if reference not in own}
    return {name: documented_definitions()[name] for name in sorted(_closure(roots))} | own


_UNVERSIONED = (".well-known/openid-configuration", "api", "apis", "openid/v1/jwks", "version")


def _index_paths(kinds: KindTable) -> set[str]:
    """What has a document but no resources: the lists of groups and versions, and what is not of any group."""
    return {*_UNVERSIONED, *(f"apis/{group}" for group in kinds.groups() if group)}


def _group_path(name: str) -> dict[str, Any]:
    return {f"/{name}/": {"get": {"operationId": "get" + "".join(part.title() for part in re.split(r"\W+", name))}}}


def _index_document(name: str) -> dict[str, Any]:
    info = {"title": "Kubernetes", "version": f"v{KUBERNETES_VERSION}"}
    return {"openapi": "3.0.0", "info": info, "paths": _group_path(name), "components": {"schemas": {}}}


def _prefix(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _subresource_definition(one: Subresource) -> str:
    """What a subresource with a type of its own takes and returns."""
    return f"io.k8s.api.{one.group.split('.')[0] or 'core'}.{one.version}.{one.kind}"


def _references(schema: Schema) -> Iterator[str]:
    if "$ref" in schema:
        yield schema["$ref"]
    for inner in (schema.get("items"), schema.get("additionalProperties"), *schema.get("properties", {}).values()):
        if isinstance(inner, dict):
            yield from _references(inner)


def _closure(roots: set[str]) -> set[str]:
    found: set[str] = set()
    waiting = [name for name in roots if name in definitions()]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(_references(definitions()[name]))
    return found


def _schema_v3(schema: Schema) -> Schema:
    """References point into components, and stand inside allOf when they have company."""
    result = {key: _inner(key, value, _schema_v3) for key, value in schema.items() if key != "$ref"}
    if "$ref" not in schema:
        return result
    reference = {"$ref": f"#/components/schemas/{schema['$ref']}"}
    return {**result, "allOf": [reference]} if result else reference


def _schema_v2(schema: Schema) -> Schema:
    """References point into definitions; `oneOf` is unknown to version 2."""
    result = {key: _inner(key, value, _schema_v2) for key, value in schema.items() if key not in ("$ref", "oneOf")}
    return {"$ref": f"#/definitions/{schema['$ref']}", **result} if "$ref" in schema else result


def _inner(key: str, value: Any, convert: Callable[[Schema], Schema]) -> Any:
    """A member of a schema; schemas inside it are converted."""
    if key == "properties":
        return {name: convert(_published(name, one)) for name, one in value.items()}
    if key == "oneOf":
        return [convert(one) for one in value]
    return convert(value) if isinstance(value, dict) and key in ("items", "additionalProperties") else value


def _published(name: str, schema: Schema) -> Schema:
    """A property as Kubernetes publishes it: kind and apiVersion are any text there."""
    if name not in ("kind", "apiVersion") or "enum" not in schema:
        return schema
    return {key: value for key, value in schema.items() if key != "enum"}


def _paths_of(kind: Kind) -> dict[str, Any]:
    """The path items of a kind and its subresources."""
    gvk: Schema = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    place = "{namespace}" if kind.namespaced else ""
    collection: dict[str, Any] = {}
    if "list" in kind.verbs:
        collection["get"] = _operation("list", gvk)
    if "create" in kind.verbs:
        collection["post"] = _operation("post", gvk)
    if "deletecollection" in kind.verbs:
        collection["delete"] = _operation("deletecollection", gvk)
    paths = {kind.path(place): _with_parameters(collection, kind.namespaced, named=False)}
    if kind.namespaced and "list" in kind.verbs:
        paths[kind.path()] = {"get": _operation("list", gvk)}
    verbs = {"get": "get", "update": "put", "patch": "patch", "delete": "delete"}
    item = {
        method: _operation(method, gvk, custom=kind.is_custom) for verb, method in verbs.items() if verb in kind.verbs
    }
    if item:
        paths[kind.path(place, "{name}")] = _with_parameters(item, kind.namespaced, named=True)
    methods = {"get": "get", "create": "post", "update": "put", "patch": "patch", "delete": "delete"}
    for one in kind.subresources:
        sub_gvk = (
            {"group": one.group, "version": one.version, "kind": one.kind}
            if one.version
            else {**gvk, "kind": one.kind or kind.kind}
        )
        operations = {methods[verb]: _operation(methods[verb], sub_gvk, custom=kind.is_custom) for verb in one.verbs}
        shown = _with_parameters(operations, kind.namespaced, named=True)
        paths[kind.path(place, "{name}", one.name)] = shown
        if one.name == "proxy":
            paths[kind.path(place, "{name}", "proxy/{path}")] = shown
    if "watch" in kind.verbs:
        paths |= {
            _watch_path(path): {"get": _operation("list", gvk)}
            for path in (kind.path(), kind.path(place), kind.path(place, "{name}"))
        }
    return paths


def _watch_path(path: str) -> str:
    parts = path.split("/")
    at = 3 if parts[1] == "api" else 4
    return "/".join([*parts[:at], "watch", *parts[at:]])


def _with_parameters(item: dict[str, Any], namespaced: bool, *, named: bool) -> dict[str, Any]:
    names = [*(["name"] if named else []), *(["namespace"] if namespaced else [])]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}}
        for name in names
    ]
    return {**item, "parameters": parameters} if parameters else item


def _operation(action: str, gvk: Schema, *, custom: bool = False) -> dict[str, Any]:
    """One operation with what clients look for: query parameters, action and kind. custom: of a custom resource."""
    parameters = []
    for name in _QUERY.get(action, _QUERY["delete"]):
        kind = "integer" if name in _INTEGERS else "boolean" if name in _BOOLEANS else "string"
        parameters.append({"name": name, "in": "query", "type": kind, "schema": {"type": kind, "uniqueItems": True}})
    operation: dict[str, Any] = {
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}, "401": {"description": "Unauthorized"}},
        "x-kubernetes-action": _ACTIONS[action],
        "x-kubernetes-group-version-kind": gvk,
    }
    if action in ("post", "put", "patch"):
        patches = [one for one in _PATCH_TYPES if not (custom and one.startswith("application/strategic"))]
        types = patches if action == "patch" else ["*/*"]
        operation["requestBody"] = {"content": {media_type: {} for media_type in types}, "required": True}
    return operation
