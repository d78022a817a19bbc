"""What is held back while isolated pods start."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bayplan.api.types import networking_v1
from bayplan.network.policy.objects import pod_entry, policy_entry
from tests.network.policy import objects as make
from tests.network.policy.interpreter import Connection
from tests.network.policy.objects import apps, from_pods
from tests.network.policy.world import WORLD, Node, nodes_with


def starting(*policies: networking_v1.NetworkPolicy) -> Node:
    node = nodes_with(*WORLD, make.pod("new"), *policies)[0]
    node.state.set_pod_networks(("10.1.0.0/24", "fd01::/64"))
    node.sync()
    return node


UNKNOWN = "10.1.0.9"


def test_while_an_isolated_pod_starts_its_address_is_cut_off() -> None:
    node = starting(make.policy("p", apps("new"), ingress=[([from_pods("api")], [])], egress=[]))
    others = (("10.2.0.4", UNKNOWN), ("10.1.0.2", UNKNOWN), (UNKNOWN, "10.2.0.4"), ("fd02::4", "fd01::9"))
    assert [node.passes(Connection(*pair, port=80)) for pair in others] == [False] * 4
    assert node.passes(Connection("10.2.0.4", "10.1.0.1", port=80))
    assert node.passes(Connection("10.2.0.4", "10.2.0.9", port=80))
    node.put(make.pod("new", UNKNOWN))
    node.sync()
    assert node.passes(Connection("10.1.0.2", UNKNOWN, port=80))
    assert not node.passes(Connection("10.2.0.4", UNKNOWN, port=80))
    assert node.passes(Connection("10.2.0.4", "10.1.0.8", port=80))


@pytest.mark.parametrize(
    ("policy", "to_it", "from_it"),
    [
        (make.policy("p", apps("new"), ingress=[]), False, True),
        (make.policy("p", apps("new"), egress=[]), True, False),
        (make.policy("p", apps("web"), ingress=[], egress=[]), True, True),
        (make.policy("p", apps("new"), ingress=[make.EVERYTHING]), True, True),
    ],
    ids=["ingress", "egress", "of another pod", "that allows everything"],
)
def test_a_starting_pod_is_cut_off_only_as_its_policies_isolate_it(
    policy: networking_v1.NetworkPolicy, to_it: bool, from_it: bool
) -> None:
    node = starting(policy)
    assert node.passes(Connection("10.2.0.4", UNKNOWN, port=80)) is to_it
    assert node.passes(Connection(UNKNOWN, "10.2.0.4", port=80)) is from_it


@pytest.mark.parametrize(
    "end",
    [
        lambda node: node.remove(make.pod("new")),
        lambda node: node.put(make.pod("new", phase="Failed")),
        lambda node: node.remove(make.policy("p", ingress=[])),
        lambda node: node.put(make.pod("new", labels={"app": "open"})),
        lambda node: node.state.set_pod_networks(()),
    ],
    ids=["gone", "failed", "no policy", "other labels", "networks unknown"],
)
def test_addresses_are_free_again_when_no_isolated_pod_starts(end: Callable[[Node], None]) -> None:
    node = starting(make.policy("p", apps("new"), ingress=[]))
    assert not node.passes(Connection("10.2.0.4", UNKNOWN, port=80))
    end(node)
    node.sync()
    assert node.passes(Connection("10.2.0.4", UNKNOWN, port=80))


def test_the_kernel_learns_of_pods_at_once_only_while_there_are_policies() -> None:
    node = nodes_with()[0]
    entry, other = (pod_entry(make.pod(name, UNKNOWN), "here") for name in ("a", "b"))
    policy = policy_entry(make.policy("p", ingress=[]))
    assert entry is not None
    assert other is not None
    assert policy is not None
    assert not node.state.put_pod(entry)
    assert node.state.put_policy(policy)
    assert node.state.put_pod(other)
    assert node.state.remove_policy(policy.namespace, "p")
    assert not node.state.remove_pod(other.namespace, "b")
