"""Random policies in the real kernel, held against the reference evaluator."""

from __future__ import annotations

import asyncio
import functools
import itertools
import random
from collections.abc import Sequence

import pytest

from bayplan.api.types import networking_v1
from bayplan.network.policy import nftables
from tests.namespaces import needs_namespaces
from tests.network.policy import objects as make
from tests.network.policy.judged import Judged
from tests.network.policy.namespaces import network, reached
from tests.network.policy.objects import apps, block, from_namespaces, from_pods, port, selector
from tests.network.policy.reference import allowed

pytestmark = needs_namespaces

NAMES = ("web", "api", "db", "cache", "mail")
PEERS = [
    from_pods(), from_pods("api"), from_pods("db", "cache"), from_pods("mail"), from_namespaces(selector(), apps("db")),
    from_namespaces(selector({"team": "none"})), block("10.9.2.0/24"), block("10.9.0.0/16", "10.9.1.0/24"), block("fd09:2::/64"),
    block("::/0", "fd09:1::/64"), block("0.0.0.0/0"),
]  # fmt: skip
SOME_PORTS = [
    port(80),
    port(81),
    port("http"),
    port(81, end=82),
    port(80, "UDP"),
    port(None),
    port("nobody"),
    port(82, "SCTP"),
]


def any_policy(chance: random.Random, name: str) -> networking_v1.NetworkPolicy:
    def rules() -> list[make.Rule]:
        return [
            (chance.sample(PEERS, chance.randint(0, 2)), chance.sample(SOME_PORTS, chance.randint(0, 2)))
            for _ in range(chance.randint(0, 2))
        ]

    sides = chance.choice([("ingress",), ("egress",), ("ingress", "egress")])
    pods = apps(*chance.sample(NAMES, chance.randint(1, 3))) if chance.random() < 0.7 else selector()
    return make.policy(name, pods, **{side: rules() for side in sides})  # type: ignore[arg-type]


@pytest.mark.parametrize("attachment", ["bridge", "ptp"])
def test_the_kernel_agrees_with_the_reference_on_any_policies(attachment: str) -> None:
    chance = random.Random(attachment)
    answers = set()
    with network(attachment) as made:
        judged = Judged(made)
        for name, node in (("cache", "here"), ("mail", "there")):
            judged.add(name, node)
        for _ in range(8):
            policies = [any_policy(chance, name) for name in "abc"[: chance.randint(1, 3)]]
            for name in "abc":
                judged.state.remove_policy("shop", name)
            judged.apply(*policies)
            ways = [
                (source, target, family, number)
                for source, target in itertools.permutations(NAMES, 2)
                for family in (0, 1)
                for number in (80, 81, 82)
                if {source, target} & {"web", "api", "cache"}
            ]
            expected = [expect(judged, policies, *way) for way in ways]
            tries = [
                (judged.pod(source), judged.address(target, family), number) for source, target, family, number in ways
            ]
            assert reached(tries, expected) == expected, policies
            for table in judged.state.tables:
                assert made.here.run(functools.partial(asyncio.run, nftables.difference(table))) == ""
            answers.update(expected)
    assert answers == {True, False}


def expect(
    judged: Judged,
    policies: Sequence[networking_v1.NetworkPolicy],
    source: str,
    target: str,
    family: int,
    number: int,
) -> bool:
    """What the reference says, on a network where only one node enforces policies: pods of the other one are allowed everything."""
    foreign = [one.metadata.name for one in judged.objects if one.spec.node_name != "here"]
    free = make.policy("free", apps(*foreign), ingress=[make.EVERYTHING], egress=[make.EVERYTHING])
    addresses = judged.address(source, family), judged.address(target, family)
    return allowed(*addresses, number, "TCP", [*policies, free], judged.objects, [make.namespace("shop")])
