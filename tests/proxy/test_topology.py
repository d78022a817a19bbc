"""Which endpoints are used: the cases of kube-proxy's own tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from bayplan.proxy.objects import Endpoint, PortName, ServicePort
from bayplan.proxy.topology import usable_endpoints

CLUSTER: dict[str, Any] = {}
INTERNAL = {"internal_local": True}
EXTERNAL = {"external_local": True, "node_port": 8080}
INTERNAL_ONLY = {"internal_local": True, "node_port": 8080}
BOTH = {"internal_local": True, "external_local": True, "node_port": 8080}

READY = {"ready": True, "serving": True}
ENDING = {"ready": False, "serving": True, "terminating": True}
UNREADY = {"ready": False, "serving": False}


@dataclass
class Case:
    """A node in zone-a, and endpoints that are named by letters in alphabetical order."""

    name: str
    port: dict[str, Any]
    endpoints: list[dict[str, Any]]
    cluster: str = ""
    local: str = ""
    zone: str = "zone-a"
    node: str = "node-0"
    anywhere: bool | None = None
    """None: if there are any of both."""


def zone(*names: str, **more: Any) -> dict[str, Any]:
    return {**READY, "zones": frozenset(f"zone-{one}" for one in names), **more}


def hinted(zone_name: str, node: str) -> dict[str, Any]:
    return zone(zone_name, nodes=frozenset((node,)))


HERE = {**READY, "local": True}
HINTED = [hinted("a", "node-1"), hinted("b", "node-2"), hinted("c", "node-3"), hinted("a", "node-4")]

CASES = [
    Case("hints for the node's zone are used", CLUSTER, [zone("a"), zone("b"), zone("c"), zone("a")], "AD"),
    Case(
        "the external policy Local ignores zones",
        EXTERNAL,
        [zone("a", local=True), zone("b", local=True), zone("c"), zone("a")],
        "AD",
        "AB",
    ),
    Case(
        "the internal policy Local ignores zones",
        INTERNAL_ONLY,
        [zone("a", local=True), zone("b", local=True), zone("c"), zone("a")],
        "AD",
        "AB",
    ),
    Case("without a zone of the node hints are ignored", CLUSTER, [zone("a")], "A", zone=""),
    Case("without endpoints for the zone hints are ignored", CLUSTER, [zone("a")], "A", zone="zone-b"),
    Case(
        "endpoints that are not ready are not used",
        CLUSTER,
        [zone("a"), zone("b"), zone("c"), zone("a", ready=False)],
        "A",
    ),
    Case(
        "endpoints of the zone that are not ready do not count",
        CLUSTER,
        [zone("a", ready=False), zone("b"), zone("c"), zone("a", ready=False)],
        "BC",
    ),
    Case("one missing hint turns them off", CLUSTER, [zone("a"), zone("b"), READY, zone("a")], "ABCD"),
    Case(
        "an endpoint may be for several zones",
        CLUSTER,
        [zone("a", "b", "c"), zone("b", "c"), zone("b", "d"), zone("c")],
        "ABD",
        zone="zone-c",
    ),
    Case("hints for the node come before those for the zone", CLUSTER, HINTED, "A", node="node-1"),
    Case(
        "one missing hint turns off those for nodes, too",
        CLUSTER,
        [HINTED[0], READY, HINTED[2], HINTED[3]],
        "ABCD",
        node="node-1",
    ),
    Case("without endpoints for the node those for the zone are used", CLUSTER, HINTED, "AD"),
    Case(
        "both policies together",
        EXTERNAL,
        [zone("a", local=True), zone("b", local=True), zone("a"), zone("b")],
        "AC",
        "AB",
    ),
    Case("a service without endpoints", INTERNAL, []),
    Case("only other nodes have endpoints", INTERNAL, [READY, READY], anywhere=True),
    Case("all endpoints are here", INTERNAL, [HERE, HERE], local="AB"),
    Case("some endpoints are here", INTERNAL, [HERE, READY], local="A"),
    Case("no endpoint is ready", CLUSTER, [UNREADY, UNREADY]),
    Case("some are ready", CLUSTER, [UNREADY, READY], "B"),
    Case("all terminate", CLUSTER, [{**ENDING, "local": True}, ENDING], "AB"),
    Case("those that terminate give way to ready ones", CLUSTER, [ENDING, READY], "B"),
    Case("those that terminate and do not serve are not used", CLUSTER, [{**UNREADY, "terminating": True}]),
    Case("internal Local, external Cluster", INTERNAL_ONLY, [HERE, READY], "AB", "A"),
    Case("internal Cluster, external Local", EXTERNAL, [HERE, READY], "AB", "A"),
    Case("internal and external Local", BOTH, [HERE, READY], "AB", "A"),
    Case("internal and external Local, all on other nodes", BOTH, [READY, READY], "AB"),
    Case("internal and external Local, all terminate on other nodes", BOTH, [ENDING, ENDING], "AB"),
    Case(
        "each policy falls back to those that terminate on its own",
        EXTERNAL,
        [READY, {**UNREADY, "local": True}, {**ENDING, "local": True}, ENDING],
        "A",
        "C",
    ),
    Case("the external policy means nothing without a way in", {"external_local": True}, [READY, HERE], "AB"),
    Case("an internal service of policy Local uses none of others", INTERNAL, [READY, HERE], local="B"),
]


def endpoint(index: int, facts: dict[str, Any]) -> Endpoint:
    usual = {"local": False, "terminating": False, "zones": frozenset(), "nodes": frozenset()}
    return Endpoint(address=f"10.0.0.{index}", port=80, **{**usual, **facts})


def letters(endpoints: tuple[Endpoint, ...]) -> str:
    return "".join(sorted(chr(ord("A") + int(one.address.rpartition(".")[2])) for one in endpoints))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_endpoints_are_chosen(case: Case) -> None:
    usual = {"node_port": 0, "external_local": False, "internal_local": False}
    port = ServicePort(
        name=PortName("ns", "svc", "", "tcp"),
        cluster_ip="10.96.0.1",
        port=80,
        external_ips=(),
        load_balancer_ips=(),
        source_ranges=(),
        affinity_seconds=0,
        **{**usual, **case.port},
    )
    endpoints = [endpoint(index, facts) for index, facts in enumerate(case.endpoints)]
    found = usable_endpoints(port, endpoints, case.node, case.zone)
    assert (letters(found.cluster), letters(found.local)) == (case.cluster, case.local)
    assert letters(found.reachable) == "".join(sorted({*case.cluster, *case.local}))
    expected = bool(case.cluster or case.local) if case.anywhere is None else case.anywhere
    assert found.anywhere is expected
