"""What comes in and what goes out, independent of the transport."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from multidict import MultiMapping

from bayplan.api.errors import ApiError, bad_request, method_not_allowed, not_found_error, quoted, resource_not_found
from bayplan.api.kinds import Kind, KindTable, Subresource
from bayplan.apiserver.reads.pieces import JsonList
from bayplan.apiserver.reads.watching import Watcher
from bayplan.apiserver.request_info import RequestInfo, parse_request_info
from bayplan.apiserver.routing.relays import Relay

if TYPE_CHECKING:
    from bayplan.apiserver.audit.record import AuditRecord, Trail
    from bayplan.apiserver.authentication.authenticator import Unfinished

JSON = "application/json"
YAML = "application/yaml"
TEXT = "text/plain; charset=utf-8"
CHECK_HEADERS: Final = {"X-Content-Type-Options": "nosniff"}
"""Of responses to health checks."""


@dataclass(frozen=True, slots=True)
class User:
    """Who asks."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    warning: str = ""
    """What is odd about the credentials; answers to requests with them carry it."""


@dataclass(frozen=True, slots=True)
class Impersonation:
    """What the Impersonate-* headers of a request ask for, as it stands there."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class Origin:
    """From where a request comes, and how it was put: what the audit log wants to know of HTTP."""

    source_ips: tuple[str, ...] = ()
    """The addresses it came through, the client's own first."""
    uri: str = ""
    """Path and query as they were sent."""
    audit_id: str = ""
    """What the client calls the request."""
    trace: Mapping[str, str] = field(default_factory=dict)
    """The headers by which the client says to which trace the request belongs."""


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


@dataclass(slots=True)
class Request:
    """One request. Header names that matter are fields; the transport has taken care of the rest."""

    method: str
    path: str
    query: Mapping[str, str]
    """Query parameters; of repeated ones the first."""
    user: User
    body: bytes = b""
    content_type: str = ""
    accept: str = ""
    user_agent: str = ""
    impersonation: Impersonation | None = None
    """Whom the user wants to be for this request."""
    warning: str = ""
    """What was odd about the credentials; the answer carries it."""
    reads_warnings: bool = True
    """Whether the transport hands warnings on; those that cost something are not made otherwise."""
    reads_answer: bool = True
    """Whether the client wants to see more of a success than that it is one."""
    origin: Origin | None = None
    """Set for requests over HTTP if there is an audit log, or requests are traced."""
    audit: AuditRecord | None = None
    """Set for requests that are put into the audit log: takes notes."""
    unfinished: Unfinished | None = None
    """Set while the user is not known: the transport finds out before the server sees the request."""
    info: RequestInfo = field(init=False)
    """What is asked for. Whatever decides about the request reads this, not method and path."""

    def __post_init__(self) -> None:
        self.info = parse_request_info(self.method, self.path, self.query)


class FlowIdentity:
    """Which flow schema and priority level a request was assigned to, as its answer says: by uid, so that names are not given away."""

    __slots__ = ("fields", "head", "headers", "is_exempt")

    def __init__(self, schema: str, level: str, *, is_exempt: bool) -> None:
        """schema, level: their uids. is_exempt: whether the level has no limit."""
        self.is_exempt = is_exempt
        self.headers = {"X-Kubernetes-Pf-Flowschema-Uid": schema, "X-Kubernetes-Pf-Prioritylevel-Uid": level}
        self.head = "".join(f"{name}: {uid}\r\n" for name, uid in self.headers.items()).encode()
        """The headers as they stand in the head of an answer."""
        self.fields = [(name.lower().encode(), uid.encode()) for name, uid in self.headers.items()]
        """The headers as fields of HTTP/2."""


@dataclass(slots=True)
class Response:
    """One answer. `watcher` is set for watches: the transport streams what it yields."""

    code: int
    body: bytes = b""
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    watcher: Watcher | None = None
    is_final: bool = False
    """Whether the body is to be sent byte for byte, not laid out for the reader."""
    long_list: JsonList | None = None
    """Instead of a body: a list that is long enough to be sent in pieces."""
    relay: Relay | None = None
    """Instead of an answer: who gives it. The transport asks and passes it on."""
    trail: Trail | None = None
    """With a relay of a request that is put into the audit log: to be told of the answer."""
    audit_id: str = ""
    """Names the request in the audit log; the answer carries it."""
    flow: FlowIdentity | None = None
    """What priority and fairness made of the request; the answer carries it."""
    when_relayed: Callable[[], None] | None = None
    """With a relay: to be called once it has ended, or does not take place."""

    def not_relayed(self) -> None:
        """The relay does not take place: nobody is there for the answer."""
        if self.when_relayed is not None:
            self.when_relayed()
        if self.trail is not None:
            self.trail.ended()

    def whole_body(self) -> bytes:
        """The body in one piece."""
        return self.body if self.long_list is None else self.long_list.whole()


@dataclass(slots=True)
class ResourcePath:
    """What of the server's resources a request names: its `RequestInfo` resolved against the table of kinds.

    Made once per request and not changed: frozen classes cost four times as much to make.
    """

    kind: Kind
    namespace: str
    """"" for cluster-scoped kinds and for a list over all namespaces."""
    name: str
    """"" for a collection."""
    subresource: Subresource | None
    rest: str = ""
    """What follows the subresource (proxy paths)."""
    verb: str = ""
    """The API verb that was authorized; "" for work of the server's own."""


def resolve(kinds: KindTable, info: RequestInfo) -> ResourcePath | None:
    """Find the resource that a request names; None if the path names none (discovery, health, an unknown group, ...).

    Raises ApiError: 404 if the group exists but the resource does not; 400 and 405 for a path with an empty part where a namespace or name belongs.
    """
    if not info.is_resource or (not info.group and info.path.startswith("/apis/")):
        return None
    kind = kinds.of_resource(info.group, info.version, info.resource)
    if kind is None or (not kind.namespaced and (info.is_nested or (kind.is_custom and info.namespace))):
        _no_resource(kinds, info.group)
        return None
    name, namespace = info.name, info.namespace if kind.namespaced else ""
    if not kind.is_custom and (
        (name and kind.namespaced and not namespace) or (info.subresource and (info.has_verb_prefix or not name))
    ):
        raise _incomplete(kind, info)
    if name and not info.subresource and kind.verbs == _CREATE_ONLY and not kind.is_custom:
        raise resource_not_found()
    subresource = None
    if info.subresource:
        subresource = kind.subresource(info.subresource)
        if kind.is_custom and (subresource is None or not name):
            raise not_found_error(kind.plural, kind.group, name)
        if subresource is None or (info.rest and subresource.name != "proxy"):
            raise resource_not_found()
    return ResourcePath(kind, namespace, name, subresource, info.rest, info.verb)


_CREATE_ONLY = ("create",)
"""Verbs of kinds that are answered and not kept: they have no names."""


def _incomplete(kind: Kind, info: RequestInfo) -> ApiError:
    """Why a path to an object has no namespace, or one to a subresource no name: the part is empty, or was left out and there is no such route."""
    is_namespace_empty = kind.namespaced and info.is_nested and not info.namespace
    is_name_empty = bool(info.subresource) and not info.name and (info.is_nested or not kind.namespaced)
    subresource = kind.subresource(info.subresource) if info.subresource else None
    if (
        info.has_verb_prefix
        or not (is_namespace_empty or is_name_empty)
        or (info.subresource and subresource is None)
        or (info.rest and info.subresource != "proxy")
    ):
        return resource_not_found()
    verb = _WITH_NAMES.get(info.verb, info.verb)
    if verb not in (kind.verbs if subresource is None else subresource.verbs) or (verb == "create" and not subresource):
        return method_not_allowed()
    return bad_request("name must be provided" if is_name_empty else "Namespace parameter required.")


_WITH_NAMES: Final = {"list": "get", "watch": "get", "deletecollection": "delete"}
"""Verbs of collections, and what a request with their method asks for where there is a name."""


def _no_resource(kinds: KindTable, group: str) -> None:
    """A group without this resource. Raises ApiError (404) if the server vouches for what is in the group."""
    if not group or kinds.has_built_in_group(group):
        raise resource_not_found()


def bool_parameter(query: Mapping[str, str], name: str) -> bool:
    """A boolean query parameter: missing is false, present without a value is true."""
    value = query.get(name)
    return value is not None and value.lower() not in ("false", "0")


def parameters(query: Mapping[str, str], name: str) -> list[str]:
    """All values of a query parameter, which may come several times over HTTP."""
    if isinstance(query, MultiMapping):
        return list(query.getall(name, []))
    return [query[name]] if name in query else []


def revision_problem(text: str) -> str:
    """Why Go does not read a resourceVersion; "" if it does."""
    if not (text.isdigit() and text.isascii()):
        return f"strconv.ParseUint: parsing {quoted(text)}: invalid syntax"
    is_large = len(text.lstrip("0")) > _DIGITS or int(text) >= 1 << 64
    return f'strconv.ParseUint: parsing "{text}": value out of range' if is_large else ""


def int_parameter(query: Mapping[str, str], name: str) -> int | None:
    """An integer query parameter, None if missing. Raises ApiError (400) if it is no number."""
    value = query.get(name)
    if value is None:
        return None
    if _INTEGER.fullmatch(value) is None:
        raise bad_request(f"strconv.ParseInt: parsing {quoted(value)}: invalid syntax")
    digits = value.lstrip("+-0")
    number = int(value[: value[0] in "+-"] + (digits or "0")) if len(digits) <= _DIGITS else 1 << 64
    if not -(1 << 63) <= number < 1 << 63:
        raise bad_request(f'strconv.ParseInt: parsing "{value}": value out of range')
    return number


_INTEGER = re.compile(r"[+-]?[0-9]+")
_DIGITS = 20
"""Of the longest number of 64 bits; Python does not read numbers of thousands of digits."""


_DURATION = re.compile(r"[+-]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)")
_NUMBER_AND_UNIT = re.compile(r"(?:\d+\.?\d*|\.\d+)([^\d.]*)")


def check_timeout(request: Request) -> None:
    """The parameter `timeout`, which all requests take but those that last, is a duration. Raises ApiError (400)."""
    given = request.query.get("timeout", "")
    if not given or request.info.is_long_running or _DURATION.fullmatch(given):
        return
    raise bad_request(f"invalid timeout specified in the request URL - time: {_duration_problem(given)}")


def _duration_problem(text: str) -> str:
    """Why Go does not read a duration."""
    rest = text.lstrip("+-") if text[:1] in ("+", "-") else text
    while match := _NUMBER_AND_UNIT.match(rest):
        if not match[1]:
            return f'missing unit in duration "{text}"'
        if match[1] not in ("ns", "us", "µs", "μs", "ms", "s", "m", "h"):
            return f'unknown unit "{match[1]}" in duration "{text}"'
        rest = rest[match.end() :]
    return f'invalid duration "{text}"'
