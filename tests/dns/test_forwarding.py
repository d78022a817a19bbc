"""Names outside of the cluster, over real sockets to upstream servers with faults."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest
import uvloop

from bayplan.dns.settings import Server
from tests.dns.objects import endpoint, endpoint_slice
from tests.dns.serving import Reply, Running, Upstream, answered, serving

SOA = "ns.test. admin.test. 1 2 3 4 60"


def reply(query: bytes, *records: tuple[str, str], rcode: int = 0, ttl: int = 60) -> dns.message.Message:
    """A response with these records (type, data) of the question's name; without any, with a SOA record."""
    asked = dns.message.from_wire(query)
    made = dns.message.make_response(asked)
    made.set_rcode(dns.rcode.Rcode(rcode))
    name = asked.question[0].name
    made.answer = [dns.rrset.from_text(name, ttl, "IN", kind, data) for kind, data in records]
    if not records:
        made.authority = [dns.rrset.from_text("test.", ttl, "IN", "SOA", SOA)]
    return made


def well(query: bytes, way: str) -> bytes:
    return reply(query, ("A", "203.0.113.7")).to_wire()


def play(story: Callable[[Running, Upstream], Awaitable[None]], answer: Reply = well, **settings: Any) -> None:
    async def main() -> None:
        upstream = Upstream(answer)
        async with upstream.running() as server, serving(server, **settings) as running:
            await story(running, upstream)

    uvloop.run(main())


@pytest.mark.parametrize("way", ["udp", "tcp"])
def test_other_names_are_answered_by_the_upstream_server(way: str) -> None:
    async def story(running: Running, upstream: Upstream) -> None:
        response = await running.ask("WWW.test", way=way)
        assert answered(response) == ["A 203.0.113.7"]
        assert response.flags == dns.flags.QR | dns.flags.RD | dns.flags.RA
        assert response.answer[0].name.to_text() == "WWW.test."

    play(story)


def test_answers_are_kept_for_their_time_and_no_longer() -> None:
    async def story(running: Running, upstream: Upstream) -> None:
        for name in ("www.test", "www.test", "WWW.test"):
            assert answered(await running.ask(name)) == ["A 203.0.113.7"]
        assert len(upstream.queries) == 1
        await running.ask("www.test", "AAAA")
        assert len(upstream.queries) == 2

    play(story)


@pytest.mark.parametrize(
    ("made", "kept"),
    [
        pytest.param(lambda query: reply(query), True, id="no records"),
        pytest.param(lambda query: reply(query, rcode=3), True, id="no name"),
        pytest.param(lambda query: reply(query, ("A", "203.0.113.7"), ttl=0), False, id="records for no time"),
        pytest.param(lambda query: reply(query, rcode=2), False, id="a failure"),
        pytest.param(lambda query: reply(query, rcode=5), False, id="a refusal"),
    ],
)
def test_of_these_kept_are(made: Callable[[bytes], dns.message.Message], kept: bool) -> None:
    async def story(running: Running, upstream: Upstream) -> None:
        first, second = await running.ask("x.test"), await running.ask("x.test")
        assert first.rcode() == second.rcode() == made(dns.message.make_query("x.test", "A").to_wire()).rcode()
        assert first.authority == second.authority
        repeated = len(upstream.queries) - (2 if first.rcode() in (2, 5) else 1)  # a single server is asked twice
        assert (repeated == 0) is kept

    play(story, lambda query, way: made(query).to_wire())


def test_nothing_is_kept_if_the_settings_say_so() -> None:
    async def story(running: Running, upstream: Upstream) -> None:
        for _ in range(3):
            await running.ask("www.test")
        assert len(upstream.queries) == 3

    play(story, cache_seconds=0)


def test_negative_answers_without_soa_are_not_kept() -> None:
    def answer(query: bytes, way: str) -> bytes:
        made = reply(query, rcode=3)
        made.authority = []
        return made.to_wire()

    async def story(running: Running, upstream: Upstream) -> None:
        for _ in range(2):
            assert (await running.ask("x.test")).rcode() == dns.rcode.NXDOMAIN
        assert len(upstream.queries) == 2

    play(story, answer)


@pytest.mark.parametrize(
    ("code", "edns", "expected"),
    [
        (dns.rcode.YXRRSET, -1, dns.rcode.YXRRSET),
        (dns.rcode.BADVERS, -1, dns.rcode.SERVFAIL),
        (dns.rcode.BADVERS, 0, dns.rcode.BADVERS),
    ],
)
def test_codes_that_need_edns_are_for_clients_that_have_it(
    code: dns.rcode.Rcode, edns: int, expected: dns.rcode.Rcode
) -> None:
    async def story(running: Running, upstream: Upstream) -> None:
        response = await running.ask("x.test", use_edns=edns)
        assert (response.rcode(), response.edns) == (expected, edns)

    play(story, lambda query, way: reply(query, rcode=code).to_wire())


FAULTS: dict[str, Reply] = {
    "nothing": lambda query, way: None,
    "another id": lambda query, way: bytes((query[0] ^ 1,)) + well(query, way)[1:],
    "another question": lambda query, way: well(query, way).replace(b"www", b"wwx"),
    "SERVFAIL": lambda query, way: reply(query, rcode=2).to_wire(),
    "a cut-off message": lambda query, way: well(query, way)[:-20],
    "noise": lambda query, way: query[:2] + b"\xff" * 40,
    "the query itself": lambda query, way: query,
    "TC, and nothing over TCP": lambda query, way: query[:2] + b"\x83\x80" + query[4:] if way == "udp" else None,
    "TC, and noise over TCP": lambda query, way: query[:2] + b"\x83\x80" + query[4:] if way == "udp" else b"\0" * 9,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_servfail_is_the_answer_to_upstream_servers_that_send(fault: str) -> None:
    async def story(running: Running, upstream: Upstream) -> None:
        response = await running.ask("www.test")
        assert (response.rcode(), response.answer) == (dns.rcode.SERVFAIL, [])
        assert len([one for one in upstream.queries if one[0] == "udp"]) == 2

    play(story, FAULTS[fault])


@pytest.mark.parametrize("fault", FAULTS)
def test_the_next_server_answers_when_the_first_sends(fault: str) -> None:
    async def main() -> None:
        bad, good = Upstream(FAULTS[fault]), Upstream(well)
        async with bad.running() as first, good.running() as second, serving(first, second) as running:
            for number in range(6):
                assert answered(await running.ask(f"www.{number}.test")) == ["A 203.0.113.7"]
            assert len(good.queries) == 6

    uvloop.run(main())


def test_a_server_that_is_not_there_costs_no_time() -> None:
    async def main() -> None:
        async with serving(Server("127.0.0.1", 1), attempt_seconds=60.0) as running:
            assert (await running.ask("www.test")).rcode() == dns.rcode.SERVFAIL

    uvloop.run(main())


def test_what_is_truncated_is_fetched_over_tcp() -> None:
    def answer(query: bytes, way: str) -> bytes:
        if way == "udp":
            return query[:2] + b"\x83\x80" + query[4:]
        return reply(query, *(("A", f"203.0.113.{number}") for number in range(200))).to_wire(max_size=65_535)

    async def story(running: Running, upstream: Upstream) -> None:
        assert len(answered(await running.ask("www.test", way="tcp"))) == 200
        cut = await running.ask("www.test")
        assert cut.flags & dns.flags.TC
        assert 0 < len(answered(cut)) < 200

    play(story, answer)


def test_every_question_has_a_port_of_its_own() -> None:
    async def story(running: Running, upstream: Upstream) -> None:
        for number in range(20):
            await running.ask(f"{number}.test")
        assert len(upstream.sources) > 15

    play(story)


def test_an_alias_outside_comes_with_what_is_there() -> None:
    async def story(running: Running, upstream: Upstream) -> None:
        name = "external.testns.svc.cluster.local"
        for _ in range(2):
            response = await running.ask(name)
            assert answered(response) == ["CNAME ext.interwebs.test.", "A 203.0.113.7"]
            assert response.answer[1].name.to_text() == "ext.interwebs.test."
            assert response.flags & dns.flags.AA
        assert len(upstream.queries) == 1
        changed = running.zone.remove_service("testns", "external")
        running.responder.zone_changed(changed)
        assert (await running.ask(name)).rcode() == dns.rcode.NXDOMAIN

    play(story)


def test_an_alias_of_a_name_that_is_not_there_says_so() -> None:
    async def story(running: Running, upstream: Upstream) -> None:
        response = await running.ask("external.testns.svc.cluster.local")
        assert (response.rcode(), answered(response)) == (dns.rcode.NXDOMAIN, ["CNAME ext.interwebs.test."])

    play(story, lambda query, way: reply(query, rcode=3).to_wire())


def test_addresses_that_the_cluster_gets_later_are_no_longer_answered_from_the_cache() -> None:
    async def story(running: Running, upstream: Upstream) -> None:
        name = "7.0.1.10.in-addr.arpa"
        assert (await running.ask(name, "PTR")).rcode() == dns.rcode.NXDOMAIN
        part = endpoint_slice("hdls1-c", "hdls1", endpoint("10.1.0.7", "late"))
        running.responder.zone_changed(running.zone.put_slice(part))
        assert answered(await running.ask(name, "PTR")) == ["PTR late.hdls1.testns.svc.cluster.local."]

    play(story, lambda query, way: reply(query, rcode=3).to_wire())


def test_what_changes_while_another_server_is_asked_is_not_kept() -> None:
    async def story(running: Running, upstream: Upstream) -> None:
        name, part = "7.0.1.10.in-addr.arpa", endpoint_slice("hdls1-c", "hdls1", endpoint("10.1.0.7", "late"))

        def change(query: bytes, way: str) -> bytes:
            running.responder.zone_changed(running.zone.put_slice(part))
            return reply(query, rcode=3).to_wire()

        upstream.reply = change
        assert (await running.ask(name, "PTR")).rcode() == dns.rcode.NXDOMAIN
        assert answered(await running.ask(name, "PTR")) == ["PTR late.hdls1.testns.svc.cluster.local."]

    play(story)


def test_cluster_names_never_reach_other_servers() -> None:
    async def story(running: Running, upstream: Upstream) -> None:
        for name in ("svc1.testns.svc", "svc0.testns.svc", "x.y.z", "www.test"):
            await running.ask(f"{name}.cluster.local")
        await running.ask("1.0.0.10.in-addr.arpa", "PTR")
        assert upstream.queries == []

    play(story)


def test_records_of_types_that_are_not_known_pass_through() -> None:
    def answer(query: bytes, way: str) -> bytes:
        return reply(query, ("TYPE65280", r"\# 4 01020304")).to_wire()

    async def story(running: Running, upstream: Upstream) -> None:
        assert answered(await running.ask("x.test", "TYPE65280")) == [r"TYPE65280 \# 4 01020304"]

    play(story, answer)


def test_two_servers_that_forward_to_each_other_end_a_question_with_servfail() -> None:
    async def main() -> None:
        sent_back: set[asyncio.Task[bytes]] = set()

        def send_back(query: bytes, way: str) -> None:
            sent_back.add(asyncio.create_task(running.datagram(query)))

        relay = Upstream(send_back)
        async with relay.running() as server, serving(server) as running:
            assert (await running.ask("www.test")).rcode() == dns.rcode.SERVFAIL
            found = [dns.message.from_wire(one).rcode() for one in await asyncio.gather(*sent_back)]
        assert found == [dns.rcode.SERVFAIL] * 2
        assert len(relay.queries) == 2

    uvloop.run(main())
