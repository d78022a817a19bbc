"""Changes lead to the tables that a new start makes, in any order and however many are brought into the kernel at once."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from bayplan.api.types import core_v1, networking_v1
from bayplan.network.policy.addresses import Family
from tests.network.policy import objects as make
from tests.network.policy.objects import apps, block, from_namespaces, from_pods, port, selector
from tests.network.policy.world import BANK, NODES, PORTS, SHOP, Node

NAMES = ("web", "api", "db")
ADDRESSES = ((), ("10.1.0.1",), ("10.1.0.1", "fd01::1"), ("10.1.0.2", "fd01::2"), ("10.1.0.3", "fd01::3"))
PEERS = (
    from_pods(), from_pods("api"), from_pods("web", "db"), from_namespaces(selector()), from_namespaces(selector({"team": "red"})),
    from_namespaces(selector({"team": "blue"}), apps("db")), block("10.0.0.0/8", "10.1.0.2/32"), block("fd01::/64"), block("0.0.0.0/0"),
)  # fmt: skip
SOME_PORTS = (port(80), port(90, end=99), port(53, "UDP"), port("http"), port("dns", "UDP"), port("nobody"))


def any_pod(chance: random.Random) -> core_v1.Pod:
    return make.pod(
        chance.choice(("one", "two", "three", "four")),
        *chance.choice(ADDRESSES),
        namespace=chance.choice(("shop", "shop", "bank")),
        node=chance.choice(NODES),
        labels={"app": chance.choice(NAMES)},
        ports=chance.choice(((), PORTS, (("http", "TCP", 8080),))),
        phase=chance.choice(("Running", "Running", "Running", "Succeeded")),
        created=chance.choice(("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")),
    )


def any_policy(chance: random.Random) -> networking_v1.NetworkPolicy:
    def rules() -> list[make.Rule]:
        return [
            (chance.sample(PEERS, chance.randint(0, 2)), chance.sample(SOME_PORTS, chance.randint(0, 2)))
            for _ in range(chance.randint(0, 2))
        ]

    return make.policy(
        chance.choice("abcd"),
        chance.choice((selector(), apps("web"), apps("api", "db"))),
        namespace=chance.choice(("shop", "shop", "bank")),
        ingress=rules() if chance.random() < 0.7 else None,
        egress=rules() if chance.random() < 0.5 else None,
        types=None,
    )


def any_namespace(chance: random.Random) -> core_v1.Namespace:
    return chance.choice((SHOP, BANK, make.namespace("shop", team="red"), make.namespace("bank", team="blue")))


THINGS: list[Callable[[random.Random], Any]] = [any_pod, any_pod, any_pod, any_policy, any_policy, any_namespace]
NETWORKS = (("10.1.0.0/24",), ("10.1.0.0/24", "fd01::/64"), ())


def test_changes_lead_to_the_tables_of_a_new_start() -> None:
    seen: set[str] = set()
    for seed in range(60):
        seen |= things_seen(random.Random(seed))
    assert seen >= {"pods", "named", "local", "blocks", "starting-ingress", "starting-egress"}


def things_seen(chance: random.Random) -> set[str]:
    """Play random changes. Returns which kinds of sets and chains there were."""
    seen: set[str] = set()
    node = Node("here")
    known: dict[tuple[str, str, str], Any] = {}
    networks: tuple[str, ...] = ()
    for _ in range(80):
        thing = chance.choice(THINGS)(chance)
        verb = chance.choices(("put", "remove", "networks"), (8, 2, 1))[0]
        match verb:
            case "put":
                node.put(thing)
                known[_key(thing)] = thing
            case "remove":
                node.remove(thing)
                known.pop(_key(thing), None)
            case "networks":
                networks = chance.choice(NETWORKS)
                node.state.set_pod_networks(networks)
        if chance.random() < 0.6:
            node.sync()
            expect_as_new_start(node, list(known.values()), networks)
            seen.update(name.partition("-")[0] for one in node.kernels.values() for name in one.sets)
            seen.update(name for one in node.kernels.values() for name, rules in one.chains.items() if rules)
    return seen


def expect_as_new_start(node: Node, known: list[Any], networks: tuple[str, ...]) -> None:
    fresh = Node("here")
    fresh.put(*reversed(known))
    fresh.state.set_pod_networks(networks)
    fresh.start()
    assert node.kernels == fresh.kernels
    assert sorted(node.state.problems()) == sorted(fresh.state.problems())
    assert node.state.isolated == fresh.state.isolated == sum(isolated(one) for one in node.kernels.values())
    assert node.state.policies == fresh.state.policies
    assert node.sync() == []


def isolated(kernel: Any) -> int:
    return len(kernel.sets["ingress"] | kernel.sets["egress"])


def _key(one: Any) -> tuple[str, str, str]:
    return type(one).__name__, one.metadata.namespace, one.metadata.name


def test_families_are_kept_apart() -> None:
    node = Node("here")
    node.put(SHOP, make.pod("web", "10.1.0.1"), make.policy("p", ingress=[([block("fd00::/8")], [])]))
    node.sync()
    assert list(node.kernels[Family.IPV4].sets["ingress"]) == ["10.1.0.1"]
    assert not node.kernels[Family.IPV6].sets["ingress"]
