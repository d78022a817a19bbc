"""Header fields of a stream as a request, or why they are none; simple responses as header fields.

Clients get what `golang.org/x/net/http2` gives: malformed fields reset the stream, fields that HTTP/2 has no use for are answered with 400, long ones with 431.
Source: RFC 9113, section 8; `server.go` (`newWriterAndRequest`, `checkValidHTTP2RequestHeaders`), `frame.go` (`readMetaFrame`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from email.utils import formatdate
from http import HTTPStatus
from math import floor
from typing import Final, NamedTuple

from bayplan.apiserver.http.answer import simple_body
from bayplan.apiserver.requests import JSON, Response

Field = tuple[bytes, bytes]

FIELDS_LIMIT: Final = (1 << 20) + 320
"""Bytes of header fields, as Go counts them and announces the limit: with 32 bytes for each."""
_OVERHEAD: Final = 32
_NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_METHOD: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_IN_VALUES: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_HOST: Final = re.compile(rb"[!$%&'()*+,;=:._~\[\]0-9A-Za-z@-]*")
_BAD_TARGET: Final = re.compile(rb"[\x00-\x20\x7f]|%(?![0-9A-Fa-f]{2})")
_PSEUDO: Final = frozenset((b":method", b":scheme", b":authority", b":path"))
_OF_CONNECTIONS: Final = {
    name.lower().encode(): name
    for name in ("Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade")
}
_OF_REQUESTS: Final = frozenset((b":method", b":path", b"content-length"))
"""What differs between requests of one client that are alike otherwise."""
_NOT_CACHED: Final = frozenset((b"content-encoding", b"expect", b"te", b"trailer", b"audit-id", b"traceparent"))
"""Fields of requests whose header fields are not remembered."""
_LONGEST_KEY: Final = 8 << 10
_LONGEST_NUMBER: Final = 18
_PLAIN_PATH: Final = re.compile(rb"(/[\w/.:-]*)(?:\?([\w=&.:-]*))?", re.ASCII)


class Malformed(Exception):
    """These are no fields of a request: the stream is reset."""


class RequestFields(NamedTuple):
    """What the header fields of a stream say."""

    method: str
    target: str
    """Path and query as they were sent."""
    headers: Sequence[tuple[str, str]]
    length: int | None
    """Bytes of the body, if the client says that."""


class FieldRefusal(NamedTuple):
    """Why a request is answered without being looked at."""

    status: HTTPStatus
    text: str


def key_of(fields: Sequence[Field]) -> bytes:
    """By what the fields of requests that are alike are remembered; b"" for those that are too long, or have no place in a request."""
    parts = [name if name in _OF_REQUESTS else name + b"\n" + value for name, value in fields]
    key = b"h2\n" + b"\n".join(parts)
    lines = 2 * len(fields) - sum(name in _OF_REQUESTS for name, _ in fields)
    return b"" if len(key) > _LONGEST_KEY or key.count(b"\n") != lines else key


def is_cacheable(fields: Iterable[Field]) -> bool:
    """Whether what fields say holds for further requests with the same ones: no field says how to read this body, or names this request."""
    return not any(name in _NOT_CACHED for name, _ in fields)


def plain_target(fields: Sequence[Field]) -> tuple[bytes, bytes, bytes | None] | None:
    """Method, path and query of a request in which nothing is escaped, if it has one of each; None if it has to be looked at more closely."""
    method = path = None
    for name, value in fields:
        if name == b":method":
            if method is not None:
                return None
            method = value
        elif name == b":path":
            if path is not None:
                return None
            path = value
        elif name[:1] != b":":
            break
    found = _PLAIN_PATH.fullmatch(path) if path is not None else None
    if found is None or method not in (b"GET", b"POST", b"PUT", b"PATCH", b"DELETE"):
        return None
    return method, found[1], found[2]


def length_of(fields: Iterable[Field]) -> int | None:
    """What `content-length` says; None if it is not there. Raises Malformed."""
    found = [value for name, value in fields if name == b"content-length"]
    if not found:
        return None
    if len(found) > 1 or not (found[0].isdigit() and len(found[0]) <= _LONGEST_NUMBER):
        raise Malformed("a content length that is no number")
    return int(found[0])


def read_fields(fields: Sequence[Field]) -> RequestFields | FieldRefusal:
    """The request that these fields are, or what its sender gets instead. Raises Malformed."""
    pseudo, headers = _checked(fields)
    if sum(len(name) + len(value) + _OVERHEAD for name, value in fields) > FIELDS_LIMIT:
        text = "<h1>HTTP Error 431</h1><p>Request Header Field(s) Too Large</p>"
        return FieldRefusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text)
    method, path = _target(pseudo)
    host = pseudo.get(b":authority") or next((value for name, value in headers if name == b"host"), b"")
    if not _HOST.fullmatch(host):
        raise Malformed("an authority that is none")
    if refusal := _refusal(headers):
        return refusal
    decoded = [("Host", host.decode())] if host else []
    decoded += [
        (_canonical(name), value.decode("utf-8", "surrogateescape"))
        for name, value in headers
        if name not in (b"host", b"cookie")
    ]
    if cookies := [value for name, value in headers if name == b"cookie"]:
        decoded.append(("Cookie", b"; ".join(cookies).decode("utf-8", "surrogateescape")))
    return RequestFields(method.decode(), path.decode("utf-8", "surrogateescape"), decoded, length_of(fields))


def _checked(fields: Sequence[Field]) -> tuple[dict[bytes, bytes], list[Field]]:
    """Pseudo-header fields, and the others. Raises Malformed."""
    pseudo: dict[bytes, bytes] = {}
    headers: list[Field] = []
    for name, value in fields:
        if name[:1] == b":":
            if headers or name in pseudo or name not in _PSEUDO:
                raise Malformed("a pseudo-header field that is unknown, late, or there twice")
            pseudo[name] = value
        elif not _NAME.fullmatch(name):
            raise Malformed("a name of a field that is none")
        else:
            headers.append((name, value))
        if _NOT_IN_VALUES.search(value):
            raise Malformed("a value of a field that is none")
    return pseudo, headers


def _target(pseudo: dict[bytes, bytes]) -> tuple[bytes, bytes]:
    """Method and path. Raises Malformed."""
    method, path, scheme = (pseudo.get(name, b"") for name in (b":method", b":path", b":scheme"))
    if not _METHOD.fullmatch(method) or method == b"CONNECT":
        raise Malformed("no method")  # this is no forward proxy
    if scheme not in (b"https", b"http"):
        raise Malformed("no scheme")
    if path == b"*":
        if method != b"OPTIONS":
            raise Malformed("no path")
    elif not path.startswith((b"/", b"http://", b"https://")) or _BAD_TARGET.search(path.partition(b"?")[0]):
        raise Malformed("no path")
    return method, path


def _refusal(headers: Iterable[Field]) -> FieldRefusal | None:
    """Why a request with these fields has no place in HTTP/2."""
    names = {name for name, _ in headers}
    for name, text in _OF_CONNECTIONS.items():
        if name in names:
            return FieldRefusal(HTTPStatus.BAD_REQUEST, f'request header "{text}" is not valid in HTTP/2\n')
    te = [value for name, value in headers if name == b"te"]
    if te and (len(te) > 1 or te[0] not in (b"", b"trailers")):
        return FieldRefusal(HTTPStatus.BAD_REQUEST, 'request header "TE" may only be "trailers" in HTTP/2\n')
    return None


@functools.lru_cache(maxsize=1024)
def _canonical(name: bytes) -> str:
    """As Go writes names of header fields."""
    return "-".join(part.capitalize() for part in name.decode().split("-"))


def refusal_fields(refusal: FieldRefusal, now: float) -> tuple[list[Field], bytes]:
    """What a refusal is answered with. now: Unix seconds."""
    body = refusal.text.encode()
    is_page = refusal.status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    kind = b"text/html; charset=utf-8" if is_page else b"text/plain; charset=utf-8"
    fields = [(b":status", b"%d" % refusal.status), (b"content-type", kind)]
    if not is_page:
        fields.append((b"x-content-type-options", b"nosniff"))
    return [*fields, (b"content-length", b"%d" % len(body)), (b"date", _date(floor(now)))], body


def simple_fields(response: Response, now: float) -> tuple[list[Field], bytes]:
    """Header fields and body of a simple response. now: Unix seconds."""
    body = simple_body(response)
    flow = response.flow
    fields = [(b":status", b"%d" % response.code), (b"audit-id", response.audit_id.encode()), *_COMMON]
    if flow is not None:
        fields += flow.fields
    fields += [(b"content-length", b"%d" % len(body)), (b"date", _date(floor(now)))]
    return fields, body


_COMMON: Final = ((b"cache-control", b"no-cache, private"), (b"content-type", JSON.encode()))


@functools.lru_cache(maxsize=4)
def _date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()
