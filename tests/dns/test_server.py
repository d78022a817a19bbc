"""The server over real sockets, with dnspython as the client."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable

import dns.edns
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import pytest
import uvloop

from bayplan.dns.errors import ListenError
from bayplan.dns.listeners import Listeners, reaches_itself
from bayplan.dns.settings import DnsSettings, Server
from bayplan.dns.zone import Zone
from tests.dns.objects import endpoint, endpoint_slice, service, zone
from tests.dns.serving import Running, answered, serving

NAME = "svc1.testns.svc.cluster.local"


def play(story: Callable[[Running], Awaitable[None]], made: Zone | None = None, **settings: object) -> None:
    async def main() -> None:
        async with serving(zone=made, **settings) as running:
            await story(running)

    uvloop.run(main())


def large(count: int = 300) -> Zone:
    """A headless service with many endpoints."""
    made = Zone()
    made.put_service(service("big", "None"))
    for first in range(0, count, 100):
        found = [endpoint(f"10.9.{number // 250}.{number % 250}") for number in range(first, min(first + 100, count))]
        made.put_slice(endpoint_slice(f"big-{first}", "big", *found))
    return made


@pytest.mark.parametrize("way", ["udp", "tcp"])
@pytest.mark.parametrize("server", [0, 1], ids=["IPv4", "IPv6"])
def test_it_answers_over(way: str, server: int) -> None:
    async def story(running: Running) -> None:
        for _ in range(3):  # from the zone, then from the cache
            response = await running.ask(NAME, way=way, server=server)
            assert answered(response) == ["A 10.0.0.1"]
            assert response.rcode() == dns.rcode.NOERROR
            assert response.flags == dns.flags.QR | dns.flags.AA | dns.flags.RD
            assert response.edns == -1

    play(story)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "127.9.9.9", "::1"])
@pytest.mark.parametrize("way", ["udp", "tcp"])
def test_a_server_at_all_addresses_answers_from_the_one_that_was_asked(address: str, way: str) -> None:
    """dnspython takes answers from there only."""

    async def story(running: Running) -> None:
        port = running.servers[0].port
        running.servers[:] = [Server(address, port)]
        for _ in range(2):
            assert answered(await running.ask(NAME, way=way)) == ["A 10.0.0.1"]

    play(story, listen=("0.0.0.0", "::"))


def test_negative_answers_have_the_soa_record() -> None:
    async def story(running: Running) -> None:
        running.zone.serial = 42
        for name, rcode in (("svc0.testns.svc", dns.rcode.NXDOMAIN), ("testns.svc", dns.rcode.NOERROR)):
            for _ in range(2):
                response = await running.ask(f"{name}.cluster.local")
                assert (response.rcode(), response.answer) == (rcode, [])
                assert [str(one) for one in response.authority] == [
                    "cluster.local. 5 IN SOA ns.dns.cluster.local. hostmaster.cluster.local. 42 7200 1800 86400 5"
                ]

    play(story)


@pytest.mark.parametrize(
    ("name", "kind", "rcode", "negative"),
    [
        ("to-nothing", "A", dns.rcode.NXDOMAIN, True),
        ("to-service", "AAAA", dns.rcode.NOERROR, True),
        ("to-service", "A", dns.rcode.NOERROR, False),
        ("to-nothing", "CNAME", dns.rcode.NOERROR, False),
        ("external", "A", dns.rcode.NOERROR, False),
    ],
)
def test_the_end_of_a_chain_of_aliases_decides(name: str, kind: str, rcode: dns.rcode.Rcode, negative: bool) -> None:
    async def story(running: Running) -> None:
        for _ in range(2):
            response = await running.ask(f"{name}.testns.svc.cluster.local", kind)
            assert answered(response)[0].startswith("CNAME")
            assert (response.rcode(), bool(response.authority)) == (rcode, negative)

    play(story)


def test_records_of_every_type_arrive() -> None:
    async def story(running: Running) -> None:
        for name, kind, expected in (
            ("svc6.testns.svc.cluster.local", "AAAA", ["AAAA 1234:abcd::1"]),
            ("_http._tcp.svc1.testns.svc.cluster.local", "SRV", [f"SRV 0 100 80 {NAME}."]),
            ("dns-version.cluster.local", "TXT", ['TXT "1.1.0"']),
            ("1.0.0.10.in-addr.arpa", "PTR", [f"PTR {NAME}."]),
            ("cluster.local", "NS", ["NS ns.dns.cluster.local."]),
            ("cluster.local", "SOA", ["SOA ns.dns.cluster.local. hostmaster.cluster.local. 1 7200 1800 86400 5"]),
            ("external.testns.svc.cluster.local", "CNAME", ["CNAME ext.interwebs.test."]),
            ("chain.testns.svc.cluster.local", "CNAME", ["CNAME to-service.testns.svc.cluster.local."]),
        ):
            for _ in range(2):
                assert answered(await running.ask(name, kind)) == expected
        response = await running.ask("_http._tcp.svc1.testns.svc.cluster.local", "SRV")
        assert [str(one) for one in response.additional] == [f"{NAME}. 5 IN A 10.0.0.1"]

    play(story)


def test_ipv6_addresses_have_names() -> None:
    async def story(running: Running) -> None:
        name = ".".join(reversed("00100000000000000000000000000003")) + ".ip6.arpa"
        assert answered(await running.ask(name, "PTR")) == ["PTR svc-dual-stack.testns.svc.cluster.local."]

    play(story)


def test_the_case_of_the_question_comes_back() -> None:
    async def story(running: Running) -> None:
        for name in (NAME, "SvC1.TESTNS.svc.cluster.LOCAL", "sVc1.testns.SVC.Cluster.local"):
            response = await running.ask(name)
            assert response.question[0].name.to_text(omit_final_dot=True) == name
            assert response.answer[0].name.to_text(omit_final_dot=True) == name
            assert answered(response) == ["A 10.0.0.1"]

    play(story)


@pytest.mark.parametrize(
    ("payload", "most"), [(None, 512), (0, 512), (600, 600), (1232, 1232), (4096, 1232), (65_535, 1232)]
)
def test_answers_are_cut_to_what_the_client_and_the_network_take(payload: int | None, most: int) -> None:
    async def story(running: Running) -> None:
        edns = {} if payload is None else {"use_edns": 0, "payload": payload}
        query = dns.message.make_query("big.testns.svc.cluster.local", "A", **edns).to_wire()  # type: ignore[arg-type]
        for _ in range(2):
            data = await running.datagram(query)
            response = dns.message.from_wire(data)
            assert most - 16 < len(data) <= most
            assert response.flags & dns.flags.TC
            assert len(answered(response)) > 20
            assert response.edns == (-1 if payload is None else 0)

    play(story, large())


def test_over_tcp_the_whole_answer_comes() -> None:
    async def story(running: Running) -> None:
        response = await running.ask("big.testns.svc.cluster.local", way="tcp")
        assert len(set(answered(response))) == 300
        assert not response.flags & dns.flags.TC

    play(story, large())


def test_additional_records_are_left_out_without_truncation() -> None:
    async def story(running: Running) -> None:
        response = await running.ask("big.testns.svc.cluster.local", "SRV")
        assert (len(answered(response)), response.flags & dns.flags.TC) == (7, 0)
        assert len(response.additional) < 7

    play(story, large(7))


def test_addresses_come_in_turns() -> None:
    async def story(running: Running) -> None:
        for way in ("udp", "tcp"):
            found = [answered(await running.ask("hdls1.testns.svc.cluster.local", way=way)) for _ in range(9)]
            assert {tuple(sorted(one)) for one in found} == {tuple(sorted(found[0]))}
            assert {one[0] for one in found} == set(found[0])

    play(story)


def test_changes_are_answered_at_once() -> None:
    async def story(running: Running) -> None:
        name = "hdls-empty.testns.svc.cluster.local"
        assert (await running.ask(name)).rcode() == dns.rcode.NXDOMAIN
        other = await running.ask(NAME)
        for part, expected in (
            (endpoint_slice("e", "hdls-empty", endpoint("10.1.0.1")), ["A 10.1.0.1"]),
            (endpoint_slice("e", "hdls-empty", endpoint("10.1.0.2")), ["A 10.1.0.2"]),
            (endpoint_slice("e", "hdls-empty", endpoint("10.1.0.2", ready=False)), []),
        ):
            running.responder.zone_changed(running.zone.put_slice(part))
            assert answered(await running.ask(name)) == expected
        assert (await running.ask(NAME)).answer == other.answer

    play(story)


def test_only_answers_about_what_changes_are_forgotten() -> None:
    async def story(running: Running) -> None:
        for _ in range(2):
            await running.ask(NAME)
            await running.ask("hdls1.testns.svc.cluster.local")
            running.responder.zone_changed(running.zone.put_slice(endpoint_slice("hdls1-a", "hdls1")))
        at = f'server="dns://127.0.0.1:{running.servers[0].port}"'
        hits = f'coredns_cache_hits_total{{{at},type="success",view="",zones="cluster.local."}} 1'
        assert hits in running.registry.render().decode().splitlines()

    play(story)


def test_until_the_cluster_is_known_nothing_is_said_to_be_missing() -> None:
    async def story(running: Running) -> None:
        running.synced = False
        for name in ("svc0.testns.svc", "other.svc", "to-nothing.testns.svc"):
            assert (await running.ask(f"{name}.cluster.local")).rcode() == dns.rcode.SERVFAIL
        assert answered(await running.ask(NAME)) == ["A 10.0.0.1"]
        running.synced = True
        assert (await running.ask("svc0.testns.svc.cluster.local")).rcode() == dns.rcode.NXDOMAIN

    play(story)


def test_edns_options_do_not_keep_answers_from_the_cache() -> None:
    async def story(running: Running) -> None:
        for number in range(4):
            options = [dns.edns.GenericOption(dns.edns.OptionType.COOKIE, bytes(7) + bytes((number,)))]
            response = await running.ask(NAME, use_edns=0, options=options)
            assert (answered(response), response.options) == (["A 10.0.0.1"], ())
        shown = running.registry.render().decode()
        misses = [line for line in shown.splitlines() if line.startswith("coredns_cache_misses_total{")]
        assert sum(float(line.rsplit(" ", 1)[1]) for line in misses) == 1

    play(story)


@pytest.mark.parametrize(
    ("change", "rcode"),
    [
        pytest.param({"use_edns": 1}, dns.rcode.BADVERS, id="another version of EDNS"),
        pytest.param({"rdclass": dns.rdataclass.CH}, dns.rcode.REFUSED, id="another class"),
    ],
)
def test_refused_is(change: dict[str, int], rcode: dns.rcode.Rcode) -> None:
    async def story(running: Running) -> None:
        query = dns.message.make_query(NAME, "A", **change)  # type: ignore[arg-type]
        assert dns.message.from_wire(await running.datagram(query.to_wire())).rcode() == rcode

    play(story)


@pytest.mark.parametrize("kind", ["AXFR", "IXFR"])
def test_transfers_are_refused(kind: str) -> None:
    async def story(running: Running) -> None:
        query = dns.message.make_query("cluster.local", kind)
        if kind == "IXFR":
            query.authority.append(dns.rrset.from_text("cluster.local.", 0, "IN", "SOA", "a. b. 1 2 3 4 5"))
        assert dns.message.from_wire(await running.datagram(query.to_wire())).rcode() == dns.rcode.REFUSED

    play(story)


def test_other_operations_are_not_implemented() -> None:
    async def story(running: Running) -> None:
        query = dns.message.make_query(NAME, "A")
        query.set_opcode(dns.opcode.NOTIFY)
        response = dns.message.from_wire(await running.datagram(query.to_wire()))
        assert (response.id, response.rcode(), response.opcode()) == (query.id, dns.rcode.NOTIMP, dns.opcode.NOTIFY)

    play(story)


def test_without_servers_for_other_names_these_are_refused_and_aliases_come_alone() -> None:
    async def story(running: Running) -> None:
        response = await running.ask("www.test")
        assert (response.rcode(), response.flags & (dns.flags.AA | dns.flags.RA)) == (dns.rcode.REFUSED, 0)
        assert (await running.ask("1.2.0.192.in-addr.arpa", "PTR")).rcode() == dns.rcode.REFUSED
        assert (await running.ask("xcluster.local")).rcode() == dns.rcode.REFUSED
        alias = await running.ask("external.testns.svc.cluster.local")
        assert (alias.rcode(), answered(alias)) == (dns.rcode.NOERROR, ["CNAME ext.interwebs.test."])

    play(story)


def test_a_connection_takes_many_queries_and_answers_each() -> None:
    async def story(running: Running) -> None:
        reader, writer = await asyncio.open_connection(*running.servers[0])
        queries = {query.id: query for query in (dns.message.make_query(NAME, "A", id=one) for one in range(100))}
        for query in queries.values():
            writer.write(query.to_wire(prepend_length=True))
        writer.write_eof()
        for _ in range(100):
            data = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
            response = dns.message.from_wire(data)
            assert queries.pop(response.id).is_response(response)
        assert await reader.read() == b""
        writer.close()

    play(story)


@pytest.mark.parametrize("sent", [b"", b"\0", b"\0\x20abc"], ids=["nothing", "half a length", "part of a query"])
def test_idle_and_slow_connections_are_cut_off(sent: bytes) -> None:
    async def story(running: Running) -> None:
        reader, writer = await asyncio.open_connection(*running.servers[0])
        writer.write(sent)
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()

    play(story, idle_seconds=0.1)


def test_connections_are_limited() -> None:
    async def story(running: Running) -> None:
        first, held = await asyncio.open_connection(*running.servers[0])
        held.write(dns.message.make_query(NAME, "A").to_wire(prepend_length=True))
        await first.readexactly(2)
        second, refused = await asyncio.open_connection(*running.servers[0])
        assert await asyncio.wait_for(second.read(), 5) == b""
        refused.close()
        held.close()

    play(story, max_connections=1)


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM], ids=["TCP", "UDP"])
def test_a_port_in_use_is_named(kind: socket.SocketKind) -> None:
    with socket.socket(socket.AF_INET, kind) as other:
        other.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            other.listen()
        listeners = Listeners(DnsSettings(port=other.getsockname()[1]))
        with pytest.raises(ListenError, match=r"cannot listen on 127.0.0.1:\d+ .*in use.* --port or --listen"):
            listeners.open()


@pytest.mark.parametrize(("port", "named"), [(53, True), (1023, True), (1024, False)])
def test_a_port_that_needs_rights_is_named(port: int, named: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    class Refusing(socket.socket):
        bind = refuse

    monkeypatch.setattr("socket.socket", Refusing)
    with pytest.raises(ListenError, match=r"Permission denied; ") as raised:
        Listeners(DnsSettings(port=port)).open()
    assert ("ports below 1024 need root or CAP_NET_BIND_SERVICE" in str(raised.value)) is named


def test_an_address_of_another_machine_is_named() -> None:
    with pytest.raises(ListenError, match=r"cannot listen on 192.0.2.1:0 .*choose another address with --listen"):
        Listeners(DnsSettings(listen=("192.0.2.1",), port=0)).open()


@pytest.mark.parametrize(
    ("bound", "upstream", "itself"),
    [
        ("127.0.0.1", Server("127.0.0.1", 53), True),
        ("0.0.0.0", Server("127.0.0.53", 53), True),
        ("::", Server("::1", 53), True),
        ("127.0.0.1", Server("127.0.0.1", 54), False),
        ("127.0.0.1", Server("127.0.0.2", 53), False),
        ("0.0.0.0", Server("192.0.2.1", 53), False),
    ],
)
def test_a_server_that_would_ask_itself_is_noticed(bound: str, upstream: Server, itself: bool) -> None:
    assert (reaches_itself([Server(bound, 53)], [upstream]) == upstream) is itself


def test_metrics_have_the_names_of_coredns() -> None:
    async def story(running: Running) -> None:
        for name in (NAME, NAME, "svc0.testns.svc.cluster.local", "www.test"):
            await running.ask(name)
        await running.datagram(b"\0\1\0\0\0\0\0\0\0\0\0\0")
        shown = running.registry.render().decode()
        at = f'server="dns://127.0.0.1:{running.servers[0].port}"'
        for line in (
            f'coredns_dns_requests_total{{family="1",proto="udp",{at},type="A",view="",zone="cluster.local."}} 3',
            f'coredns_dns_requests_total{{family="1",proto="udp",{at},type="A",view="",zone="."}} 1',
            f'coredns_dns_responses_total{{plugin="kubernetes",rcode="NOERROR",{at},view="",zone="cluster.local."}} 2',
            f'coredns_dns_responses_total{{plugin="kubernetes",rcode="NXDOMAIN",{at},view="",zone="cluster.local."}} 1',
            f'coredns_dns_responses_total{{plugin="",rcode="FORMERR",{at},view="",zone="dropped"}} 1',
            f'coredns_dns_request_duration_seconds_count{{{at},view="",zone="cluster.local."}} 3',
            f'coredns_cache_hits_total{{{at},type="success",view="",zones="cluster.local."}} 1',
            f'coredns_cache_entries{{proto="udp",{at},view="",zones="."}} 2',
        ):
            assert line in shown.splitlines(), line

    play(story, zone())
