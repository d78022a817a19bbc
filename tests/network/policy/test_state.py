"""Which connections the tables of two nodes let pass, held against the reference evaluator; and that changes lead where a new start leads."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.api.types import core_v1, networking_v1
from bayplan.network.policy.addresses import Family
from tests.network.policy import objects as make
from tests.network.policy.interpreter import Connection
from tests.network.policy.objects import apps, block, from_namespaces, from_pods, port, selector
from tests.network.policy.reference import allowed
from tests.network.policy.world import (
    BANK,
    OUTSIDE,
    PORTS,
    SHOP,
    TELLER,
    WEB,
    WORLD,
    Node,
    nodes_with,
    passes,
)


def pairs() -> list[tuple[str, str]]:
    """Pairs of addresses of one family, of which at least one is a pod's."""
    pods = [one for one in WORLD if isinstance(one, core_v1.Pod)]
    found: list[tuple[str, str]] = []
    for index in (0, 1):
        addresses = [*(one.status.pod_ips[index].ip for one in pods), OUTSIDE[index]]
        found += [(a, b) for a, b in itertools.product(addresses, addresses) if {a, b} != {OUTSIDE[index]}]
    return found


PROBES = ((80, "TCP"), (8080, "TCP"), (90, "TCP"), (53, "UDP"), (80, "UDP"), (80, "SCTP"))


def expect_as_reference(nodes: Sequence[Node], policies: Sequence[networking_v1.NetworkPolicy]) -> set[bool]:
    """Compare all probes between all pairs. Returns which answers there were."""
    pods = [one for one in WORLD if isinstance(one, core_v1.Pod)]
    answers = set()
    for (source, target), (number, protocol) in itertools.product(pairs(), PROBES):
        expected = allowed(source, target, number, protocol, policies, pods, (SHOP, BANK))
        assert passes(nodes, source, target, number, protocol) is expected, (source, target, number, protocol)
        answers.add(expected)
    return answers


CASES: dict[str, list[networking_v1.NetworkPolicy]] = {
    "deny all ingress": [make.policy("deny", ingress=[])],
    "deny all egress": [make.policy("deny", egress=[])],
    "deny both directions": [make.policy("deny", ingress=[], egress=[])],
    "types default to ingress": [make.policy("deny", types=())],
    "types default to both where there are egress rules": [
        make.policy("both", types=(), egress=[([from_pods("db")], [])])
    ],
    "rules of other types than policyTypes do not count": [
        make.policy("egress", types=("Egress",), ingress=[make.EVERYTHING])
    ],
    "an empty rule allows everything, beside a denial": [
        make.policy("deny", ingress=[]),
        make.policy("allow", apps("web"), ingress=[make.EVERYTHING]),
    ],
    "peers by pods of the own namespace": [make.policy("p", apps("web"), ingress=[([from_pods("api", "teller")], [])])],
    "peers by namespaces": [make.policy("p", ingress=[([from_namespaces(selector({"team": "red"}))], [])])],
    "peers by pods and namespaces": [
        make.policy("p", ingress=[([from_namespaces(selector({"team": "red"}), selector({"tier": "back"}))], [])])
    ],
    "peers of several kinds are a union": [
        make.policy(
            "p",
            ingress=[([from_pods("api"), from_namespaces(selector({"team": "red"})), block("198.51.100.0/24")], [])],
        )
    ],
    "selectors with expressions": [
        make.policy(
            "p",
            selector({}, ("app", "NotIn", ("db",)), ("tier", "DoesNotExist", ())),
            ingress=[([from_namespaces(selector({}, ("team", "Exists", ()), ("team", "NotIn", ("red",))))], [])],
        )
    ],
    "a number, a range and a protocol": [
        make.policy("p", ingress=[([], [port(80), port(8000, end=9000), port(None, "UDP")])])
    ],
    "SCTP is not TCP": [make.policy("p", ingress=[([], [port(80, "SCTP")])])],
    "a named port of the server, for ingress": [make.policy("p", ingress=[([], [port("http")])])],
    "a named port of the server, for egress": [
        make.policy("p", egress=[([from_pods(), from_namespaces(selector())], [port("http"), port("dns", "UDP")])])
    ],
    "a name with another protocol": [make.policy("p", ingress=[([], [port("http", "UDP")])])],
    "blocks with exceptions": [
        make.policy(
            "p", ingress=[([block("10.0.0.0/8", "10.2.0.0/16", "10.1.0.4/31"), block("fd00::/8", "fd02::/16")], [])]
        )
    ],
    "an exception of one block that another one has": [
        make.policy("p", egress=[([block("10.0.0.0/8", "10.2.0.0/16"), block("10.2.0.3/32")], [])])
    ],
    "the whole world by block is of one family": [make.policy("p", ingress=[([block("0.0.0.0/0")], [])])],
    "overlapping policies are a union": [
        make.policy("a", apps("web"), ingress=[([from_pods("api")], [port(80)])]),
        make.policy("b", apps("web"), ingress=[([from_pods("db")], [port(8080)])]),
        make.policy("c", ingress=[([block("198.51.100.7/32")], [])]),
    ],
    "policies of two namespaces": [
        make.policy("p", ingress=[]),
        make.policy("p", namespace="bank", egress=[([from_namespaces(selector())], [port(80)])]),
    ],
}


@pytest.mark.parametrize("name", CASES)
def test_connections_pass_as_policies_say(name: str) -> None:
    nodes = nodes_with(*WORLD, *CASES[name])
    assert expect_as_reference(nodes, CASES[name]) == {True, False}


def test_without_policies_all_connections_pass_by_two_look_ups() -> None:
    nodes = nodes_with(*WORLD)
    assert expect_as_reference(nodes, []) == {True}
    assert not nodes[0].kernels[Family.IPV4].sets["ingress"]


def labels() -> st.SearchStrategy[Any]:
    names = ("web", "api", "db", "teller", "vault", "none")
    by_names = st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)
    return st.one_of(
        st.just(selector()),
        by_names.map(lambda some: apps(*some)),
        by_names.map(lambda some: selector({}, ("app", "NotIn", some))),
        st.sampled_from(("Exists", "DoesNotExist")).map(lambda operator: selector({}, ("tier", operator, ()))),
    )


def teams() -> st.SearchStrategy[Any]:
    return st.one_of(
        st.just(selector()), st.sampled_from(("red", "blue", "none")).map(lambda one: selector({"team": one}))
    )


BLOCKS = [
    block("0.0.0.0/0"), block("::/0"), block("10.0.0.0/8", "10.1.0.0/16"), block("10.1.0.0/16", "10.1.0.2/32", "10.1.0.4/30"),
    block("10.1.0.2/32"), block("fd00::/8", "fd02::/16"), block("fd02::3/128"), block("198.51.100.0/24"), block("0.0.0.0/0", "10.0.0.0/8"),
]  # fmt: skip
PEERS = st.one_of(
    labels().map(lambda pods: networking_v1.NetworkPolicyPeer(pod_selector=pods)),
    st.builds(from_namespaces, teams(), st.none() | labels()),
    st.sampled_from(BLOCKS),
)
PORTS_OF_RULES = st.one_of(
    st.sampled_from(
        [port(80), port(53, "UDP"), port(80, "SCTP"), port(None, "UDP"), port(None), port(70, end=8080), port(8080)]
    ),
    st.sampled_from([port("http"), port("dns", "UDP"), port("http", "UDP"), port("nobody")]),
)
RULES = st.lists(st.tuples(st.lists(PEERS, max_size=3), st.lists(PORTS_OF_RULES, max_size=3)), max_size=2)
POLICIES = st.builds(
    lambda name, namespace, pods, ingress, egress: make.policy(
        name, pods, namespace=namespace, ingress=ingress, egress=egress
    ),
    st.sampled_from(("a", "b", "c")),
    st.sampled_from(("shop", "bank")),
    labels(),
    st.none() | RULES,
    st.none() | RULES,
).filter(lambda policy: bool(policy.spec.policy_types))


def by_key(policies: Sequence[networking_v1.NetworkPolicy]) -> list[networking_v1.NetworkPolicy]:
    """The last one of each name counts."""
    return list({(one.metadata.namespace, one.metadata.name): one for one in policies}.values())


@settings(max_examples=150, deadline=None)
@given(st.lists(POLICIES, max_size=4).map(by_key))
def test_any_policies_are_judged_as_the_reference_says(policies: list[networking_v1.NetworkPolicy]) -> None:
    expect_as_reference(nodes_with(*WORLD, *policies), policies)


def test_one_label_of_a_pod_is_one_element_of_a_set() -> None:
    node = nodes_with(*WORLD, make.policy("p", apps("web"), ingress=[([from_pods("api")], [])]))[0]
    node.put(make.pod("db", "10.2.0.3", node="there", labels={"app": "api"}))
    (transaction,) = node.sync()
    assert transaction.count("\n") == 1
    assert transaction.startswith("add element ip bayplan-network-policy pods-")
    assert transaction.endswith(" { 10.2.0.3 }\n")


def test_changes_that_do_not_matter_cost_nothing() -> None:
    node = nodes_with(*WORLD, make.policy("p", apps("web"), ingress=[([from_pods("api")], [])]))[0]
    node.put(make.pod("db", "10.2.0.3", "fd02::3", node="there", labels={"app": "db", "version": "2"}, ports=PORTS))
    node.put(make.policy("other", namespace="empty", ingress=[]))
    assert node.sync() == []


def test_equal_peers_in_another_order_share_a_set_as_long_as_one_needs_it() -> None:
    first = make.policy("p", apps("web"), ingress=[([from_pods("api"), from_pods("db")], [])])
    second = make.policy("q", apps("api"), ingress=[([from_pods("db"), from_pods("api")], [])])
    node = nodes_with(*WORLD, first, second)[0]
    kernel = node.kernels[Family.IPV4]
    assert len([name for name in kernel.sets if name.startswith("pods-")]) == 1
    node.remove(first)
    node.sync()
    assert node.passes(Connection("10.2.0.3", "10.1.0.2", port=80))
    node.remove(second)
    node.sync()
    assert not [name for name in kernel.sets if name.startswith("pods-")]


def test_pods_with_equal_policies_share_a_chain() -> None:
    node = nodes_with(*WORLD, make.policy("p", ingress=[([from_pods()], [])]))[0]
    ingress = node.kernels[Family.IPV4].sets["ingress"]
    assert sorted(ingress) == ["10.1.0.1", "10.1.0.2"]
    assert len(set(ingress.values())) == 1


@pytest.mark.parametrize(
    "unjudged",
    [
        make.pod("web", "10.1.0.1", "fd01::1", host_network=True),
        make.pod("web", "10.1.0.1", "fd01::1", phase="Succeeded"),
        make.pod("web", "10.1.0.1", "fd01::1", phase="Failed"),
    ],
    ids=["host network", "succeeded", "failed"],
)
def test_pods_without_a_network_of_their_own_are_neither_isolated_nor_peers(unjudged: core_v1.Pod) -> None:
    deny, allow = make.policy("p", ingress=[]), make.policy("q", apps("db"), ingress=[([from_pods("web")], [])])
    nodes = nodes_with(*WORLD, unjudged, deny, allow)
    assert passes(nodes, "10.2.0.4", "10.1.0.1", 80, "TCP")
    assert not passes(nodes, "10.1.0.1", "10.2.0.3", 80, "TCP")
    assert not passes(nodes, "10.1.0.2", "10.2.0.3", 80, "TCP")


def test_of_pods_with_one_address_the_newest_has_it() -> None:
    old = make.pod("web", "10.1.0.1", created="2026-01-01T00:00:00Z")
    new = make.pod("web2", "10.1.0.1", labels={"app": "open"}, created="2026-01-02T00:00:00Z")
    for order in ((old, new), (new, old)):
        nodes = nodes_with(SHOP, BANK, TELLER, *order, make.policy("p", apps("web"), ingress=[]))
        assert passes(nodes, "10.2.0.4", "10.1.0.1", 80, "TCP")
    nodes[0].remove(new)
    nodes[0].sync()
    assert not passes(nodes, "10.2.0.4", "10.1.0.1", 80, "TCP")


def test_an_address_that_goes_to_another_namespace_is_no_peer_of_the_first_one_any_more() -> None:
    old = make.pod("api", "10.1.0.2", created="2026-01-01T00:00:00Z")
    new = make.pod("api", "10.1.0.2", namespace="bank", created="2026-01-02T00:00:00Z")
    nodes = nodes_with(SHOP, BANK, WEB, old, make.policy("p", apps("web"), ingress=[([from_pods("api")], [])]))
    assert passes(nodes, "10.1.0.2", "10.1.0.1", 80, "TCP")
    for node in nodes:
        node.put(new)
        node.sync()
    assert not passes(nodes, "10.1.0.2", "10.1.0.1", 80, "TCP")


def test_a_port_that_nobody_has_is_named_until_a_pod_has_it() -> None:
    node = nodes_with(*WORLD, make.policy("p", apps("web"), ingress=[([], [port("grpc"), port("http")])]))[0]
    assert node.state.problems() == [
        "NetworkPolicy shop/p: no pod has a TCP port named 'grpc', so its ingress rule allows nothing until one has"
    ]
    assert not node.passes(Connection("10.2.0.4", "10.1.0.1", port=9000))
    node.put(make.pod("web", "10.1.0.1", "fd01::1", ports=(("grpc", "TCP", 9000), ("http", "TCP", 80))))
    node.sync()
    assert node.state.problems() == []
    assert node.passes(Connection("10.2.0.4", "10.1.0.1", port=9000))


def test_icmp_passes_rules_without_ports_only() -> None:
    ping = Connection("10.2.0.4", "10.1.0.1", "icmp")
    for ports, expected in (((), True), ((port(None),), False)):
        policy = make.policy("p", apps("web"), ingress=[([from_namespaces(selector())], ports)])
        assert nodes_with(*WORLD, policy)[0].passes(ping) is expected
