"""Moving pods in a planner, and taking that back."""

from __future__ import annotations

import pytest

from bayplan.scheduler import Planner
from bayplan.scheduler.planning.relocation import moving, use_of_nodes
from bayplan.testing.builders import node, pod
from tests.scheduler.devices import claim, device, device_class, slice_of, user


@pytest.fixture
def claims() -> Planner:
    """One device, and two claims that want it."""
    return Planner([node("a"), device_class(), slice_of("a", device("gpu-0")), claim("c"), claim("d")])


def test_a_closed_node_takes_no_pod() -> None:
    planner = Planner([node("a"), node("b", cpu="1")])
    with moving(planner, frozenset({planner.snapshot.row_of["a"]})) as relocations:
        assert relocations.place(planner.pod(pod("p", cpu="500m"))).node == "b"
        assert relocations.place(planner.pod(pod("q", cpu="600m"))).node is None


def test_what_is_not_kept_is_undone() -> None:
    planner = Planner([node("a"), node("b"), pod("p", cpu="500m", node_name="a")])
    before = use_of_nodes(planner)
    with moving(planner) as relocations:
        relocations.take("default/p")
        relocations.place(planner.pod(pod("p", cpu="500m")))
        relocations.place(planner.pod(pod("q", cpu="700m")))
    assert use_of_nodes(planner) == before


def test_what_is_kept_stays() -> None:
    planner = Planner([node("a"), node("b"), pod("p", cpu="500m", node_name="a")])
    with moving(planner, frozenset({planner.snapshot.row_of["a"]})) as relocations:
        relocations.take("default/p")
        relocations.place(planner.pod(pod("p", cpu="500m")))
        relocations.keep()
    assert {use.node: use.requested.get("cpu", 0) for use in use_of_nodes(planner)} == {"a": 0, "b": 500}


def test_use_tells_how_full_a_node_is() -> None:
    use = use_of_nodes(Planner([node("a", cpu="4", memory="8Gi"), pod("p", cpu="1", memory="4Gi", node_name="a")]))[0]
    assert (use.share("cpu"), use.share("memory"), use.fullness, use.pods) == (0.25, 0.5, 0.5, 1)


def test_what_plugins_reserved_is_given_back(claims: Planner) -> None:
    with moving(claims) as relocations:
        assert relocations.place(claims.pod(user("p", "c"))).node == "a"
        assert relocations.place(claims.pod(user("q", "d"))).node is None
    assert claims.decide(user("q", "d")).node == "a"


def test_what_is_kept_keeps_what_plugins_reserved(claims: Planner) -> None:
    with moving(claims) as relocations:
        relocations.place(claims.pod(user("p", "c")))
        relocations.keep()
    assert claims.decide(user("q", "d")).node is None
