"""URLs. Source: `k8s.io/apiserver/pkg/cel/library/urls.go`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayplan.api.cel.functions.go_urls import ParsedURL, URLError, parse_request_uri, parse_url
from bayplan.api.cel.functions.registry import STRING, Table
from bayplan.api.cel.values import EvaluationError, MapValue, Opaque, no_such_overload

TABLE = Table()


@dataclass(frozen=True, slots=True, eq=False)
class URL(Opaque):
    """A URL."""

    type_name = "kubernetes.URL"
    parts: ParsedURL

    def equals(self, other: Any) -> bool:
        """Whether all parts are the same. Raises EvaluationError for what is no URL."""
        if not isinstance(other, URL):
            raise no_such_overload()
        return self.parts == other.parts


@TABLE.function("url", STRING)
def _url(text: str) -> URL:
    try:
        parse_request_uri(text)
        return URL(parse_url(text))
    except URLError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from error


@TABLE.function("isURL", STRING)
def _is_url(text: str) -> bool:
    try:
        parse_request_uri(text)
    except URLError:
        return False
    return True


@TABLE.member("getScheme", URL)
def _scheme(value: URL) -> str:
    return value.parts.scheme


@TABLE.member("getHost", URL)
def _host(value: URL) -> str:
    return value.parts.host


@TABLE.member("getHostname", URL)
def _hostname(value: URL) -> str:
    return value.parts.hostname


@TABLE.member("getPort", URL)
def _port(value: URL) -> str:
    return value.parts.port


@TABLE.member("getEscapedPath", URL)
def _escaped_path(value: URL) -> str:
    return value.parts.escaped_path


@TABLE.member("getQuery", URL)
def _query(value: URL) -> MapValue:
    return MapValue(value.parts.query().items())
