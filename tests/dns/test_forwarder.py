"""Whom the forwarder asks, how often and what it believes; in virtual time, with servers that are functions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest

from bayplan.dns.errors import UnresolvedError
from bayplan.dns.forwarder import Accept, Forwarder, UpstreamQuestion
from bayplan.dns.metrics import DnsMetrics
from bayplan.dns.settings import DnsSettings, Server
from bayplan.support.clock import LoopClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SeededRandomness
from bayplan.support.virtual_time import run

ONE, TWO = Server("192.0.2.1", 53), Server("192.0.2.2", 53)
QUESTION = UpstreamQuestion(dns.name.from_text("www.test"), dns.rdatatype.A, False, False)

Behaviour = Callable[[bytes], Awaitable[list[bytes]]]
"""From a query to the messages that arrive then, in order."""


def reply(query: bytes, *, rcode: dns.rcode.Rcode = dns.rcode.NOERROR, truncated: bool = False) -> bytes:
    asked = dns.message.from_wire(query)
    made = dns.message.make_response(asked)
    made.set_rcode(rcode)
    if truncated:
        made.flags |= dns.flags.TC
    elif rcode == dns.rcode.NOERROR:
        made.answer.append(dns.rrset.from_text(asked.question[0].name, 60, "IN", "A", "203.0.113.7"))
    return made.to_wire()


async def well(query: bytes) -> list[bytes]:
    return [reply(query)]


async def silent(query: bytes) -> list[bytes]:
    return []


async def closed(query: bytes) -> list[bytes]:
    raise ConnectionRefusedError("closed port")


async def failing(query: bytes) -> list[bytes]:
    return [reply(query, rcode=dns.rcode.SERVFAIL)]


async def refusing(query: bytes) -> list[bytes]:
    return [reply(query, rcode=dns.rcode.REFUSED)]


async def malformed(query: bytes) -> list[bytes]:
    good = reply(query)
    return [good[:-3]]


async def truncating(query: bytes) -> list[bytes]:
    return [reply(query, truncated=True)]


def forging(change: Callable[[bytearray], object]) -> Behaviour:
    """A forged message first, then the real one."""

    async def behave(query: bytes) -> list[bytes]:
        forged = bytearray(reply(query).replace(bytes((203, 0, 113, 7)), bytes((6, 6, 6, 6))))
        change(forged)
        return [bytes(forged), reply(query)]

    return behave


class FakeExchange:
    """Servers that behave as told, over UDP and, by default well, over TCP."""

    def __init__(self, udp: dict[Server, Behaviour], tcp: Behaviour = well) -> None:
        self._udp = udp
        self._tcp = tcp
        self.asked: list[tuple[str, Server, bytes]] = []

    async def udp(self, server: Server, query: bytes, accept: Accept) -> bytes:
        return await self._answer("udp", self._udp[server], server, query, accept)

    async def tcp(self, server: Server, query: bytes, accept: Accept) -> bytes:
        return await self._answer("tcp", self._tcp, server, query, accept)

    async def _answer(self, way: str, behave: Behaviour, server: Server, query: bytes, accept: Accept) -> bytes:
        self.asked.append((way, server, query))
        for message in await behave(query):
            if accept(message):
                return message
        await asyncio.Event().wait()
        raise AssertionError("waits until it is cancelled")


def forwarder(exchange: FakeExchange, *servers: Server, registry: Registry | None = None, **settings: Any) -> Forwarder:
    return Forwarder(
        DnsSettings(forward=servers or (ONE, TWO), **settings),
        exchange,
        clock=LoopClock(0.0),
        randomness=SeededRandomness(1),
        metrics=DnsMetrics(registry or Registry()),
    )


async def timed(asked: Forwarder) -> tuple[str, float]:
    """The address or code that a question ends with, and the seconds that it takes."""
    started = asyncio.get_running_loop().time()
    try:
        response = await asked.resolve(QUESTION)
        shown = str(response.answer[0][0]) if response.answer else dns.rcode.to_text(response.rcode())
    except UnresolvedError:
        shown = "unresolved"
    return shown, asyncio.get_running_loop().time() - started


@pytest.mark.parametrize(
    ("first", "second", "result", "seconds"),
    [
        pytest.param(silent, well, "203.0.113.7", {0.0, 2.0}, id="no answer"),
        pytest.param(closed, well, "203.0.113.7", {0.0}, id="a closed port"),
        pytest.param(failing, well, "203.0.113.7", {0.0}, id="SERVFAIL"),
        pytest.param(refusing, well, "203.0.113.7", {0.0}, id="REFUSED"),
        pytest.param(malformed, well, "203.0.113.7", {0.0}, id="a malformed answer"),
        pytest.param(truncating, truncating, "203.0.113.7", {0.0}, id="a truncated answer"),
        pytest.param(silent, silent, "unresolved", {4.0}, id="no answer from both"),
        pytest.param(closed, malformed, "unresolved", {0.0}, id="nothing of use from both"),
        pytest.param(failing, silent, "SERVFAIL", {2.0}, id="SERVFAIL and no answer"),
    ],
)
def test_the_next_server_is_asked_after(first: Behaviour, second: Behaviour, result: str, seconds: set[float]) -> None:
    """Whichever of the two is asked first."""
    for servers in ((ONE, TWO), (TWO, ONE)):
        exchange = FakeExchange({servers[0]: first, servers[1]: second})
        shown, took = run(timed(forwarder(exchange)))
        assert (shown, took in seconds) == (result, True), took


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda forged: forged.__setitem__(0, forged[0] ^ 1), id="of another id"),
        pytest.param(lambda forged: forged.__setitem__(2, forged[2] & 0x7F), id="that is a query"),
        pytest.param(lambda forged: forged.__setitem__(13, ord("x")), id="to another name"),
        pytest.param(lambda forged: forged.__setitem__(23, 28), id="to another type"),
        pytest.param(lambda forged: forged.__setitem__(25, 3), id="of another class"),
        pytest.param(lambda forged: forged.__setitem__(5, 0), id="without a question"),
        pytest.param(lambda forged: forged.__delitem__(slice(5, None)), id="that is cut off"),
        pytest.param(lambda forged: forged.clear(), id="of no bytes"),
    ],
)
def test_the_real_answer_is_awaited_after_one(change: Callable[[bytearray], object]) -> None:
    exchange = FakeExchange({ONE: forging(change)})
    assert run(timed(forwarder(exchange, ONE))) == ("203.0.113.7", 0.0)
    assert len(exchange.asked) == 1


def test_a_forged_answer_with_id_and_question_is_believed() -> None:
    """So that the test above is about what it changes."""
    exchange = FakeExchange({ONE: forging(lambda forged: None)})
    assert run(timed(forwarder(exchange, ONE))) == ("6.6.6.6", 0.0)


def test_a_question_in_another_case_is_the_same() -> None:
    async def upper(query: bytes) -> list[bytes]:
        return [reply(query).replace(b"www", b"WwW", 1)]

    assert run(timed(forwarder(FakeExchange({ONE: upper}), ONE)))[0] == "203.0.113.7"


def test_a_truncated_answer_is_fetched_over_tcp_from_the_same_server() -> None:
    exchange = FakeExchange({ONE: truncating})
    run(timed(forwarder(exchange, ONE)))
    assert [(way, server) for way, server, _ in exchange.asked] == [("udp", ONE), ("tcp", ONE)]


def test_a_single_server_is_asked_twice() -> None:
    exchange = FakeExchange({ONE: silent})
    assert run(timed(forwarder(exchange, ONE))) == ("unresolved", 4.0)
    assert len(exchange.asked) == 2


def test_all_servers_together_have_five_seconds() -> None:
    servers = [Server(f"192.0.2.{number}", 53) for number in range(1, 6)]
    exchange = FakeExchange(dict.fromkeys(servers, silent))
    assert run(timed(forwarder(exchange, *servers))) == ("unresolved", 5.0)
    assert len(exchange.asked) == 3


def test_a_server_that_has_not_answered_is_asked_last_for_a_while() -> None:
    exchange = FakeExchange({ONE: silent, TWO: well})

    async def story() -> list[Server]:
        asked = forwarder(exchange)
        while not any(server == ONE for _, server, _ in exchange.asked):
            await timed(asked)
        exchange.asked.clear()
        for _ in range(8):
            await timed(asked)
        soon = [server for _, server, _ in exchange.asked]
        await asyncio.sleep(10)
        exchange.asked.clear()
        for _ in range(16):
            await timed(asked)
        assert ONE in {server for _, server, _ in exchange.asked}
        return soon

    assert run(story()) == [TWO] * 8


def test_equal_questions_are_asked_once() -> None:
    async def slow(query: bytes) -> list[bytes]:
        await asyncio.sleep(1)
        return [reply(query)]

    exchange = FakeExchange({ONE: slow})

    async def story() -> None:
        asked = forwarder(exchange, ONE)
        found = await asyncio.gather(*(timed(asked) for _ in range(50)))
        assert found == [("203.0.113.7", 1.0)] * 50
        await timed(asked)

    run(story())
    assert len(exchange.asked) == 2


def test_a_question_goes_on_for_others_when_one_client_leaves() -> None:
    async def slow(query: bytes) -> list[bytes]:
        await asyncio.sleep(1)
        return [reply(query)]

    async def story() -> str:
        asked = forwarder(FakeExchange({ONE: slow}), ONE)
        leaving, staying = (asyncio.create_task(timed(asked)) for _ in range(2))
        await asyncio.sleep(0.5)
        leaving.cancel()
        return (await staying)[0]

    assert run(story()) == "203.0.113.7"


def test_a_loop_of_forwarders_ends_with_the_time() -> None:
    """The server that is asked asks us the same, as often as it is asked."""
    exchange: FakeExchange

    async def story() -> tuple[tuple[str, float], int]:
        nonlocal exchange

        async def asks_us(query: bytes) -> list[bytes]:
            await asked.resolve(QUESTION)
            return [reply(query, rcode=dns.rcode.SERVFAIL)]

        exchange = FakeExchange({ONE: asks_us, TWO: asks_us})
        asked = forwarder(exchange)
        return await timed(asked), len(exchange.asked)

    assert run(story()) == (("unresolved", 4.0), 2)


def test_no_more_questions_wait_than_the_settings_say() -> None:
    registry = Registry()

    async def story() -> None:
        asked = forwarder(FakeExchange({ONE: silent}), ONE, registry=registry, max_concurrent=2)
        names = [dns.name.from_text(f"{number}.test") for number in range(3)]
        tasks = [asyncio.create_task(asked.resolve(UpstreamQuestion(one, 1, False, False))) for one in names]
        with pytest.raises(UnresolvedError, match="2 clients with 2 questions wait"):
            await tasks[2]
        await asked.close()
        for task in tasks[:2]:
            with pytest.raises(UnresolvedError):
                await task

    run(story())
    assert b"coredns_forward_max_concurrent_rejects_total 1\n" in registry.render()


def test_no_more_clients_wait_than_the_settings_say() -> None:
    async def slow(query: bytes) -> list[bytes]:
        await asyncio.sleep(1)
        return [reply(query)]

    async def story() -> list[str]:
        asked = forwarder(FakeExchange({ONE: slow}), ONE, max_waiting=2)
        first = await asyncio.gather(*(timed(asked) for _ in range(4)))
        second = await timed(asked)
        return [shown for shown, _ in (*first, second)]

    assert run(story()) == ["203.0.113.7", "203.0.113.7", "unresolved", "unresolved", "203.0.113.7"]


def test_every_query_has_an_id_of_its_own() -> None:
    exchange = FakeExchange({ONE: well})

    async def story() -> None:
        asked = forwarder(exchange, ONE)
        for _ in range(200):
            await timed(asked)

    run(story())
    assert len({query[:2] for _, _, query in exchange.asked}) > 190


@pytest.mark.parametrize("bit", [True, False])
def test_the_bits_of_the_client_are_passed_on(bit: bool) -> None:
    exchange = FakeExchange({ONE: well})
    run(forwarder(exchange, ONE).resolve(UpstreamQuestion(QUESTION.name, 1, bit, not bit)))
    query = dns.message.from_wire(exchange.asked[0][2])
    assert bool(query.ednsflags & dns.flags.DO) is bit
    assert bool(query.flags & dns.flags.CD) is not bit
    assert query.flags & dns.flags.RD
    assert query.payload == 1232
