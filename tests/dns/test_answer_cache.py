"""Answers as bytes: found by query, in turns, for their time, until something changes; bounded."""

from __future__ import annotations

import dns.message
import dns.rrset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.dns.answer_cache import AnswerCache, CachedAnswer
from bayplan.dns.wire import aged, rotations, ttl_offsets
from bayplan.support.metrics.instruments import Histogram


def query(name: str = "www.test", identity: int = 1) -> bytes:
    return dns.message.make_query(name, "A", id=identity).to_wire()


def response(asked: bytes, *addresses: str, ttl: int = 60, name: str | None = None) -> bytes:
    parsed = dns.message.from_wire(asked)
    made = dns.message.make_response(parsed)
    owner = dns.name.from_text(name) if name else parsed.question[0].name
    kind = "AAAA" if addresses and ":" in addresses[0] else "A"
    made.answer = [dns.rrset.from_text(owner, ttl, "IN", kind, one) for one in addresses]
    made.authority.append(dns.rrset.from_text("test.", ttl + 5, "IN", "NS", "ns.test."))
    made.use_edns(0)
    return made.to_wire(max_size=65_535)


def kept(message: bytes, *depends: str, lifetime: int | None = None) -> CachedAnswer:
    return CachedAnswer(message, depends, counters=(), duration=Histogram((1.0,)), stored=100.0, lifetime=lifetime)


def put(cache: AnswerCache, name: str, *depends: str, lifetime: int | None = None) -> None:
    asked = query(name)
    message = response(asked, "203.0.113.7")
    cache.put(asked, kept(message, *depends, lifetime=lifetime), message)


def found(cache: AnswerCache, asked: bytes, now: float = 100.0) -> bytes | None:
    reply = cache.reply(asked, now)
    return reply[0] if reply is not None else None


def test_a_query_finds_its_answer_whatever_its_id_and_case() -> None:
    cache = AnswerCache(10)
    put(cache, "www.test")
    for name, identity in (("www.test", 7), ("WwW.TEST", 65_535)):
        asked = query(name, identity)
        assert found(cache, asked) == response(asked, "203.0.113.7")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(query("wwx.test"), id="of another name"),
        pytest.param(dns.message.make_query("www.test", "AAAA").to_wire(), id="of another type"),
        pytest.param(dns.message.make_query("www.test", "A", flags=0).to_wire(), id="with other flags"),
        pytest.param(dns.message.make_query("www.test", "A", use_edns=0).to_wire(), id="with EDNS"),
        pytest.param(b"", id="of no bytes"),
        pytest.param(b"x" * 40, id="without an end"),
    ],
)
def test_another_answer_is_for_a_query(other: bytes) -> None:
    cache = AnswerCache(10)
    put(cache, "www.test")
    assert found(cache, other) is None


def test_types_whose_numbers_differ_by_case_are_different() -> None:
    """65 (HTTPS) is "A" and 97 is "a"."""
    cache = AnswerCache(10)
    asked = dns.message.make_query("www.test", "TYPE65").to_wire()
    message = dns.message.make_response(dns.message.from_wire(asked)).to_wire()
    cache.put(asked, kept(message), message)
    assert found(cache, asked) is not None
    assert found(cache, dns.message.make_query("www.test", "TYPE97").to_wire()) is None


def test_answers_go_with_what_they_depend_on() -> None:
    cache = AnswerCache(10)
    put(cache, "a.test", "service n/a", "namespace n")
    put(cache, "b.test", "service n/b", "namespace n")
    put(cache, "c.test")
    cache.invalidate(["service n/b", "service n/other"])
    assert [found(cache, query(f"{one}.test")) is not None for one in "abc"] == [True, False, True]
    cache.invalidate(["namespace n"])
    assert [found(cache, query(f"{one}.test")) is not None for one in "abc"] == [False, False, True]


def test_the_answer_that_was_not_used_for_the_longest_time_makes_room() -> None:
    cache = AnswerCache(2)
    put(cache, "a.test")
    put(cache, "b.test")
    found(cache, query("a.test"))
    put(cache, "c.test")
    assert [found(cache, query(f"{one}.test")) is not None for one in "abc"] == [True, False, True]
    assert len(cache) == 2


def test_nothing_is_left_of_answers_that_are_gone() -> None:
    cache = AnswerCache(3)
    for number in range(50):
        put(cache, f"{number}.test", f"service n/{number}", "namespace n")
    assert (len(cache), len(cache._keys)) == (3, 4)
    put(cache, "49.test", "service n/other")
    cache.invalidate(["namespace n", "service n/other"])
    assert (len(cache), len(cache._keys)) == (0, 0)


def test_times_to_live_shrink_until_the_answer_is_gone() -> None:
    cache = AnswerCache(10)
    put(cache, "www.test", lifetime=30)
    for now, ttl in ((100.0, 60), (100.9, 60), (101.0, 59), (129.9, 31)):
        message = dns.message.from_wire(found(cache, query(), now) or b"")
        assert [one.ttl for one in (*message.answer, *message.authority)] == [ttl, ttl + 5]
        assert (message.payload, message.edns) == (1232, 0)
    assert found(cache, query(), 130.0) is None
    assert len(cache) == 0


def test_an_answer_to_a_name_in_pointers_is_not_kept() -> None:
    cache = AnswerCache(10)
    asked = query()
    message = response(query("other.test"), "203.0.113.7")
    cache.put(asked, kept(message), message)
    assert len(cache) == 0


@pytest.mark.parametrize("addresses", [("10.0.0.1", "10.0.0.2", "10.0.0.3"), ("fd00::1", "fd00::2", "fd00::3")])
def test_addresses_change_places(addresses: tuple[str, ...]) -> None:
    kind = "AAAA" if ":" in addresses[0] else "A"
    asked = dns.message.make_query("www.test", kind).to_wire()
    turned = [dns.message.from_wire(one) for one in rotations(response(asked, *addresses))]
    assert [str(one.answer[0][0]) for one in turned] == list(addresses)
    assert all(sorted(map(str, one.answer[0])) == sorted(addresses) for one in turned)
    assert all(one.authority and one.edns == 0 for one in turned)


def test_answers_of_several_names_stay_as_they_are() -> None:
    message = response(query(), "10.0.0.1", "10.0.0.2", name="other.test")
    assert rotations(message) == (message,)
    one = response(query(), "10.0.0.1")
    assert rotations(one) == (one,)


def test_a_long_answer_has_a_bounded_number_of_orders() -> None:
    message = response(query(), *(f"10.0.0.{number}" for number in range(100)))
    assert len(set(rotations(message))) == 16


@given(st.lists(st.sampled_from(["www.test.", "a.www.test.", "other.example.", "."]), max_size=6), st.integers(0, 90))
def test_any_message_ages(owners: list[str], seconds: int) -> None:
    parsed = dns.message.from_wire(query())
    made = dns.message.make_response(parsed)
    for number, owner in enumerate(owners):
        section = (made.answer, made.authority, made.additional)[number % 3]
        section.append(dns.rrset.from_text(owner, 60 + number, "IN", "MX", "10 mail.other.example."))
    made.use_edns(0)
    message = made.to_wire()
    older = dns.message.from_wire(aged(message, ttl_offsets(message), seconds), one_rr_per_rrset=True)
    before = dns.message.from_wire(message, one_rr_per_rrset=True)
    for name in ("answer", "authority", "additional"):
        changed, old = getattr(older, name), getattr(before, name)
        assert [one.ttl for one in changed] == [max(0, one.ttl - seconds) for one in old]
        assert changed == old
    assert older.opt is not None
