"""Pod groups that are no gangs: tried in one cycle, told together, and each pod placed for itself."""

from __future__ import annotations

from bayplan.scheduler.gangs.gang_cycle import GroupResult
from tests.scheduler.gangs.test_gangs import gang_of, messages, outcomes, places
from tests.scheduler.objects import node, pod
from tests.scheduler.test_core import Setup


def of_three(*, cpu: str, nodes: str = "ab") -> Setup:
    setup = Setup()
    for name in nodes:
        setup.see("Node", node(name, cpu="1"))
    gang_of(setup, "g", 3, need=0, cpu=cpu)
    return setup


def test_the_group_is_scheduled_if_any_of_its_pods_is() -> None:
    found = outcomes(of_three(cpu="700m"))
    assert {places(found)[name] for name in ("g0", "g1")} == {"a", "b"}
    assert places(found)["g2"] is None
    assert messages(found)["g2"].startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert found[0].group == GroupResult("default/g", True, "Scheduled", "")
    assert all(item.group is None for item in found[1:])


def test_the_group_is_unschedulable_if_none_of_its_pods_is_placed() -> None:
    found = outcomes(of_three(cpu="2"))
    assert set(places(found).values()) == {None}
    assert found[0].group == GroupResult("default/g", False, "Unschedulable", "pod group is unschedulable")
    assert all(text.startswith("0/2 nodes are available: 2 Insufficient cpu.") for text in messages(found).values())


def test_all_pods_wait_if_one_of_them_has_to_make_room_first() -> None:
    setup = Setup()
    for name in "ab":
        setup.see("Node", node(name, cpu="1"))
    setup.see("Pod", pod("low", cpu="700m", on="a"))
    gang_of(setup, "g", 2, need=0, cpu="700m", priority=10)
    found = outcomes(setup)
    waiting = "pod group is unschedulable, pod group is waiting for preemption to complete"
    assert set(places(found).values()) == {None}
    assert found[0].group == GroupResult("default/g", False, "Unschedulable", waiting)
    assert messages(found)["g0"] == waiting
    assert found[1].decision.victims == ("default/low",)
