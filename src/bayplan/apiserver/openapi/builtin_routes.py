"""The routes of built-in kinds and of what belongs to no kind, derived from the table of kinds.

Source of the behaviour: `k8s.io/apiserver/pkg/endpoints/installer.go`, and the web services for discovery, version and OpenID.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from bayplan.api.kinds import Kind, Subresource
from bayplan.api.schema import definition_of
from bayplan.apiserver.openapi.routes import (
    ACCEPTED,
    ANY_FORM,
    CREATED,
    JSON,
    META,
    NAMESPACE,
    OK,
    PATCHES,
    PRETTY,
    STATUS,
    SUBPATH,
    WATCH_FORMS,
    Parameter,
    Route,
    article,
    extensions,
    name_of,
    options,
)  # fmt: skip

_ANYTHING: Final = ("*/*",)
_RETURNED_GROUPS: Final = ("resource.k8s.io", "storage.k8s.io")
_RETURNED: Final = frozenset(
    (
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "podtemplates",
        "resourcequotas",
        "serviceaccounts",
        "services",
    )
)
_NOT_RETURNED: Final = ("csistoragecapacities",)
"""Of these kinds a deletion returns the object, though not of the last ones (`DeleteReturnsDeletedObject`)."""
_METHODS: Final = {"create": "post", "delete": "delete", "get": "get", "patch": "patch", "update": "put"}
_INSTEAD: Final = ". deprecated: use the 'watch' parameter with a list operation instead"


@dataclass(frozen=True, slots=True)
class _Target:
    """What operations are about: a kind or a subresource of one, at a path."""

    kind: Kind
    subresource: Subresource | None
    path: str
    parameters: tuple[Parameter, ...]
    """Those of the path."""
    suffix: str = ""
    all_namespaces: bool = False

    @property
    def noun(self) -> str:
        """`NamespacedPodStatus`, the end of operation names."""
        namespaced = "Namespaced" if self.kind.namespaced and not self.all_namespaces else ""
        return f"{namespaced}{self.kind.kind}{self.subresource.name.title() if self.subresource else ''}"

    @property
    def of(self) -> str:
        """`status of`, or nothing."""
        return f"{self.subresource.name} of " if self.subresource else ""

    @property
    def model(self) -> str:
        """Definition of the objects."""
        one = self.subresource
        if one is None or not one.kind:
            return definition_of(self.kind.type)
        return f"io.k8s.api.{one.group.split('.')[0] or 'core'}.{one.version or self.kind.version}.{one.kind}"

    def extensions(self, action: str) -> dict[str, object]:
        """Which verb an operation is, and on what."""
        one = self.subresource
        if one is not None and one.version:
            return extensions(action, one.group, one.version, one.kind)
        kind = one.kind if one is not None and one.kind else self.kind.kind
        return extensions(action, self.kind.group, self.kind.version, kind)


def routes_of(kind: Kind) -> Iterator[Route]:
    """Every operation of a kind and of its subresources."""
    scope = (NAMESPACE,) if kind.namespaced else ()
    place = "{namespace}" if kind.namespaced else ""
    collection = _Target(kind, None, kind.path(place), scope)
    item = _Target(kind, None, kind.path(place, "{name}"), (*scope, name_of(kind.kind)))
    yield from _of_collection(collection)
    if kind.namespaced and "list" in kind.verbs:
        yield from _lists(_Target(kind, None, kind.path(), (), "ForAllNamespaces", all_namespaces=True))
    for verb, make in _ITEM.items():
        if verb in kind.verbs:
            yield make(item)
    if "watch" in kind.verbs:
        yield _watch(
            item,
            "watch",
            f"watch changes to an object of kind {kind.kind}{_INSTEAD}, filtered to a single item with the 'fieldSelector' parameter.",
        )
    for one in kind.subresources:
        yield from _of_subresource(kind, one, place, scope)


def _of_collection(target: _Target) -> Iterator[Route]:
    verbs = target.kind.verbs
    if "list" in verbs:
        yield from _lists(target)
    if "create" in verbs:
        yield _create(target)
    if "deletecollection" in verbs:
        yield _delete_collection(target)


def _of_subresource(kind: Kind, one: Subresource, place: str, scope: tuple[Parameter, ...]) -> Iterator[Route]:
    path = kind.path(place, "{name}", one.name)
    target = _Target(kind, one, path, (*scope, name_of(one.kind or kind.kind)))
    if one.kind.endswith("Options"):
        yield from _connections(target)
        if one.name == "proxy":
            yield from _connections(_Target(kind, one, path + "/{path}", (*target.parameters, SUBPATH), "WithPath"))
        return
    for verb in one.verbs:
        yield _log(target) if one.name == "log" else _create(target) if verb == "create" else _ITEM[verb](target)


def _watch_path(path: str) -> str:
    parts = path.split("/")
    at = 3 if parts[1] == "api" else 4
    return "/".join([*parts[:at], "watch", *parts[at:]])


def _lists(target: _Target) -> Iterator[Route]:
    kind = target.kind
    can_watch = "watch" in kind.verbs
    yield Route(
        target.path, "get", f"list{target.noun}{target.suffix}",
        f"{'list or watch' if can_watch else 'list'} objects of kind {kind.kind}", WATCH_FORMS, _ANYTHING,
        (PRETTY, *options("ListOptions"), *target.parameters), produced=f"{target.model}List", extensions=target.extensions("list"),
    )  # fmt: skip
    if can_watch:
        yield _watch(target, "watchlist", f"watch individual changes to a list of {kind.kind}{_INSTEAD}.")


def _watch(target: _Target, action: str, description: str) -> Route:
    end = f"List{target.suffix}" if action == "watchlist" else ""
    return Route(
        _watch_path(target.path), "get", f"watch{target.noun}{end}", description, WATCH_FORMS, _ANYTHING,
        (PRETTY, *options("ListOptions"), *target.parameters), produced=f"{META}WatchEvent", extensions=target.extensions(action),
    )  # fmt: skip


def _read(target: _Target) -> Route:
    return Route(
        target.path, "get", f"read{target.noun}", f"read {target.of}the specified {target.kind.kind}", ANY_FORM, _ANYTHING,
        (PRETTY, *target.parameters), produced=target.model, extensions=target.extensions("get"),
    )  # fmt: skip


def _log(target: _Target) -> Route:
    return Route(
        target.path, "get", f"read{target.noun}", f"read {target.of}the specified {target.kind.kind}", ("text/plain", *ANY_FORM), _ANYTHING,
        (PRETTY, *options("PodLogOptions"), *target.parameters), extensions=target.extensions("get"),
    )  # fmt: skip


def _create(target: _Target) -> Route:
    return Route(
        target.path, "post", f"create{target.noun}", f"create{' ' if target.of else ''}{target.of.rstrip()}{article(target.kind.kind)}{target.kind.kind}",
        ANY_FORM, _ANYTHING, (PRETTY, *options("CreateOptions"), *target.parameters), target.model, responses=(OK, CREATED, ACCEPTED),
        produced=target.model, extensions=target.extensions("post"),
    )  # fmt: skip


def _replace(target: _Target) -> Route:
    return Route(
        target.path, "put", f"replace{target.noun}", f"replace {target.of}the specified {target.kind.kind}", ANY_FORM, _ANYTHING,
        (PRETTY, *options("UpdateOptions"), *target.parameters), target.model, responses=(OK, CREATED), produced=target.model,
        extensions=target.extensions("put"),
    )  # fmt: skip


def _patch(target: _Target) -> Route:
    return Route(
        target.path, "patch", f"patch{target.noun}", f"partially update {target.of}the specified {target.kind.kind}", ANY_FORM, PATCHES,
        (PRETTY, *options("PatchOptions"), *target.parameters), f"{META}Patch", responses=(OK, CREATED), produced=target.model,
        extensions=target.extensions("patch"),
    )  # fmt: skip


def _delete(target: _Target) -> Route:
    kind = target.kind
    returned = (
        kind.plural in _RETURNED if not kind.group else kind.group in _RETURNED_GROUPS
    ) and kind.plural not in _NOT_RETURNED
    return Route(
        target.path, "delete", f"delete{target.noun}", f"delete{article(kind.kind)}{kind.kind}", ANY_FORM, _ANYTHING,
        (PRETTY, *options("DeleteOptions"), *target.parameters), f"{META}DeleteOptions", False, (OK, ACCEPTED),
        target.model if returned else STATUS, target.extensions("delete"),
    )  # fmt: skip


def _delete_collection(target: _Target) -> Route:
    listed = options("ListOptions", without=("watch", "allowWatchBookmarks"))
    return Route(
        target.path, "delete", f"deletecollection{target.noun}", f"delete collection of {target.kind.kind}", ANY_FORM, _ANYTHING,
        (PRETTY, *options("DeleteOptions"), *listed, *target.parameters), f"{META}DeleteOptions", False, (OK,), STATUS,
        target.extensions("deletecollection"),
    )  # fmt: skip


_ITEM: Final[dict[str, Callable[[_Target], Route]]] = {
    "get": _read,
    "update": _replace,
    "delete": _delete,
    "patch": _patch,
}


def _connections(target: _Target) -> Iterator[Route]:
    """The operations of a subresource that streams or forwards; those that forward do so with every method."""
    one = target.subresource
    assert one is not None
    methods = [_METHODS[verb] for verb in one.verbs] + (["head", "options"] if "update" in one.verbs else [])
    for method in methods:
        yield Route(
            target.path, method, f"connect{method.title()}{target.noun}{target.suffix}",
            f"connect {method.upper()} requests to {target.of}{target.kind.kind}", _ANYTHING, _ANYTHING,
            (*options(one.kind), *target.parameters), extensions=target.extensions("connect"),
        )  # fmt: skip


def discovery_route(path: str) -> Route:
    """The list of groups, of versions, or of resources. path: begins and ends with a slash."""
    parts = path.strip("/").split("/")
    if parts == ["api"]:
        operation, description, produced = "getAPIVersions", "get available API versions", "APIVersions"
    elif parts == ["apis"]:
        operation, description, produced = "getAPIVersions", "get available API versions", "APIGroupList"
    elif len(parts) == 2 and parts[0] == "apis":
        operation, description, produced = "getAPIGroup", "get information of a group", "APIGroup"
    else:
        operation, description, produced = "getAPIResources", "get available resources", "APIResourceList"
    return Route(path, "get", operation, description, ANY_FORM, ANY_FORM, produced=META + produced)


OTHERS: Final = (
    Route(
        "/version/", "get", "getCodeVersion", "get the version information for this server", (JSON,), (JSON,),
        produced="io.k8s.apimachinery.pkg.version.Info",
    ),
    Route(
        "/.well-known/openid-configuration/", "get", "getServiceAccountIssuerOpenIDConfiguration",
        "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'", (JSON,),
    ),
    Route(
        "/openid/v1/jwks/", "get", "getServiceAccountIssuerOpenIDKeyset",
        "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)", ("application/jwk-set+json",),
    ),
)  # fmt: skip
"""The operations that belong to no group."""
