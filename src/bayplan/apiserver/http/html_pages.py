"""Which answers of a proxied server are pages with links, and what becomes of them, compressed ones included. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Final

from bayplan.apiserver.http.html_links import rewrite_links

LONGEST_PAGE: Final = 8 << 20
"""Bytes of a page, as sent and unpacked, whose links are looked at."""
_WINDOWS: Final = {"gzip": 16 + zlib.MAX_WBITS, "deflate": -zlib.MAX_WBITS}
"""Encoding -> what zlib calls it."""


def is_rewritable(headers: Mapping[str, str]) -> bool:
    """Whether an answer is a page of HTML in an encoding that is known."""
    kind = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return kind == "text/html" and headers.get("Content-Encoding", "") in ("", *_WINDOWS)


def rewrite_page(body: bytes, encoding: str, rewrite: Callable[[str], str]) -> bytes:
    """A page with other links, in the encoding in which it came. What cannot be unpacked, or is too long then, stays as it is."""
    if not encoding:
        return rewrite_links(body, rewrite)
    unpacking = zlib.decompressobj(_WINDOWS[encoding])
    try:
        page = unpacking.decompress(body, LONGEST_PAGE)
    except zlib.error:
        return body
    if not unpacking.eof or unpacking.unconsumed_tail:
        return body
    packing = zlib.compressobj(wbits=_WINDOWS[encoding])
    return packing.compress(rewrite_links(page, rewrite)) + packing.flush()
