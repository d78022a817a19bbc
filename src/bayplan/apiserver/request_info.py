"""What a request asks for: verb, resource, namespace and name, parsed once from method, path and query.

Authorization, routing, admission, audit, limits and metrics read this record and nothing else, so the action that is authorized is the action that is executed.
Source: Kubernetes' `apiserver/pkg/endpoints/request/requestinfo.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bayplan.api.selectors.fields import parse_fields
from bayplan.api.selectors.labels import SelectorError

PUBLIC_PATHS: Final = ("/healthz", "/livez", "/readyz", "/version")
"""What anybody may read, with what lies below it."""
STREAMS: Final = frozenset(("attach", "exec", "portforward", "proxy"))
"""Subresources whose answers are somebody else's: no form of them is negotiated."""
CONNECTIONS: Final = STREAMS | {"log"}
"""Subresources that are connections, which may last, not writes."""
_VERBS: Final = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_PREFIXES: Final = ("proxy", "watch")
"""Deprecated path prefixes that name the verb."""
_NAMESPACE_SUBRESOURCES: Final = ("status", "finalize")
_SELECTING: Final = ("list", "watch", "deletecollection")


@dataclass(slots=True)
class RequestInfo:
    """The parsed request, whether or not the server has such a resource. It is made once and never changed: frozen classes cost four times as much to make."""

    verb: str
    """`get`, `list`, `watch`, `create`, ...; "" for a method that no resource has. Of other paths the HTTP method in small letters."""
    path: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    namespace: str = ""
    """"" for what belongs to no namespace, and for all namespaces. A namespace is in the namespace of its own name."""
    resource: str = ""
    """Plural of the resource; "" for other paths."""
    name: str = ""
    """Name in the path; "" for collections."""
    subresource: str = ""
    rest: str = ""
    """What follows the subresource."""
    has_verb_prefix: bool = False
    """Whether the verb comes from a deprecated path prefix such as `/watch/`, not from the method."""
    is_nested: bool = False
    """Whether the resource stands below `/namespaces/NAMESPACE/`, where only those in namespaces are."""
    field_selector: str = ""
    """Field selector of a list, watch or deletecollection as it was given."""
    label_selector: str = ""
    """Its label selector."""
    selected_name: str = ""
    """The one name that a list or watch selects; authorizers take it for the name."""

    @property
    def is_long_running(self) -> bool:
        """Whether the request is expected to last."""
        return self.verb in _PREFIXES or self.subresource in CONNECTIONS

    @property
    def is_public(self) -> bool:
        """Whether anybody may ask this."""
        return not self.is_resource and is_public(self.path)


def is_public(path: str) -> bool:
    """Whether a path is one of `PUBLIC_PATHS` or lies below one."""
    return is_below(path, PUBLIC_PATHS)


def is_below(path: str, roots: tuple[str, ...]) -> bool:
    """Whether a path is one of these, each a slash and a word, or lies below one."""
    return path.startswith(roots) and f"/{path.split('/', 2)[1]}" in roots


def parse_request_info(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """Parse a request. Every input has an answer."""
    parts = path.strip("/").split("/")
    if len(parts) > 2 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) > 3 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo(method.lower(), path)
    verb, has_prefix = _VERBS.get(method, ""), False
    if rest[0] in _PREFIXES and len(rest) > 1:
        verb, has_prefix, rest = rest[0], True, rest[1:]
    namespace, is_nested = "", False
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest, is_nested = rest[2:], True
    count = len(rest)
    has_subresource = count > 2 and verb != "proxy"
    info = RequestInfo(
        verb,
        path,
        True,
        group,
        version,
        namespace,
        rest[0],
        rest[1] if count > 1 else "",
        rest[2] if has_subresource else "",
        "/".join(rest[3:]) if count > 3 else "",
        has_prefix,
        is_nested,
    )
    if not info.name:
        _refine(info, query)
    if query and not has_prefix and info.verb in _SELECTING:
        info.field_selector = query.get("fieldSelector", "")
        info.label_selector = query.get("labelSelector", "")
    return info


def _refine(info: RequestInfo, query: Mapping[str, str]) -> None:
    """Without a name, getting is listing or watching (of one object, if a field selector says so), and deleting is deleting a collection."""
    if info.verb == "get":
        info.verb = "watch" if query.get("watch", "false").lower() not in ("false", "0") else "list"
        name = _selected_name(query.get("fieldSelector", ""))
        if name and name not in (".", "..") and "/" not in name and "%" not in name:
            info.selected_name = name
    elif info.verb == "delete":
        info.verb = "deletecollection"


def _selected_name(text: str) -> str:
    if "metadata.name" not in text:
        return ""
    try:
        return parse_fields(text).exact_match("metadata.name") or ""
    except SelectorError:
        return ""
