"""Headers that have been read before: clients send the same ones with each request, but for `Content-Length`, so their bytes tell what they say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from multidict import MultiDict, MultiDictProxy

from bayplan.apiserver.requests import Impersonation, User
from bayplan.support.memory.memo import Memo, memoized

LINE = re.compile(rb"(GET|POST|PUT|PATCH|DELETE) (/[\w/.:-]*)(?:\?([\w=&.:-]*))? HTTP/1\.1(?=\r\n)", re.ASCII)
_LENGTH = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ?(\d{1,9})(?=\r\n)")
OWN_WAYS = re.compile(
    rb"\r\n(?:connection[ \t]*:(?! keep-alive\r\n)|"
    rb"(?:content-encoding|content-length|expect|proxy-connection|te|trailer|transfer-encoding|upgrade)[ \t]*:)",
    re.IGNORECASE,
)
"""Headers that say how a request or its connection is to be taken."""
LONGEST_BLOCK = 8 << 10


class ParsedHeaders(NamedTuple):
    """What a block of headers says."""

    authorization: str
    content_type: str
    accept: str
    user_agent: str
    impersonation: Impersonation | None
    forwarded_for: str = ""
    real_ip: str = ""
    proxied: User | None = None
    """Who asks by the headers of a front proxy, whoever sent them."""
    socket_token: str | None = ""
    """The token of a browser that opens a WebSocket; None if it is not sent as it has to be."""


HeaderCache = Memo[bytes, ParsedHeaders]
"""What blocks of headers say: by their bytes, from the end of the first line to the empty one, without `Content-Length`."""


def header_cache() -> HeaderCache:
    """A cache for one listener."""
    return Memo("request_headers", most_bytes=4 << 20)


NO_QUERY: Mapping[str, str] = {}


@memoized(256)
def query_of(text: bytes) -> Mapping[str, str]:
    """The parameters of a query in which nothing is escaped."""
    pairs = (pair.partition("=") for pair in text.decode().split("&") if pair)
    return MultiDictProxy(MultiDict((name, value) for name, _, value in pairs))


def block_of(data: bytes, start: int, end: int) -> tuple[bytes, int]:
    """The headers of a request without `Content-Length`, and what that says."""
    length = _LENGTH.search(data, start, end + 2)
    if length is None:
        return data[start:end], 0
    return data[start : length.start()] + data[length.end() : end], int(length[1])
