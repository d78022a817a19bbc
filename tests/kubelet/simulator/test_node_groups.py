"""Node groups: what users write, and the nodes that they make."""

from __future__ import annotations

import pytest

from bayplan.api.nodes import GROUP_LABEL
from bayplan.kubelet.simulator.nodes.groups import (
    NodeGroupSettingError,
    is_new,
    make_group_node,
    parse_group,
    parse_groups,
    seconds_to_ready,
)
from bayplan.kubelet.simulator.nodes.objects import free_network, pod_network

_WEB = "name=web,min=1,max=5,cpu=8,memory=16Gi,label=disk=ssd,label=tier=front,taint=dedicated=web:NoSchedule"


def test_a_group_is_read() -> None:
    found = parse_group(f"{_WEB},provision=30s,nvidia.com/gpu=2")
    assert (found.name, found.minimum, found.maximum, found.provision_seconds) == ("web", 1, 5, 30.0)
    assert (found.capacity["cpu"], found.capacity["pods"], found.capacity["nvidia.com/gpu"]) == ("8", "110", "2")
    assert found.labels == {"disk": "ssd", "tier": "front"}
    [taint] = found.taints
    assert (taint.key, taint.value, taint.effect) == ("dedicated", "web", "NoSchedule")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name=web", "max must be given and not be less than min"),
        ("name=web,min=3,max=2", "max must be given and not be less than min"),
        ("name=Web,max=1", "'Web' is no name for nodes"),
        ("max=1", "'' is no name for nodes"),
        ("name=web,max=many", "max: 'many' is no number"),
        ("name=web,max=1,max=2", "max is given twice"),
        ("name=web,max=1,cpu=much", "cpu: "),
        ("name=web,max=1,disk=1", "disk is not known"),
        ("name=web,max=1,fast", "'fast' is not of the form key=value"),
        ("name=web,max=1,taint=a=b:Never", "taint: 'a=b:Never' is not of the form key=value:Effect"),
        ("name=web,max=1,provision=soon", "provision: 'soon' is no duration"),
        ("name=web,max=1,provision=-1", "provision: '-1' is no duration"),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    with pytest.raises(NodeGroupSettingError) as refused:
        parse_group(text)
    assert message in str(refused.value)


def test_names_of_groups_are_different() -> None:
    assert [one.name for one in parse_groups(("name=a,max=1", "name=b,max=1"))] == ["a", "b"]
    with pytest.raises(NodeGroupSettingError, match="two groups of the name a"):
        parse_groups(("name=a,max=1", "name=a,max=2"))


def test_a_node_is_ready_when_its_time_has_come() -> None:
    group = parse_group(f"{_WEB},provision=30")
    node = make_group_node(group, "web-x", 1, "10.128.9.0/24", 1000.0)
    assert node.metadata.labels[GROUP_LABEL] == "web"
    assert node.metadata.labels["kubernetes.io/hostname"] == "web-x"
    assert node.metadata.labels["topology.kubernetes.io/zone"] == "zone-b"
    assert node.status.allocatable["cpu"] == "8"
    assert [(one.type, one.status) for one in node.status.conditions] == [("Ready", "False")]
    assert is_new(node)
    assert seconds_to_ready(node, 1010.0) == 20.0
    node.metadata.annotations = {}
    assert seconds_to_ready(node, 0.0) == 0.0


def test_networks_are_given_once() -> None:
    assert free_network(set(), 3) == "10.128.3.0/24"
    assert free_network({"10.128.3.0/24", "10.128.4.0/24"}, 3) == "10.128.5.0/24"
    every = {f"{pod_network(index)}.0/24" for index in range(128 * 256)}
    assert free_network(every - {"10.128.0.0/24"}, 3) == "10.128.0.0/24"
    with pytest.raises(LookupError):
        free_network(every, 3)
