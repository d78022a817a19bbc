"""The routes of custom resources.

Source of the behaviour: `apiextensions-apiserver/pkg/controller/openapi/builder`, whose texts and parameters differ a little from those of built-in kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.apiserver.openapi.custom import definition_name
from bayplan.apiserver.openapi.routes import (
    ACCEPTED,
    CREATED,
    CUSTOM_PATCHES,
    JSON_OR_YAML,
    META,
    NAMESPACE,
    OK,
    PRETTY,
    STATUS,
    Parameter,
    Route,
    article,
    extensions,
    name_of,
    options,
)  # fmt: skip

_SCALE: Final = "io.k8s.api.autoscaling.v1.Scale"
_OPTIONS: Final = {
    "get": "GetOptions", "list": "ListOptions", "deletecollection": "ListOptions", "put": "UpdateOptions", "patch": "PatchOptions", "post": "CreateOptions",
    "delete": "DeleteOptions",
}  # fmt: skip
_RESPONSES: Final = {"post": (OK, CREATED, ACCEPTED), "delete": (OK, ACCEPTED), "put": (OK, CREATED)}
_METHODS: Final = {"list": "get", "deletecollection": "delete"}
_VERBS: Final = {"get": "read", "put": "replace", "post": "create"}


def routes_of(kind: CustomKind) -> Iterator[Route]:
    """Every operation of one version of a custom resource."""
    place = "{namespace}" if kind.namespaced else ""
    name = definition_name(kind)
    listed = f"{name}List"
    if kind.namespaced:
        yield _route(kind, kind.path(), "list", listed, operation=f"list{kind.kind}ForAllNamespaces")
    collection, item = kind.path(place), kind.path(place, "{name}")
    for action, produced in (("list", listed), ("post", name), ("deletecollection", STATUS)):
        yield _route(kind, collection, action, produced)
    for action, produced in (("get", name), ("put", name), ("delete", STATUS), ("patch", name)):
        yield _route(kind, item, action, produced)
    for one in kind.subresources:
        for action in ("get", "put", "patch"):
            yield _route(kind, f"{item}/{one.name}", action, _SCALE if one.name == "scale" else name, one.name)


def _route(kind: CustomKind, path: str, action: str, produced: str, sub: str = "", operation: str = "") -> Route:
    verb = _VERBS.get(action, action)
    noun = f"{'Namespaced' if kind.namespaced else ''}{kind.kind}{sub.title()}"
    body = {"delete": f"{META}DeleteOptions", "patch": f"{META}Patch", "post": produced, "put": produced}.get(
        action, ""
    )
    return Route(
        path, _METHODS.get(action, action), operation or f"{verb}{noun}", _description(kind.kind, action, verb, sub), JSON_OR_YAML,
        CUSTOM_PATCHES if action == "patch" else JSON_OR_YAML, (PRETTY, *options(_OPTIONS[action]), *_parameters(kind.kind, path)), body,
        action != "delete", _RESPONSES.get(action, (OK,)), produced, extensions(action, kind.group, kind.version, kind.kind),
    )  # fmt: skip


def _parameters(kind: str, path: str) -> Iterator[Parameter]:
    if "{namespace}" in path:
        yield NAMESPACE
    if "{name}" in path:
        yield name_of(kind)


def _description(kind: str, action: str, verb: str, sub: str) -> str:
    of = f" {sub} of" if sub else ""
    if action == "deletecollection":
        return f"delete collection of {kind}"
    if action == "list":
        return f"list objects of kind {kind}"
    if action in ("post", "delete"):
        return f"{verb}{article(kind)}{kind}"
    return f"{'partially update' if action == 'patch' else verb}{of} the specified {kind}"
