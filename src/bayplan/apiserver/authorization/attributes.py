"""What a request is about, as authorizers see it. Source of the rules: the API server's request info (Kubernetes' `requestinfo.go`)."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.api.errors import ApiError, forbidden_error, quoted
from bayplan.api.field_selectors import parse_fields
from bayplan.api.selectors import SelectorError
from bayplan.apiserver.requests import Request, User

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_SPECIAL = ("proxy", "watch")
_NAMESPACE_SUBRESOURCES = ("status", "finalize")
_SELECTING = ("list", "watch", "deletecollection")


class Attributes:
    """One question: may this user do this?"""

    __slots__ = (
        "field_selector",
        "group",
        "is_resource",
        "name",
        "namespace",
        "path",
        "resource",
        "subresource",
        "user",
        "verb",
        "version",
    )

    def __init__(
        self,
        user: User,
        verb: str,
        *,
        group: str = "",
        version: str = "",
        resource: str = "",
        subresource: str = "",
        namespace: str = "",
        name: str = "",
        path: str = "",
        is_resource: bool = True,
        field_selector: str = "",
    ) -> None:
        self.user = user
        self.verb = verb
        """`get`, `list`, ...; for other paths the HTTP method in small letters."""
        self.group = group
        self.version = version
        self.resource = resource
        """Plural of the resource; "" for other paths."""
        self.subresource = subresource
        self.namespace = namespace
        """"" for what belongs to no namespace, and for all namespaces."""
        self.name = name
        """"" for collections."""
        self.path = path
        """Of what is no resource."""
        self.is_resource = is_resource
        self.field_selector = field_selector
        """Field selector of a list or watch as it was given."""

    @property
    def combined(self) -> str:
        """`pods` or `pods/log`, as rules name it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    def requires(self, field: str) -> str | None:
        """The one value that the field selector asks of a field, or None."""
        if not self.field_selector:
            return None
        try:
            return parse_fields(self.field_selector).exact_match(field)
        except SelectorError:
            return None

    def refused(self, reason: str = "") -> ApiError:
        """403, worded as Kubernetes words it."""
        text = self._message().replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        if reason:
            text = f"{text}: {reason}"
        return forbidden_error(self.resource, self.group, self.name, text)

    def _message(self) -> str:
        user = quoted(self.user.name)
        if not self.is_resource:
            return f"User {user} cannot {self.verb} path {quoted(self.path)}"
        what = f"User {user} cannot {self.verb} resource {quoted(self.combined)} in API group {quoted(self.group)}"
        return f"{what} in the namespace {quoted(self.namespace)}" if self.namespace else f"{what} at the cluster scope"


def attributes_of(request: Request) -> Attributes:
    """What a request is about, whether or not there is such a resource."""
    parts = request.path.strip("/").split("/")
    if len(parts) < 3 or parts[0] not in ("api", "apis") or (parts[0] == "apis" and len(parts) < 4):
        return Attributes(request.user, request.method.lower(), path=request.path, is_resource=False)
    group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
    verb, by_path = _VERBS.get(request.method, ""), False
    if rest[0] in _SPECIAL and len(rest) > 1:
        verb, by_path, rest = rest[0], True, rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    found = Attributes(
        request.user,
        verb,
        group=group,
        version=version,
        resource=rest[0],
        subresource=rest[2] if len(rest) > 2 and verb != "proxy" else "",
        namespace=namespace,
        name=rest[1] if len(rest) > 1 else "",
        path=request.path,
    )
    if not found.name:
        _select(found, request.query)
    if not by_path and found.verb in _SELECTING:
        found.field_selector = request.query.get("fieldSelector", "")
    return found


def _select(found: Attributes, query: Mapping[str, str]) -> None:
    """Without a name, getting is listing or watching (of one object, if a field selector says so), and deleting is deleting a collection."""
    if found.verb == "get":
        found.verb = "watch" if query.get("watch", "false").lower() not in ("false", "0") else "list"
        name = _selected_name(query.get("fieldSelector", ""))
        if name and name not in (".", "..") and "/" not in name and "%" not in name:
            found.name = name
    elif found.verb == "delete":
        found.verb = "deletecollection"


def _selected_name(text: str) -> str:
    if "metadata.name" not in text:
        return ""
    try:
        return parse_fields(text).exact_match("metadata.name") or ""
    except SelectorError:
        return ""
