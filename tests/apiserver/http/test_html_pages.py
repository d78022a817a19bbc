"""Links of pages that come through a proxy."""

from __future__ import annotations

import gzip
import time
import zlib

import pytest

from bayplan.apiserver.http.html_links import rewrite_links
from bayplan.apiserver.http.html_pages import is_rewritable, rewrite_page


def rewrite(link: str) -> str:
    return f"/proxy{link}" if link.startswith("/") else link


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<a href="/rewriteme">test</a>', '<a href="/proxy/rewriteme">test</a>'),
        ("<A CLASS=x HREF='/a?b=1&amp;c=2' id=y>", '<A CLASS=x HREF="/proxy/a?b=1&amp;c=2" id=y>'),
        ("<a href=/a>x", '<a href="/proxy/a">x'),
        ('<a title="a > b" href = "/a">', '<a title="a > b" href = "/proxy/a">'),
        ('<img src="/a" usemap="/b"/><link href="/c" />', '<img src="/proxy/a" usemap="/proxy/b"/><link href="/proxy/c" />'),
        ('<a href="relative">', '<a href="relative">'),
        ('<p href="/a">', '<p href="/a">'),
        ('<a src="/a" data-href="/b">', '<a src="/a" data-href="/b">'),
        ('<!-- <a href="/a"> --><a href="/b">', '<!-- <a href="/a"> --><a href="/proxy/b">'),
        ('<script src="/a">s = "<a href=/b>"</SCRIPT><a href="/c">', '<script src="/proxy/a">s = "<a href=/b>"</SCRIPT><a href="/proxy/c">'),
        ("1 < 2 <a href='/a'>", '1 < 2 <a href="/proxy/a">'),
        ('<a href="/a', '<a href="/a'),
        ('<!-- <a href="/a">', '<!-- <a href="/a">'),
        ('<style>x</b><a href="/a">', '<style>x</b><a href="/a">'),
        ("", ""),
    ],
)  # fmt: skip
def test_links_to_the_same_host(page: str, expected: str) -> None:
    assert rewrite_links(page.encode(), rewrite).decode() == expected


def test_bytes_that_are_no_text_stay() -> None:
    assert rewrite_links(b'\xff\xfe<a href="/\xfc">', rewrite) == b'\xff\xfe<a href="/proxy/\xfc">'


@pytest.mark.parametrize("piece", ["<a '", "<a", "<!--", '<a href="', "<script>", "<a href=/x ", "&lt;<"])
def test_pages_that_make_no_sense_cost_little(piece: str) -> None:
    started = time.process_time()
    rewrite_links((piece * 200_000).encode(), rewrite)
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Content-Type": "text/html"}, True),
        ({"Content-Type": "Text/HTML; charset=utf-8", "Content-Encoding": "gzip"}, True),
        ({"Content-Type": "text/html", "Content-Encoding": "br"}, False),
        ({"Content-Type": "text/plain"}, False),
        ({}, False),
    ],
)
def test_which_answers_are_pages(headers: dict[str, str], *, expected: bool) -> None:
    assert is_rewritable(headers) is expected


def test_compressed_pages() -> None:
    page, expected = b'<a href="/a">', b'<a href="/proxy/a">'
    assert gzip.decompress(rewrite_page(gzip.compress(page), "gzip", rewrite)) == expected
    raw = zlib.compressobj(wbits=-15)
    packed = raw.compress(page) + raw.flush()
    assert zlib.decompress(rewrite_page(packed, "deflate", rewrite), -15) == expected


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"no gzip", id="no gzip"),
        pytest.param(gzip.compress(b'<a href="/a">')[:-3], id="cut off"),
        pytest.param(gzip.compress(b" " * (8 << 20) + b"<a href=/a>"), id="too large"),
    ],
)
def test_what_cannot_be_unpacked_stays(body: bytes) -> None:
    assert rewrite_page(body, "gzip", rewrite) == body
