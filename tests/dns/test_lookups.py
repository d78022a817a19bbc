"""What names have: the cases of CoreDNS' tests, and those of the specification that CoreDNS has none for."""

from __future__ import annotations

import pytest

from bayplan.dns.lookups import Lookups
from bayplan.dns.records import Record, RecordType
from bayplan.dns.zone import Zone
from tests.dns.objects import DOMAIN, endpoint, endpoint_slice, find, lookups, service, shown, zone

ZONE = zone()

ANSWERS = {
    "a cluster IP": ("svc1.testns.svc", "A", ["@ A 10.0.0.1"]),
    "a cluster IP of the other family": ("svc6.testns.svc", "AAAA", ["@ AAAA 1234:abcd::1"]),
    "both families, asked for IPv4": ("svc-dual-stack.testns.svc", "A", ["@ A 10.0.0.3"]),
    "both families, asked for IPv6": ("svc-dual-stack.testns.svc", "AAAA", ["@ AAAA 10::3"]),
    "a headless service": (
        "hdls1.testns.svc",
        "A",
        ["@ A 172.0.0.2", "@ A 172.0.0.3", "@ A 172.0.0.4", "@ A 172.0.0.5"],
    ),
    "a headless service, IPv6": ("hdls1.testns.svc", "AAAA", ["@ AAAA 5678:abcd::1", "@ AAAA 5678:abcd::"]),
    "a headless service without ports": ("hdlsprtls.testns.svc", "A", ["@ A 172.0.0.20"]),
    "endpoints that are not ready but published": ("published.testns.svc", "A", ["@ A 172.0.0.31"]),
    "an endpoint by its hostname": ("dup-name.hdls1.testns.svc", "A", ["@ A 172.0.0.4", "@ A 172.0.0.5"]),
    "an endpoint by its address": ("172-0-0-2.hdls1.testns.svc", "A", ["@ A 172.0.0.2"]),
    "an endpoint by its IPv6 address": ("5678-abcd--1.hdls1.testns.svc", "AAAA", ["@ AAAA 5678:abcd::1"]),
    "an IPv6 address that ends with colons": ("5678-abcd--0.hdls1.testns.svc", "AAAA", ["@ AAAA 5678:abcd::"]),
    "an endpoint of a service with a cluster IP": ("ep1a.svc1.testns.svc", "A", ["@ A 172.0.0.1"]),
    "a published endpoint that is not ready": ("db-0.published.testns.svc", "A", ["@ A 172.0.0.31"]),
    "addresses of a port's name": ("_http._tcp.svc1.testns.svc", "A", ["@ A 10.0.0.1"]),
    "SRV of a port": ("_http._tcp.svc1.testns.svc", "SRV", ["@ SRV 100 80 svc1.testns.svc"]),
    "SRV of both families": ("_http._tcp.svc-dual-stack.testns.svc", "SRV", ["@ SRV 50 80 svc-dual-stack.testns.svc"]),
    "SRV of a service with two ports": (
        "two-ports.testns.svc",
        "SRV",
        ["@ SRV 50 80 two-ports.testns.svc", "@ SRV 50 9090 two-ports.testns.svc"],
    ),
    "SRV of one port of two": ("_metrics._udp.two-ports.testns.svc", "SRV", ["@ SRV 100 9090 two-ports.testns.svc"]),
    "SRV of a headless service": (
        "_http._tcp.hdls1.testns.svc",
        "SRV",
        [
            "@ SRV 16 80 172-0-0-2.hdls1.testns.svc",
            "@ SRV 16 80 172-0-0-3.hdls1.testns.svc",
            "@ SRV 16 80 dup-name.hdls1.testns.svc",
            "@ SRV 16 80 5678-abcd--1.hdls1.testns.svc",
            "@ SRV 16 80 5678-abcd--0.hdls1.testns.svc",
        ],
    ),
    "SRV of an endpoint": ("ep1a.svc1.testns.svc", "SRV", ["@ SRV 100 80 ep1a.svc1.testns.svc"]),
    "a pod": ("10-240-0-1.testns.pod", "A", ["@ A 10.240.0.1"]),
    "a pod with IPv6": ("2001-db8--1.testns.pod", "AAAA", ["@ AAAA 2001:db8::1"]),
    "the version": ("dns-version", "TXT", ["@ TXT 1.1.0"]),
    "the name server": ("", "NS", ["@ NS ns.dns"]),
    "the name server's address": ("ns.dns", "A", ["@ A 192.0.2.53"]),
    "an alias outside": ("external.testns.svc", "CNAME", ["@ CNAME ext.interwebs.test"]),
    "an alias inside": (
        "to-service.testns.svc",
        "A",
        ["@ CNAME svc1.testns.svc.Cluster.Local", "svc1.testns.svc A 10.0.0.1"],
    ),
    "an alias of an alias": (
        "chain.testns.svc",
        "A",
        [
            "@ CNAME to-service.testns.svc",
            "to-service.testns.svc CNAME svc1.testns.svc.Cluster.Local",
            "svc1.testns.svc A 10.0.0.1",
        ],
    ),
    "an alias of itself": ("to-itself.testns.svc", "A", ["@ CNAME to-itself.testns.svc"]),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_the_answer_to(case: str) -> None:
    name, kind, expected = ANSWERS[case]
    found = find(lookups(ZONE), name, kind)
    assert found.exists
    assert [shown(one) for one in found.answer] == expected


NO_DATA = {
    "the domain": ("", "A"),
    "svc": ("svc", "A"),
    "pod": ("pod", "A"),
    "the name server's parent": ("dns", "A"),
    "a namespace with services": ("testns.svc", "A"),
    "a namespace without services": ("empty.svc", "A"),
    "a namespace below pod": ("testns.pod", "A"),
    "the other family": ("svc1.testns.svc", "AAAA"),
    "the other family of an endpoint": ("172-0-0-2.hdls1.testns.svc", "AAAA"),
    "the other family of a pod": ("10-240-0-1.testns.pod", "AAAA"),
    "another type of a service": ("svc1.testns.svc", "TXT"),
    "another type of the version": ("dns-version", "A"),
    "SOA below the domain": ("svc1.testns.svc", "SOA"),
    "NS below the domain": ("testns.svc", "NS"),
    "the protocol of a port": ("_tcp.svc1.testns.svc", "SRV"),
    "the protocol of a headless service's port": ("_tcp.hdls1.testns.svc", "A"),
    "SRV of a service without ports": ("portless.testns.svc", "SRV"),
    "SRV of endpoints without ports": ("hdlsprtls.testns.svc", "SRV"),
    "a service that has no address yet": ("pending.testns.svc", "A"),
}


@pytest.mark.parametrize("case", NO_DATA)
def test_without_records_but_there_is(case: str) -> None:
    found = find(lookups(ZONE), *NO_DATA[case])
    assert (found.exists, found.answer, found.additional, found.alias) == (True, (), (), "")


NO_NAME = {
    "an unknown service": ("svc0.testns.svc", "A"),
    "a service of an unknown namespace": ("svc1.other.svc", "A"),
    "an unknown namespace": ("other.svc", "NS"),
    "an unknown namespace below pod": ("other.pod", "A"),
    "an unknown name below the domain": ("foo", "NS"),
    "a name below the version": ("x.dns-version", "TXT"),
    "an unknown endpoint": ("bogus.hdls1.testns.svc", "A"),
    "an endpoint of an unknown service": ("bogus.svc0.testns.svc", "A"),
    "an endpoint that is not ready": ("172-0-0-9.svc1.testns.svc", "A"),
    "a headless service without endpoints": ("hdls-empty.testns.svc", "A"),
    "a headless service whose endpoints are not ready": ("starting.testns.svc", "A"),
    "the protocol of endpoints that are not ready": ("_tcp.starting.testns.svc", "A"),
    "a service that has endpoints only": ("orphan.testns.svc", "A"),
    "a port of another name": ("_https._tcp.svc1.testns.svc", "SRV"),
    "a port of another protocol": ("_http._udp.svc1.testns.svc", "SRV"),
    "a protocol without ports": ("_udp.svc1.testns.svc", "SRV"),
    "a port without underscores": ("http.tcp.svc1.testns.svc", "SRV"),
    "an empty port": ("_._tcp.svc1.testns.svc", "SRV"),
    "a wildcard": ("*.testns.svc", "A"),
    "a wildcard as port": ("*.*.svc1.testns.svc", "SRV"),
    "a name that is too deep": ("a._http._tcp.svc1.testns.svc", "SRV"),
    "a pod that is no address": ("blah.testns.pod", "A"),
    "a pod with numbers above 255": ("1-2-3-256.testns.pod", "A"),
    "a pod of an unknown namespace": ("1-2-3-4.other.pod", "A"),
    "a name below a pod": ("x.1-2-3-4.testns.pod", "A"),
    "a name below an alias": ("endpoint.external.testns.svc", "CNAME"),
    "a port of an alias": ("_http._tcp.external.testns.svc", "SRV"),
    "an alias of an address": ("to-address.testns.svc", "A"),
    "a name that a label with a dot spells": ("svc1.testns", "A"),
}


@pytest.mark.parametrize("case", NO_NAME)
def test_nowhere_is(case: str) -> None:
    found = find(lookups(ZONE), *NO_NAME[case])
    assert (found.exists, found.answer, found.alias) == (False, (), "")


def test_an_alias_of_nothing_gives_itself_and_says_that_the_target_is_not_there() -> None:
    found = find(lookups(ZONE), "to-nothing.testns.svc", "A")
    assert ([shown(one) for one in found.answer], found.exists) == (["@ CNAME nothing.testns.svc"], False)


def test_an_alias_outside_is_left_to_other_servers() -> None:
    found = find(lookups(ZONE), "external.testns.svc", "A")
    assert found.alias == "ext.interwebs.test"
    assert [shown(one) for one in found.answer] == ["@ CNAME ext.interwebs.test"]


def test_aliases_in_a_circle_end() -> None:
    made = Zone()
    for index in range(3):
        target = f"c{(index + 1) % 3}.testns.svc.{DOMAIN}"
        made.put_service(service(f"c{index}", ports=(), type="ExternalName", external_name=target))
    assert len(find(lookups(made), "c0.testns.svc", "A").answer) == 3


def test_a_chain_of_aliases_is_followed_for_ten_steps() -> None:
    made = Zone()
    for index in range(20):
        target = f"c{index + 1}.testns.svc.{DOMAIN}"
        made.put_service(service(f"c{index}", ports=(), type="ExternalName", external_name=target))
    assert len(find(lookups(made), "c0.testns.svc", "A").answer) == 10


@pytest.mark.parametrize(
    ("name", "addresses"),
    [
        ("_http._tcp.svc1.testns.svc", ["svc1.testns.svc A 10.0.0.1"]),
        (
            "_http._tcp.svc-dual-stack.testns.svc",
            ["svc-dual-stack.testns.svc A 10.0.0.3", "svc-dual-stack.testns.svc AAAA 10::3"],
        ),
        (
            "_http._tcp.hdls1.testns.svc",
            [
                "172-0-0-2.hdls1.testns.svc A 172.0.0.2",
                "172-0-0-3.hdls1.testns.svc A 172.0.0.3",
                "dup-name.hdls1.testns.svc A 172.0.0.4",
                "dup-name.hdls1.testns.svc A 172.0.0.5",
                "5678-abcd--1.hdls1.testns.svc AAAA 5678:abcd::1",
                "5678-abcd--0.hdls1.testns.svc AAAA 5678:abcd::",
            ],
        ),
    ],
)
def test_targets_of_srv_come_with_their_addresses(name: str, addresses: list[str]) -> None:
    assert [shown(one) for one in find(lookups(ZONE), name, "SRV").additional] == addresses


def test_records_live_as_long_as_the_settings_say_and_the_version_for_eight_hours() -> None:
    made = Lookups(ZONE, DOMAIN, ttl=17)
    assert find(made, "svc1.testns.svc", "A").answer[0].ttl == 17
    assert find(made, "dns-version", "TXT").answer[0].ttl == 28_800
    assert Lookups(ZONE, DOMAIN, ttl=900).soa().ttl == 300


def test_soa_has_the_zones_serial_and_is_never_kept() -> None:
    made = zone()
    made.serial = 1_499_347_823
    found = find(lookups(made), "", "SOA")
    assert found.answer == (Record(DOMAIN, RecordType.SOA, 5, "1499347823"),)
    assert not found.cacheable


def test_the_name_server_has_the_addresses_of_the_service_kube_dns() -> None:
    made = zone()
    made.put_service(service("kube-dns", "10.96.0.10", "fd00::a", namespace="kube-system"))
    assert [shown(one) for one in find(lookups(made), "", "NS").additional] == [
        "ns.dns A 10.96.0.10",
        "ns.dns AAAA fd00::a",
    ]
    assert [shown(one) for one in find(lookups(made), "ns.dns", "AAAA").answer] == ["@ AAAA fd00::a"]


REVERSE = {
    "a cluster IP": ("10.0.0.1", ["@ PTR svc1.testns.svc"]),
    "a cluster IP of the other family": ("10::3", ["@ PTR svc-dual-stack.testns.svc"]),
    "an endpoint with a hostname": ("172.0.0.1", ["@ PTR ep1a.svc1.testns.svc"]),
    "an endpoint without one": ("172.0.0.2", ["@ PTR 172-0-0-2.hdls1.testns.svc"]),
    "an endpoint with IPv6": ("5678:abcd::", ["@ PTR 5678-abcd--0.hdls1.testns.svc"]),
    "a published endpoint": ("172.0.0.31", ["@ PTR db-0.published.testns.svc"]),
}


@pytest.mark.parametrize("case", REVERSE)
def test_the_name_of(case: str) -> None:
    address, expected = REVERSE[case]
    found = lookups(ZONE).reverse(address)
    assert found is not None
    assert [shown(one) for one in found.answer] == expected


@pytest.mark.parametrize("address", ["172.0.0.30", "172.0.0.40", "192.0.2.1"])
def test_addresses_that_are_not_published_are_left_to_other_servers(address: str) -> None:
    assert lookups(ZONE).reverse(address) is None


def test_an_address_behind_two_services_has_two_names() -> None:
    made = zone()
    made.put_slice(endpoint_slice("hdls-empty-a", "hdls-empty", endpoint("172.0.0.2")))
    found = lookups(made).reverse("172.0.0.2")
    assert found is not None
    assert sorted(shown(one) for one in found.answer) == [
        "@ PTR 172-0-0-2.hdls-empty.testns.svc",
        "@ PTR 172-0-0-2.hdls1.testns.svc",
    ]


def test_ports_without_a_protocol_are_of_tcp() -> None:
    made = Zone()
    made.put_service(service("web", "10.0.0.1", ports=(("http", "", 80),)))
    made.put_service(service("db", "None"))
    part = endpoint_slice("db-a", "db", endpoint("10.0.0.2"), ports=(("sql", "UDP", 5432), ("http", "", 80)))
    made.put_slice(part)
    assert find(lookups(made), "_http._tcp.web.testns.svc", "SRV").answer
    assert find(lookups(made), "_http._tcp.db.testns.svc", "SRV").answer
    assert find(lookups(made), "_sql._udp.db.testns.svc", "SRV").answer
    assert not find(lookups(made), "_sql._tcp.db.testns.svc", "SRV").exists


def test_upper_case_in_objects_is_found_in_lower_case() -> None:
    made = Zone()
    made.put_service(service("db", "None", ports=(("SQL", "TCP", 5432),)))
    made.put_slice(endpoint_slice("db-a", "db", endpoint("10.0.0.1", "DB-0"), ports=(("SQL", "TCP", 5432),)))
    assert find(lookups(made), "db-0.db.testns.svc", "A").exists
    assert find(lookups(made), "_sql._tcp.db.testns.svc", "SRV").exists
