"""What a request is about, as authorizers see it: a user and what the request's `RequestInfo` says."""

from __future__ import annotations

from bayplan.api.errors import ApiError, forbidden_error, quoted
from bayplan.api.selectors.fields import parse_fields
from bayplan.api.selectors.labels import SelectorError
from bayplan.apiserver.requests import Request, User


class Attributes:
    """One question: may this user do this?"""

    __slots__ = (
        "field_selector",
        "group",
        "is_resource",
        "label_selector",
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
        label_selector: str = "",
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
        self.label_selector = label_selector
        """Its label selector."""

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
    info = request.info
    if not info.is_resource:
        return Attributes(request.user, info.verb, path=info.path, is_resource=False)
    return Attributes(
        request.user,
        info.verb,
        group=info.group,
        version=info.version,
        resource=info.resource,
        subresource=info.subresource,
        namespace=info.namespace,
        name=info.name or info.selected_name,
        path=info.path,
        field_selector=info.field_selector,
        label_selector=info.label_selector,
    )
