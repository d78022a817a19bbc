"""Packets that make no sense, by the thousand: nothing raises, nothing is answered that must not be, and the server goes on."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import struct
import time
from collections.abc import Iterator

import dns.message
import dns.rcode
import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from bayplan.dns.listener_context import ListenerContext
from bayplan.dns.metrics import DnsMetrics
from bayplan.dns.responder import Responder, reverse_address
from bayplan.dns.settings import DnsSettings
from bayplan.dns.wire import LONGEST_QUERY
from bayplan.support.clock import SystemClock
from bayplan.support.metrics.instruments import Registry
from tests.dns.objects import lookups
from tests.dns.serving import answered, serving

NAME = "svc1.testns.svc.cluster.local"
ROUNDS = int(os.environ.get("BAYPLAN_DNS_FUZZ", "3000"))
SEEDS = (
    dns.message.make_query(NAME, "A").to_wire(),
    dns.message.make_query("_http._tcp.hdls1.testns.svc.cluster.local", "SRV", use_edns=0, want_dnssec=True).to_wire(),
    dns.message.make_query("1.0.0.10.in-addr.arpa", "PTR").to_wire(),
    dns.message.make_query("chain.testns.svc.cluster.local", "AAAA", use_edns=0, payload=4096).to_wire(),
)


def mutated(chance: random.Random) -> bytes:
    """A query with a few bytes changed, cut out, doubled or put in."""
    data = bytearray(chance.choice(SEEDS))
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0:
                data[at : at + 1] = bytes((chance.randrange(256),))
            case 1:
                del data[at : at + chance.randint(1, 8)]
            case 2:
                data[at:at] = chance.randbytes(chance.randint(1, 8))
            case _:
                data[at:at] = data[at : at + chance.randint(1, 64)]
    return bytes(data)


def made(entries: int = 100) -> tuple[Responder, ListenerContext, Registry]:
    registry = Registry()
    metrics = DnsMetrics(registry)
    settings = DnsSettings(cache_entries=entries)
    responder = Responder(lookups(), None, settings, synced=lambda: True, clock=SystemClock(), metrics=metrics)
    return responder, responder.listener_context("dns://x", "udp", "1"), registry


def test_mutated_queries_are_answered_or_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """Set BAYPLAN_DNS_FUZZ to a number of rounds for more."""
    responder, context, registry = made()
    chance = random.Random(7)
    with caplog.at_level(logging.ERROR):
        for _ in range(ROUNDS):
            data = mutated(chance)
            found = responder.answer(context, data)
            if len(data) < 12 or data[2] & 0x80:
                assert found is None
                continue
            assert isinstance(found, bytes)
            assert found[:2] == data[:2]
            assert found[2] & 0x80
            assert 12 <= len(found) <= 1232
            dns.message.from_wire(found)
    assert caplog.records == []
    assert b"coredns_panics_total 0\n" in registry.render()
    assert len(context.cache) <= 100


@given(st.binary(max_size=600))
def test_any_bytes_are_answered_or_dropped(data: bytes) -> None:
    responder, context, registry = made()
    found = responder.answer(context, data)
    assert found is None or (isinstance(found, bytes) and found[:2] == data[:2])
    assert b"coredns_panics_total 0\n" in registry.render()


def pointer_loop() -> bytes:
    return struct.pack("!6H", 1, 0x100, 1, 0, 0, 0) + b"\xc0\x0c\0\1\0\1"


def many_questions() -> bytes:
    return struct.pack("!6H", 1, 0x100, 300, 0, 0, 0) + b"\0\0\1\0\1" * 300


def many_records() -> bytes:
    """Well-formed, but for their number."""
    return struct.pack("!6H", 1, 0x100, 1, 0, 0, 250) + b"\0\0\1\0\1" + b"\0\0\1\0\1\0\0\0\0\0\4abcd" * 250


def claims_too_much() -> bytes:
    return struct.pack("!6H", 1, 0x100, 1, 65_535, 65_535, 65_535) + b"\0\0\1\0\1"


def with_an_answer() -> bytes:
    return struct.pack("!6H", 1, 0x100, 1, 1, 0, 0) + b"\0\0\1\0\1" + b"\0\0\1\0\1\0\0\0\0\0\4abcd"


def two_opts() -> bytes:
    return struct.pack("!6H", 1, 0x100, 1, 0, 0, 2) + b"\0\0\1\0\1" + b"\0\0\x29\4\xd0\0\0\0\0\0\0" * 2


def long_label() -> bytes:
    return struct.pack("!6H", 1, 0x100, 1, 0, 0, 0) + b"\x40" + b"a" * 64 + b"\0\0\1\0\1"


def long_name() -> bytes:
    return struct.pack("!6H", 1, 0x100, 1, 0, 0, 0) + (b"\x3f" + b"a" * 63) * 5 + b"\0\0\1\0\1"


@pytest.mark.parametrize(
    "packet",
    [pointer_loop, many_questions, many_records, claims_too_much, two_opts, long_label, long_name, with_an_answer],
    ids=lambda packet: packet.__name__,
)
def test_no_query_is_a(packet: object) -> None:
    assert callable(packet)
    responder, context, _ = made()
    found = responder.answer(context, packet())
    assert isinstance(found, bytes)
    assert dns.message.from_wire(found).rcode() == dns.rcode.FORMERR
    assert len(found) == 12


@pytest.mark.parametrize("length", [LONGEST_QUERY + 1, 65_535])
def test_long_queries_are_refused_unread(length: int) -> None:
    responder, context, _ = made()
    data = many_records()
    data += bytes(length - len(data))
    started = time.process_time()
    found = responder.answer(context, data)
    assert time.process_time() - started < 0.1
    assert isinstance(found, bytes)
    assert found[3] & 15 == dns.rcode.FORMERR


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_query_may_carry_two_records(count: int) -> None:
    responder, context, _ = made()
    data = struct.pack("!6H", 1, 0x100, 1, 0, 0, count) + SEEDS[0][12:] + b"\0\0\1\0\1\0\0\0\0\0\4abcd" * count
    found = responder.answer(context, data)
    assert isinstance(found, bytes)
    assert found[3] & 15 == (dns.rcode.NOERROR if count < 3 else dns.rcode.FORMERR)


def test_responses_are_never_answered() -> None:
    """Two servers would else answer each other for ever."""
    responder, context, _ = made()
    for seed in SEEDS:
        assert responder.answer(context, dns.message.make_response(dns.message.from_wire(seed)).to_wire()) is None


def test_names_of_any_bytes_are_looked_up() -> None:
    responder, context, registry = made()
    for label in (b"\0", b"\xff" * 63, b"svc1.testns.svc", "ä".encode(), b"\\", b" ", b'"'):
        name = bytes((len(label),)) + label
        tail = b"\6testns\3svc\7cluster\5local\0\0\1\0\1"
        data = struct.pack("!6H", 1, 0x100, 1, 0, 0, 0) + name + tail
        for _ in range(2):
            found = responder.answer(context, data)
            assert isinstance(found, bytes)
            assert dns.message.from_wire(found).rcode() == dns.rcode.NXDOMAIN
            assert found[12 : len(data)] == data[12:]
    assert b"coredns_panics_total 0\n" in registry.render()


def test_a_fault_of_ours_is_logged_counted_and_answered_with_servfail(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    responder, context, registry = made()

    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("bayplan.dns.lookups.Lookups.find", broken)
    found = responder.answer(context, SEEDS[0])
    assert isinstance(found, bytes)
    assert (found[:2], found[3] & 15) == (SEEDS[0][:2], dns.rcode.SERVFAIL)
    assert "broken" in caplog.text
    assert b"coredns_panics_total 1\n" in registry.render()


def test_the_server_goes_on_after_a_storm() -> None:
    def packets() -> Iterator[bytes]:
        chance = random.Random(11)
        for _ in range(300):
            yield mutated(chance)
            yield chance.randbytes(chance.randrange(200))

    async def main() -> None:
        async with serving() as running:
            for data in packets():
                try:
                    await running.datagram(data, 0.001)
                except TimeoutError:
                    continue
            for way in ("udp", "tcp"):
                assert answered(await running.ask(NAME, way=way)) == ["A 10.0.0.1"]

    uvloop.run(main())


@pytest.mark.parametrize("sent", [b"\0\0", b"\xff\xff" + bytes(65_535), b"\0\x0c" + bytes(2) + b"\x80" + bytes(9)])
def test_a_connection_with_no_query_ends(sent: bytes) -> None:
    async def main() -> None:
        async with serving() as running:
            reader, writer = await asyncio.open_connection(*running.servers[0])
            writer.write(sent)
            writer.write_eof()
            rest = await asyncio.wait_for(reader.read(), 5)
            assert rest in (b"", rest[:2] + bytes(2) + b"\x80\x01" + bytes(8))
            writer.close()
            assert answered(await running.ask(NAME, way="tcp")) == ["A 10.0.0.1"]

    uvloop.run(main())


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("1.0.0.10.in-addr.arpa", "10.0.0.1"),
        (".".join("1" + "0" * 27 + "1000") + ".ip6.arpa", "1::1"),
        ("0.0.10.in-addr.arpa", ""),
        ("9.1.0.0.10.in-addr.arpa", ""),
        ("256.0.0.10.in-addr.arpa", ""),
        ("01.0.0.10.in-addr.arpa", ""),
        ("x.0.0.10.in-addr.arpa", ""),
        (".".join("g" * 32) + ".ip6.arpa", ""),
        (".".join("1" * 31) + ".ip6.arpa", ""),
        (".".join(["11"] * 32) + ".ip6.arpa", ""),
        ("1.0.0.10.in-addr.test", ""),
        ("arpa", ""),
    ],
)
def test_the_address_that_a_name_spells(name: str, address: str) -> None:
    assert reverse_address(name.split(".")) == address
