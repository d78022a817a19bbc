"""What pods need of kubelets."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.scheduler import evaluate
from tests.scheduler.objects import Tree, node, pod

RESTARTS, USERS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"


def declaring(name: str, *features: str) -> Tree:
    tree = node(name)
    tree["status"]["declaredFeatures"] = list(features)
    return tree


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, "abcd"),
        ({"hostNetwork": True}, "abcd"),
        ({"hostUsers": False}, "abcd"),
        ({"hostUsers": True, "hostNetwork": True}, "abcd"),
        ({"hostUsers": False, "hostNetwork": True}, "cd"),
    ],
)
def test_user_namespaces_with_the_network_of_the_host_need_a_feature(spec: dict[str, Any], expected: str) -> None:
    nodes = [declaring("a"), declaring("b", RESTARTS), declaring("c", USERS), declaring("d", RESTARTS, USERS)]
    found = evaluate(nodes, pod("p", **spec)).to_dict()["nodes"]
    assert "".join(name for name, item in found.items() if "ok" in item["filter"]) == expected


def test_rules_that_restart_all_containers_need_a_feature() -> None:
    tree = pod("p", hostUsers=False, hostNetwork=True)
    tree["spec"]["containers"][0]["restartPolicyRules"] = [{"action": "RestartAllContainers"}]
    found = evaluate([declaring("a", USERS), declaring("b", RESTARTS, USERS)], tree)
    assert found.node == "b"
    assert found.to_dict()["nodes"]["a"]["filter"]["reasons"] == ["node(s) didn't match Pod's required features"]
