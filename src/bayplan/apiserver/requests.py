"""What comes in and what goes out, independent of the transport; and the one place that takes a path apart."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from multidict import MultiMapping

from bayplan.api.errors import bad_request, not_found_error, resource_not_found
from bayplan.api.kinds import Kind, KindTable, Subresource
from bayplan.apiserver.pieces import JsonList
from bayplan.apiserver.relays import Relay
from bayplan.apiserver.watching import Watcher

if TYPE_CHECKING:
    from bayplan.apiserver.audit.record import AuditRecord, Trail

JSON = "application/json"
YAML = "application/yaml"


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
    """Set for requests over HTTP if there is an audit log."""
    audit: AuditRecord | None = None
    """Set for requests that are put into the audit log: takes notes."""


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

    def whole_body(self) -> bytes:
        """The body in one piece."""
        return self.body if self.long_list is None else self.long_list.whole()


@dataclass(slots=True)
class ResourcePath:
    """What a resource URL names. Made once per request and not changed: frozen classes cost four times as much to make."""

    kind: Kind
    namespace: str
    """"" for cluster-scoped kinds and for a list over all namespaces."""
    name: str
    """"" for a collection."""
    subresource: Subresource | None
    rest: str = ""
    """What follows the subresource (proxy paths)."""
    is_watch: bool = False
    """The deprecated `/watch/` prefix was used."""


def parse_resource_path(kinds: KindTable, path: str) -> ResourcePath | None:
    """Take a path apart; None if it is none of a resource (discovery, health, an unknown group, ...).

    Raises ApiError (404) if the group exists but the resource does not.
    """
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    is_watch = rest[0] == "watch" and len(rest) > 1
    if is_watch:
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        kind = kinds.of_resource(group, version, rest[2])
        if kind is not None and kind.namespaced:
            namespace, rest = rest[1], rest[2:]
        elif kind is not None or (group and group in kinds.groups()):
            _no_resource(kinds, group)
            return None
    kind = kinds.of_resource(group, version, rest[0])
    if kind is None:
        _no_resource(kinds, group)
        return None
    name = rest[1] if len(rest) > 1 else ""
    if name and kind.namespaced and not (namespace or is_watch or kind.is_custom):
        raise resource_not_found()
    subresource = None
    if len(rest) > 2:
        subresource = kind.subresource(rest[2])
        if subresource is None and kind.is_custom:
            raise not_found_error(kind.plural, kind.group, name)
        if subresource is None or (len(rest) > 3 and subresource.name != "proxy"):
            raise resource_not_found()
    return ResourcePath(kind, namespace, name, subresource, "/".join(rest[3:]), is_watch)


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
        return f'strconv.ParseUint: parsing "{text}": invalid syntax'
    return f'strconv.ParseUint: parsing "{text}": value out of range' if int(text) >= 1 << 64 else ""


def int_parameter(query: Mapping[str, str], name: str) -> int | None:
    """An integer query parameter, None if missing. Raises ApiError (400) if it is no number."""
    value = query.get(name)
    if value is None:
        return None
    try:
        number = int(value)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{value}": invalid syntax') from None
    if not -(1 << 63) <= number < 1 << 63:
        raise bad_request(f'strconv.ParseInt: parsing "{value}": value out of range')
    return number


CONNECTIONS = frozenset(("attach", "exec", "log", "portforward", "proxy"))
"""Subresources that are connections, which may last, not writes."""
_DURATION = re.compile(r"[+-]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)")
_NUMBER_AND_UNIT = re.compile(r"(?:\d+\.?\d*|\.\d+)([^\d.]*)")


def check_timeout(query: Mapping[str, str], path: ResourcePath | None) -> None:
    """The parameter `timeout`, which all requests take but those that last, is a duration. Raises ApiError (400)."""
    given = query.get("timeout", "")
    if not given or _DURATION.fullmatch(given):
        return
    if path is not None and (
        path.is_watch
        or bool_parameter(query, "watch")
        or (path.subresource is not None and path.subresource.name in CONNECTIONS)
    ):
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
