"""Headers that have been read before: clients send the same ones with each request, but for `Content-Length`, so their bytes tell what they say."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import NamedTuple

from multidict import MultiDict, MultiDictProxy

from bayplan.apiserver.requests import Impersonation

LINE = re.compile(rb"(GET|POST|PUT|PATCH|DELETE) (/[\w/.:-]*)(?:\?([\w=&.:-]*))? HTTP/1\.1(?=\r\n)", re.ASCII)
_LENGTH = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ?(\d{1,9})(?=\r\n)")
OWN_WAYS = re.compile(
    rb"\r\n(?:connection[ \t]*:(?! keep-alive\r\n)|"
    rb"(?:content-encoding|content-length|expect|proxy-connection|te|trailer|transfer-encoding|upgrade)[ \t]*:)",
    re.IGNORECASE,
)
"""Headers that say how a request or its connection is to be taken."""
LONGEST_BLOCK = 8 << 10
_MOST_BLOCKS = 1000
"""Blocks of headers that are remembered, and their bytes."""


class Head(NamedTuple):
    """What a block of headers says."""

    authorization: str
    content_type: str
    accept: str
    user_agent: str
    impersonation: Impersonation | None
    forwarded_for: str = ""
    real_ip: str = ""


class Heads:
    """The blocks of headers that aiohttp has read, from the end of the first line to the empty one, without `Content-Length`."""

    def __init__(self) -> None:
        self._known: dict[bytes, Head] = {}
        self.of = self._known.get

    def learn(self, block: bytes, head: Head) -> None:
        """Remember a block."""
        if len(self._known) >= _MOST_BLOCKS:
            self._known.clear()
        self._known[block] = head


NO_QUERY: Mapping[str, str] = {}


@functools.lru_cache(maxsize=256)
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
