"""The same as on a model, in a real kernel; and what is read from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from bayplan.proxy.errors import RulesError
from bayplan.proxy.families import IPV4, IPV6, Family
from bayplan.proxy.rules.desired_table import DesiredTable
from bayplan.proxy.rules.table_options import TableOptions, local_by_interface
from bayplan.proxy.rules.transactions import deletion, difference, whole
from bayplan.proxy.system.kernel import NetlinkKernel
from bayplan.proxy.system.kernel_tables import KernelTables
from bayplan.proxy.system.machine_addresses import machine_addresses, node_port_addresses
from bayplan.proxy.system.nft import NftLibrary, NftProgram
from tests.namespaces import Namespace, needs_namespaces
from tests.proxy.histories import OPTIONS, Step, histories
from tests.proxy.objects import NODE, endpoint, endpoint_slice, service

pytestmark = [needs_namespaces, pytest.mark.xdist_group("proxy-namespaces")]


@pytest.fixture
def place() -> Iterator[Namespace]:
    with Namespace("place") as made:
        yield made


def listed(place: Namespace) -> dict[str, Any]:
    """The table without what differs from one time to the next: handles and orders."""
    found: dict[str, Any] = {}
    for one in json.loads(place.command("nft", "-j", "list", "table", "ip", "kube-proxy"))["nftables"]:
        ((kind, value),) = one.items()
        value.pop("handle", None)
        if kind == "rule":
            found.setdefault(f"rules of {value['chain']}", []).append(value["expr"])
        elif kind != "metainfo":
            if "elem" in value:
                value["elem"] = sorted(value["elem"], key=json.dumps)
            found[f"{kind} {value['name']}"] = value
    return found


@settings(deadline=None, max_examples=40, derandomize=True, suppress_health_check=list(HealthCheck))
@given(histories())
def test_differences_lead_to_the_same_table_as_a_whole_one(history: list[list[Step]]) -> None:
    with Namespace("kept") as kept, Namespace("fresh") as fresh:
        kernel, loop = kept.run(NetlinkKernel), kept.loop()
        try:
            library = loop.run(_library())
            desired, stale = DesiredTable(OPTIONS), set[str]()
            desired.changes()
            loop.run(library.apply(whole(IPV4, kernel.names(IPV4), desired.items()).text))
            for batch in history:
                for step in batch:
                    step(desired)
                changes = desired.changes()
                transaction = difference(IPV4, changes.before, changes.after)
                loop.run(library.apply(transaction.text))
                stale = {*stale, *transaction.stale_chains} - {item.name for item in desired.items()}
            loop.run(library.apply(deletion(IPV4, sorted(stale)).text))
            fresh.command("nft", "-f", "-", stdin=whole(IPV4, fresh_names(fresh), desired.items()).text)
            assert listed(kept) == listed(fresh)
            loop.run(library.apply(whole(IPV4, kernel.names(IPV4), desired.items()).text))
            assert listed(kept) == listed(fresh)
            library.close()
        finally:
            loop.close()
            kernel.close()


async def _library() -> NftLibrary:
    return NftLibrary()


def fresh_names(place: Namespace) -> Any:
    kernel = place.run(KernelTables)
    try:
        return kernel.names(IPV4)
    finally:
        kernel.close()


def test_names_and_fingerprints_show_what_is_there(place: Namespace) -> None:
    kernel = place.run(KernelTables)
    assert (kernel.names(IPV4).chains, dict(kernel.names(IPV4).sets)) == (frozenset(), {})
    assert kernel.fingerprint(IPV4) == b""
    desired = DesiredTable(OPTIONS)
    desired.put_service(service("web", "10.96.0.1", affinity=7))
    desired.put_slice(endpoint_slice("web", endpoint("10.1.0.1", local=True)))
    desired.changes()
    place.command("nft", "-f", "-", stdin=whole(IPV4, kernel.names(IPV4), desired.items()).text)
    place.command("nft", "add table ip other; add chain ip other mine; add set ip other s { type ipv4_addr; }")
    names = kernel.names(IPV4)
    assert names.chains == {item.name for item in desired.items() if item.kind == 0}
    assert names.sets.keys() == {item.name for item in desired.items() if item.kind == 1}
    assert {one.timeout_seconds for name, one in names.sets.items() if name.startswith("affinity-")} == {7}
    assert {name for name, one in names.sets.items() if one.is_map} == {
        "firewall-ips",
        "no-endpoint-nodeports",
        "no-endpoint-services",
        "service-ips",
        "service-nodeports",
    }
    assert kernel.names(IPV6).chains == frozenset()
    affinity = next(name for name in names.sets if name.startswith("affinity-"))
    seen = {kernel.fingerprint(IPV4)}
    number = kernel.generation()
    for command, is_change in (
        ("add chain ip other second", False),
        (f"add element ip kube-proxy {affinity} {{ 192.0.2.1 }}", False),
        ("add rule ip kube-proxy services accept", True),
        ("delete element ip kube-proxy cluster-ips { 10.96.0.1 }", True),
        ("add element ip kube-proxy cluster-ips { 10.96.0.2 }", True),
        ("add chain ip kube-proxy mine", True),
        ("add set ip kube-proxy mine { type ipv4_addr; }", True),
        ("delete table ip kube-proxy", True),
    ):
        place.command("nft", command)
        number += 1
        found = kernel.fingerprint(IPV4)
        assert (found not in seen) is is_change, command
        assert kernel.generation() == number
        seen.add(found)
    kernel.close()


@pytest.mark.parametrize("family", [IPV4, IPV6], ids=lambda family: family.name)
def test_the_kernel_takes_every_kind_of_rule_of_both_families(place: Namespace, family: Family) -> None:
    is_ipv6 = family is IPV6
    cluster, pod, outside = (
        ("fd96::1", "fd00::2", "2001:db8::9") if is_ipv6 else ("10.96.0.1", "10.1.0.2", "203.0.113.9")
    )
    ranges = ("fd96::/112", "2001:db8::/32") if is_ipv6 else ("10.96.0.0/16", "192.0.2.0/24")
    ports = tuple((protocol.lower(), protocol, 80) for protocol in ("TCP", "UDP", "SCTP"))
    options = TableOptions(
        family=family,
        node_name=NODE,
        node_address=outside,
        node_port_addresses=(outside,),
        service_ranges=ranges,
        local_traffic=local_by_interface("veth*"),
    )
    desired = DesiredTable(options)
    for name, affinity in (("plain", 0), ("sticky", 60)):
        desired.put_service(
            service(
                name,
                cluster,
                ports=ports,
                node_ports=(30001, 30002, 30003),
                balancers=(outside,),
                affinity=affinity,
                external_traffic_policy="Local",
                load_balancer_source_ranges=ranges,
            )
        )
        desired.put_slice(endpoint_slice(name, endpoint(pod, local=True), ports=ports))
    desired.changes()
    place.command("nft", "-f", "-", stdin=whole(family, fresh_names(place), desired.items()).text)
    found = place.command("nft", "list", "table", family.nft, "kube-proxy")
    target = f"[{pod}]:80" if is_ipv6 else f"{pod}:80"
    for protocol in ("tcp", "udp", "sctp"):
        assert f"{cluster} . {protocol} . 80 : goto service-" in found
        assert f"{outside} . {protocol} . 80 : goto firewall-" in found
        assert f"{protocol} . 3000" in found
        assert found.count(f"meta l4proto {protocol} dnat to {target}") == 1


def test_refused_transactions_change_nothing(place: Namespace) -> None:
    loop = place.loop()
    library = loop.run(_library())
    try:
        for writer in (library, NftProgram()):
            with pytest.raises(RulesError, match="No such file or directory"):
                loop.run(writer.apply("add table ip a\nadd rule ip a nowhere accept\n"))
            assert place.command("nft", "list", "tables") == ""
        loop.run(library.apply("add table ip a\n"))
        loop.run(NftProgram().apply("add table ip b\n"))
        assert place.command("nft", "list", "tables") == "table ip a\ntable ip b\n"
    finally:
        library.close()
        loop.close()


def test_addresses_of_interfaces_are_found(place: Namespace) -> None:
    place.command("ip", "link", "set", "lo", "up")
    place.command("ip", "address", "add", "192.0.2.1/24", "dev", "lo")
    place.command("ip", "address", "add", "10.0.0.1", "peer", "10.0.0.2", "dev", "lo")
    place.command("ip", "address", "add", "2001:db8::1/64", "dev", "lo", "nodad")
    four, six = (place.run(lambda family=family: machine_addresses(family)) for family in (IPV4, IPV6))  # type: ignore[misc]
    assert sorted(four) == ["10.0.0.1", "127.0.0.1", "192.0.2.1"]
    assert sorted(six) == ["2001:db8::1", "::1"]
    ranges = ["192.0.0.0/16", "10.0.0.1/32", "2001:db8::/32"]
    assert node_port_addresses(IPV4, ranges, four) == ("10.0.0.1", "192.0.2.1")
    assert node_port_addresses(IPV6, ranges, six) == ("2001:db8::1",)
    assert node_port_addresses(IPV6, ranges[:2], six) is None
    assert node_port_addresses(IPV4, ["0.0.0.0/0", "10.0.0.1/32"], four) is None
    assert node_port_addresses(IPV4, ["172.16.0.0/12"], four) == ()
