"""Pages: complete, self-contained, and safe against names with markup."""

from __future__ import annotations

from html.parser import HTMLParser

from bayplan.simulation.fixes.search import fixes_for
from bayplan.simulation.questions.capacity import capacity, mix_capacity
from bayplan.simulation.questions.consolidate import consolidate
from bayplan.simulation.reports.page import capacity_page, consolidation_page, fixes_page
from bayplan.simulation.snapshots.planner import node_shape
from bayplan.testing.builders import node, pod
from tests.simulation.objects import copy_of, owned, set_of

VOID = {"meta", "br"}


class Checker(HTMLParser):
    """Notes open tags and everything that would be loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag in ("script", "link", "img", "iframe"):
            self.loads.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check(text: str) -> None:
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    assert checker.loads == []
    assert "@import" not in text
    assert "url(" not in text
    assert "prefers-color-scheme:dark" in text


def test_the_page_of_capacity() -> None:
    copy = copy_of(node("a"), node("b", cpu="1"))
    answer = capacity(copy, pod("<b>x</b>", cpu="1"), wanted=9, shape=lambda: node_shape(copy))
    text = capacity_page(copy, answer)
    check(text)
    assert "<b>x</b>" not in text
    assert "&lt;b&gt;x&lt;/b&gt;" in text
    assert "Insufficient cpu" in text


def test_the_page_of_a_mix() -> None:
    copy = copy_of(node("a"))
    check(capacity_page(copy, mix_capacity(copy, [(pod("x", cpu="1"), 1)])))


def test_the_page_of_a_consolidation() -> None:
    web = set_of("web")
    copy = copy_of(node("a"), node("b"), node("c", cpu="1"), web, owned(web, "w", "a", cpu="1"), owned(web, "v", "c"))
    text = consolidation_page(copy, consolidate(copy))
    check(text)
    assert "of 3 nodes can go" in text


def test_the_page_of_fixes() -> None:
    asked = pod("asked", cpu="1", node_selector={"disk": "ssd"})
    copy = copy_of(node("a"), asked)
    text = fixes_page(copy, fixes_for(copy, asked))
    check(text)
    assert "kubectl label node a disk=ssd" in text
