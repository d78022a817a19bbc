"""Responses that clients may have already, or want in part: RFC 9110's conditions and ranges, in the order in which Go's `http.ServeContent` looks at them."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

from bayplan.apiserver.requests import Response

_READS: Final = ("GET", "HEAD")
_ETAG, _MODIFIED, _RANGES = "ETag", "Last-Modified", "Accept-Ranges"


def conditioned(response: Response, method: str, headers: Mapping[str, str]) -> Response:
    """The response that the conditions in a request's headers leave of a successful one. One without a range says only whether its tag is the client's."""
    own = response.headers
    if _RANGES not in own:
        return _not_modified(response) if own.get(_ETAG) == headers.get("If-None-Match") else response
    if not _matches(own, headers):
        return _emptied(response, 412, {name: value for name, value in own.items() if name != _RANGES})
    wanted = headers.get("If-None-Match")
    if wanted is not None:
        if _names(wanted, own.get(_ETAG, ""), weakly=True):
            return _not_modified(response) if method in _READS else _emptied(response, 412, own)
    elif method in _READS and _is_unchanged(own, headers.get("If-Modified-Since")):
        return _not_modified(response)
    wanted = headers.get("Range", "")
    if method in _READS and wanted.startswith("bytes=") and _names_range(own, headers.get("If-Range")):
        return _part(response, wanted.removeprefix("bytes="))
    return response


def _matches(own: Mapping[str, str], headers: Mapping[str, str]) -> bool:
    wanted = headers.get("If-Match")
    if wanted is not None:
        return _names(wanted, own.get(_ETAG, ""), weakly=False)
    since, modified = _seconds(headers.get("If-Unmodified-Since")), _seconds(own.get(_MODIFIED))
    return since is None or modified is None or modified <= since


def _is_unchanged(own: Mapping[str, str], since: str | None) -> bool:
    wanted, modified = _seconds(since), _seconds(own.get(_MODIFIED))
    return wanted is not None and modified is not None and modified <= wanted


def _names_range(own: Mapping[str, str], wanted: str | None) -> bool:
    """Whether what the client has parts of is what there is."""
    if not wanted:
        return True
    if wanted.startswith('"'):
        return wanted == own.get(_ETAG)
    return _seconds(wanted) is not None and _seconds(wanted) == _seconds(own.get(_MODIFIED))


def _names(wanted: str, tag: str, *, weakly: bool) -> bool:
    """Whether a list of tags has this one."""
    tags = [one.strip() for one in wanted.split(",")]
    if tags == ["*"]:
        return True
    return bool(tag) and any((one.removeprefix("W/") if weakly else one) == tag for one in tags)


def _seconds(text: str | None) -> float | None:
    """Unix seconds of a date of HTTP; None for none."""
    try:
        return parsedate_to_datetime(text).timestamp() if text else None
    except ValueError:
        return None


def _not_modified(response: Response) -> Response:
    dropped = (_RANGES, _MODIFIED) if _ETAG in response.headers else (_RANGES,)
    found = _emptied(response, 304, {name: one for name, one in response.headers.items() if name not in dropped})
    found.content_type = ""
    return found


def _emptied(response: Response, code: int, headers: Mapping[str, str]) -> Response:
    found = Response(code, b"", response.content_type, dict(headers), response.warnings, is_final=True)
    found.audit_id, found.flow = response.audit_id, response.flow
    return found


def _part(response: Response, wanted: str) -> Response:
    """One range of the body. Several are not taken apart: the client gets the whole."""
    size = len(response.body)
    first, dash, last = wanted.partition("-")
    first, last = first.strip(), last.strip()
    if "," in wanted:
        return response
    if not dash or not (first or last) or not all(one.isdecimal() for one in (first, last) if one):
        return _unsatisfied(response, "invalid range", size)
    begin = int(first) if first else max(0, size - int(last))
    end = min(int(last), size - 1) if first and last else size - 1
    if first and last and int(last) < begin:
        return _unsatisfied(response, "invalid range", size)
    if begin >= size:
        return _unsatisfied(response, "invalid range: failed to overlap", size)
    found = _emptied(response, 206, {**response.headers, "Content-Range": f"bytes {begin}-{end}/{size}"})
    found.body = response.body[begin : end + 1]
    return found


def _unsatisfied(response: Response, why: str, size: int) -> Response:
    headers = {"X-Content-Type-Options": "nosniff"}
    if why != "invalid range":
        headers["Content-Range"] = f"bytes */{size}"
    found = _emptied(response, 416, headers)
    found.body, found.content_type = f"{why}\n".encode(), "text/plain; charset=utf-8"
    return found
