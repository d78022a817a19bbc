"""Traces of requests: what the API server tells whom it is given, and the file that configures it. No library for traces is used here.

    SERVER  POST /api/v1/namespaces/{:namespace}/configmaps      a request, named by its path without names
      Create                                                       its verb
        Call validating webhook                                    each webhook that is asked
        Create etcd3                                               each request to etcd

Names and attributes are kube-apiserver's. Source: KEP-647, `k8s.io/apiserver/pkg/endpoints/filters/traces.go`, `k8s.io/component-base/tracing/api/v1`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from bayplan.api.errors import invalid, quoted
from bayplan.apiserver.configuration.files import ConfigurationError, ConfigurationStruct, read_file
from bayplan.apiserver.request_info import RequestInfo
from bayplan.apiserver.requests import Request

HEADERS: Final = ("traceparent", "tracestate", "baggage")
"""Headers of the W3C by which clients say to which trace a request belongs."""
VERBS: Final = {
    "get": "Get",
    "list": "List",
    "watch": "WatchServer.HandleHTTP",
    "create": "Create",
    "update": "Update",
    "patch": "Patch",
    "delete": "Delete",
    "deletecollection": "Delete",
}
"""Verb -> the span of its work."""
_DEFAULT_ENDPOINT: Final = "localhost:4317"
_MOST: Final = 1_000_000
_SCHEMES: Final = ("dns", "unix", "unix-abstract")
_TRUSTED: Final = frozenset(("system:masters", "system:monitoring"))

Answered = Callable[[int], None]
"""To be called with the code of the response."""


class Tracing(Protocol):
    """Takes spans. A span that is begun within another one, in the same task, belongs to it."""

    def request(self, request: Request) -> AbstractContextManager[Answered]:
        """The span of a request."""

    def span(self, name: str, attributes: Mapping[str, str] | None = None) -> AbstractContextManager[None]:
        """The span of a piece of work. What is raised in it is recorded."""

    def begin(self, name: str) -> Callable[[], None]:
        """A span that ends when the result is called, in whatever task."""


class TracingSettings(NamedTuple):
    """What a TracingConfiguration says."""

    endpoint: str
    """Host and port of the collector, which speaks OTLP over gRPC without TLS."""
    sampled: float
    """The part of the requests that is traced although no client asks for it."""


class _File(ConfigurationStruct):
    endpoint: str | None = None
    sampling_rate_per_million: int | None = None


def read_tracing(data: bytes) -> TracingSettings:
    """The settings in a file (YAML or JSON). Raises ConfigurationError."""
    file = read_file(data, "TracingConfiguration", _File)
    errors = []
    rate = file.sampling_rate_per_million or 0
    if rate < 0:
        errors.append(invalid("samplingRatePerMillion", rate, "sampling rate must be positive"))
    if rate > _MOST:
        text = "sampling rate per million must be less than or equal to one million"
        errors.append(invalid("samplingRatePerMillion", rate, text))
    endpoint = file.endpoint if file.endpoint is not None else _DEFAULT_ENDPOINT
    scheme = urlsplit(endpoint).scheme if "//" in endpoint else "dns"
    if scheme == "dns" and (problem := _host_problem(endpoint)):
        shown = endpoint if "//" in endpoint else f"dns://{endpoint}"
        errors.append(invalid("endpoint", shown, f"parse {quoted(shown)}: {problem}"))
    if scheme not in _SCHEMES:
        text = f"unsupported scheme: {scheme}.  Options are none, dns, unix, or unix-abstract"
        errors.append(invalid("endpoint", endpoint, text))
    if errors:
        raise ConfigurationError("; ".join(map(str, errors)))
    return TracingSettings(endpoint, rate / _MOST)


def _host_problem(endpoint: str) -> str:
    """Why Go does not read an address as that of a host; "" if it does."""
    host = endpoint.partition("//")[2].partition("/")[0] if "//" in endpoint else endpoint
    if " " in host:
        return 'invalid character " " in host name'
    port = host[host.rindex("]") + 1 :] if "]" in host else host
    _, colon, port = port.rpartition(":")
    return f"invalid port {quoted(colon + port)} after host" if colon and not port.isdecimal() and port else ""


def span_name(method: str, info: RequestInfo) -> str:
    """The name of a request's span: no names of objects, so that there are few."""
    if not info.is_resource:
        return method
    parts = [
        "apis" if info.group else "api",
        info.group,
        info.version,
        *(("namespaces", "{:namespace}") if info.namespace else ()),
    ]
    parts += [info.resource, "{:name}" if info.name else "", info.subresource]
    return f"{method} /" + "/".join(filter(None, parts))


def is_trusted(request: Request) -> bool:
    """Whether the trace that the client names is continued; others are only linked to, so that nobody makes the server trace at will."""
    return not _TRUSTED.isdisjoint(request.user.groups)
