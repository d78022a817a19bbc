"""The smallest changes that place a pod; each proposal is tried, so each test needs only look at what is proposed."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from bayplan.api.types import core_v1
from bayplan.scheduler import evaluate
from bayplan.simulation.fixes.search import Fixes, fixes_for
from bayplan.simulation.snapshots.snapshot import ClusterSnapshot
from bayplan.testing.builders import container, node, pod, selector, taint
from tests.simulation.objects import copy_of, owned, running, set_of


def asked(**spec: Any) -> core_v1.Pod:
    return pod("asked", **spec)


def answer(one: core_v1.Pod, *others: Any, **options: Any) -> Fixes:
    copy = copy_of(*others, one)
    return fixes_for(copy, copy.of("Pod")[-1], **options)


def kinds(found: Fixes) -> list[tuple[str, ...]]:
    return [tuple(change.kind for change in fix.changes) for fix in found.fixes]


def texts(found: Fixes, kind: str) -> list[str]:
    return [change.text for fix in found.fixes for change in fix.changes if change.kind == kind]


def test_a_request_is_lowered_no_more_than_needed() -> None:
    found = answer(asked(cpu="3"), node("a", cpu="2"), node("b", cpu="2"), running("p", "a", cpu="500m"))
    assert texts(found, "lower-request") == ["lower the cpu request of container main from 3 to 2"]
    assert found.fixes[0].node == "b"


def test_a_taint_is_tolerated() -> None:
    found = answer(asked(), node("a", taints=(taint("only", "NoSchedule", "gpu"),)))
    assert texts(found, "add-toleration") == ["tolerate the taint only=gpu:NoSchedule (1 node has it)"]


def test_a_cordoned_node_is_opened_first() -> None:
    found = answer(asked(), node("a", unschedulable=True))
    assert kinds(found)[0] == ("uncordon-node",)
    assert found.fixes[0].changes[0].detail["command"] == "kubectl uncordon a"


def test_one_label_on_a_node_or_one_entry_of_the_selector_less() -> None:
    found = answer(asked(node_selector={"disk": "ssd"}), node("a"))
    assert texts(found, "drop-node-selector") == ["drop disk=ssd from the node selector"]
    assert texts(found, "label-node") == ["label node a disk=ssd"]


def test_required_affinity_may_be_met_by_a_label() -> None:
    wanted = core_v1.NodeSelectorRequirement(key="disk", operator="In", values=("ssd", "nvme"))
    required = core_v1.NodeSelector(node_selector_terms=(core_v1.NodeSelectorTerm(match_expressions=(wanted,)),))
    affinity = core_v1.NodeAffinity(required_during_scheduling_ignored_during_execution=required)
    found = answer(asked(affinity=core_v1.Affinity(node_affinity=affinity)), node("a"))
    assert texts(found, "label-node") == ["label node a disk=ssd"]
    assert texts(found, "drop-node-affinity") == ["drop the required node affinity disk In ssd,nvme"]


def test_the_skew_is_raised_no_more_than_needed() -> None:
    constraint = core_v1.TopologySpreadConstraint(
        max_skew=1,
        topology_key="kubernetes.io/hostname",
        when_unsatisfiable="DoNotSchedule",
        label_selector=selector({"app": "x"}),
    )
    one = asked(meta={"labels": {"app": "x"}}, cpu="1", topology_spread_constraints=(constraint,))
    there = [running(f"p{number}", "a", meta={"labels": {"app": "x"}}) for number in range(2)]
    found = answer(one, node("a"), node("b", cpu="500m"), *there)
    assert texts(found, "raise-max-skew") == ["raise maxSkew over kubernetes.io/hostname from 1 to 3"]


def test_anti_affinity_is_given_up_or_the_others_are_evicted() -> None:
    term = core_v1.PodAffinityTerm(label_selector=selector({"app": "x"}), topology_key="kubernetes.io/hostname")
    apart = core_v1.PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
    one = asked(affinity=core_v1.Affinity(pod_anti_affinity=apart))
    web = set_of("x")
    found = answer(one, node("a"), web, owned(web, "x-1", "a"))
    assert texts(found, "drop-pod-anti-affinity")
    assert texts(found, "evict") == ["evict default/x-1 from a"]


def test_the_fewest_pods_are_evicted() -> None:
    there = [running(f"p{number}", "a", cpu="1") for number in range(4)]
    found = answer(asked(cpu="2"), node("a", cpu="4"), *there)
    evictions = [change for fix in found.fixes for change in fix.changes if change.kind == "evict"]
    assert [len(change.detail["pods"]) for change in evictions] == [2]


def test_daemons_are_not_evicted() -> None:
    agents = set_of("agent")
    daemon = owned(agents, "agent-a", "a", cpu="3")
    reference = replace(daemon.metadata.owner_references[0], kind="DaemonSet")
    daemon = replace(daemon, metadata=replace(daemon.metadata, owner_references=(reference,)))
    assert texts(answer(asked(cpu="2"), node("a", cpu="4"), daemon), "evict") == []


def test_a_host_port_is_given_up() -> None:
    port = core_v1.ContainerPort(container_port=80, host_port=80)
    taken = running("p", "a", containers=(container(ports=(port,)),))
    found = answer(asked(containers=(container(ports=(port,)),)), node("a"), taken)
    assert texts(found, "drop-host-port") == ["drop host port 80/TCP of container main"]


def test_a_node_is_added_and_a_larger_one_if_none_is_large_enough() -> None:
    full = running("p", "a", cpu="4")
    assert texts(answer(asked(cpu="4"), node("a", cpu="4"), full), "add-node") == [
        "add a node like a (cpu 4, memory 8Gi)"
    ]
    assert texts(answer(asked(cpu="7"), node("a", cpu="4")), "add-node") == [
        "add a node 2 times as large as usual (cpu 8, memory 16Gi)"
    ]
    found = answer(asked(cpu="7"), node("a", cpu="4"), amounts={"cpu": "9"})
    assert texts(found, "add-node") == ["add a node (cpu 9, memory 8Gi)"]


def test_a_gate_is_removed() -> None:
    one = asked(scheduling_gates=(core_v1.PodSchedulingGate(name="wait"),))
    assert kinds(answer(one, node("a"))) == [("remove-gates",)]


def test_pairs_are_tried_when_no_single_change_helps() -> None:
    one = asked(cpu="3", node_selector={"disk": "ssd"})
    found = answer(one, node("a", cpu="2", taints=(taint("only", "NoSchedule"),), meta={"labels": {"disk": "ssd"}}))
    assert found.fixes
    assert all(len(fix.changes) == 2 for fix in found.fixes)
    assert ("lower-request", "add-toleration") in {tuple(sorted(kind, reverse=True)) for kind in kinds(found)}


def test_two_changes_of_one_node_go_together() -> None:
    one = asked(node_selector={"disk": "ssd"})
    found = answer(one, node("a", unschedulable=True), shape="a")
    assert ("uncordon-node", "label-node") in kinds(found)


def test_two_required_affinities_are_given_up_one_after_the_other() -> None:
    terms = tuple(
        core_v1.PodAffinityTerm(label_selector=selector({"app": name}), topology_key="kubernetes.io/hostname")
        for name in "xyz"
    )
    rules = core_v1.PodAffinity(required_during_scheduling_ignored_during_execution=terms)
    there = running("p", "a", meta={"labels": {"app": "y"}})
    found = answer(asked(affinity=core_v1.Affinity(pod_affinity=rules)), node("a"), there)
    assert kinds(found) == [("drop-pod-affinity", "drop-pod-affinity")]
    assert not any("app=y" in text for text in texts(found, "drop-pod-affinity"))


def test_three_changes_are_tried_when_no_two_help() -> None:
    tainted = node(
        "a", taints=(taint("only", "NoSchedule", "gpu"), taint("team", "NoExecute", "db")), unschedulable=True
    )
    found = answer(asked(), tainted, shape="a")
    assert kinds(found)[0] == ("uncordon-node", "add-toleration", "add-toleration")
    assert [fix.size for fix in found.fixes] == sorted(fix.size for fix in found.fixes)
    assert all(len(fix.changes) == 3 for fix in found.fixes)
    assert found.fixes[0].node == "a"


def test_one_of_three_changes_is_made_no_more_than_needed() -> None:
    tainted = node("a", cpu="2", taints=(taint("only", "NoSchedule"),), unschedulable=True)
    found = answer(asked(cpu="3"), tainted, shape="a")
    assert texts(found, "lower-request")[0] == "lower the cpu request of container main from 3 to 2"
    assert len(found.fixes[0].changes) == 3


def test_three_changes_are_searched_for_no_longer_than_allowed() -> None:
    taints = tuple(taint(f"t{number}", "NoSchedule") for number in range(24))
    found = answer(asked(), node("a", taints=taints), shape="a")
    assert not found.fixes
    assert found.tried < 8_000


def test_a_pod_that_fits_needs_no_fix() -> None:
    found = answer(asked(), node("a"))
    assert (found.placed, found.fixes) == (True, [])


def test_nothing_helps_where_there_is_nothing() -> None:
    found = answer(asked(node_selector={"x": "y"}), node("a", unschedulable=True, cpu="0", pods="0"), shape="a")
    assert not found.placed
    assert not found.fixes


def test_the_copy_and_the_planner_are_left_as_they_were() -> None:
    one = asked(cpu="3", node_selector={"disk": "ssd"})
    copy = copy_of(node("a", cpu="2"), running("p", "a", cpu="1"), one)
    before = evaluate(_others(copy), copy.of("Pod")[-1]).to_dict()
    fixes_for(copy, copy.of("Pod")[-1])
    assert evaluate(_others(copy), copy.of("Pod")[-1]).to_dict() == before


def _others(copy: ClusterSnapshot) -> list[Any]:
    return [item for item in copy.flat() if item is not copy.of("Pod")[-1]]


def test_what_the_pod_asks_for_as_a_whole_is_lowered_as_a_whole() -> None:
    whole: dict[str, Any] = {"cpu": "9"}
    found = answer(asked(cpu="1", resources=core_v1.ResourceRequirements(requests=whole)), node("a", cpu="4"))
    assert texts(found, "lower-request") == ["lower the cpu request of the pod as a whole from 9 to 4"]


def test_a_sibling_is_not_evicted_for_a_pod_of_the_same_workload() -> None:
    web, other = set_of("web"), set_of("other")
    waiting = owned(web, "web-2", "", cpu="2")
    waiting.status = core_v1.PodStatus(phase="Pending")
    objects = (node("a", cpu="2"), node("b", cpu="2"), web, other)
    copy = copy_of(*objects, owned(web, "web-1", "a", cpu="2"), owned(other, "other-1", "b", cpu="2"), waiting)
    found = fixes_for(copy, waiting)
    evicted = [key for fix in found.fixes for change in fix.changes for key in change.detail.get("pods", ())]
    assert evicted == ["default/other-1"]


def test_nodes_that_offer_the_same_are_added_once() -> None:
    nodes = [node(name, cpu="4", taints=(taint(name, "PreferNoSchedule"),)) for name in ("a", "b", "c")]
    there = [running(f"p-{one.metadata.name}", one.metadata.name, cpu="3") for one in nodes]
    waiting = asked(cpu="3")
    found = fixes_for(copy_of(*nodes, *there, waiting), waiting)
    assert [fix.changes[0].kind for fix in found.fixes].count("add-node") == 1


def test_all_that_is_wrong_is_made_right_together() -> None:
    taints = (taint("one", "NoSchedule"), taint("two", "NoSchedule"))
    tainted = node("a", cpu="2", memory="1Gi", taints=taints)
    found = answer(asked(cpu="6", memory="4Gi", node_selector={"disk": "ssd"}), tainted, shape="a")
    assert sorted(change.kind for change in found.fixes[0].changes) == [
        "add-toleration",
        "add-toleration",
        "drop-node-selector",
        "lower-request",
        "lower-request",
    ]


def test_the_patch_of_a_fix_names_only_what_changes() -> None:
    found = answer(asked(cpu="3"), node("a", cpu="2"), shape="a")
    fix = next(fix for fix in found.fixes if fix.changes[0].kind == "lower-request")
    assert fix.patch == {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}
    assert "make it again" in fix.commands[0]


def test_the_commands_of_a_fix_patch_what_makes_the_pod() -> None:
    web = set_of("web")
    waiting = owned(web, "web-1", "", node_selector={"disk": "ssd"})
    waiting.status = core_v1.PodStatus(phase="Pending")
    commands = {fix.changes[0].kind: fix.commands for fix in fixes_for(copy_of(node("a"), web, waiting), waiting).fixes}
    assert commands["drop-node-selector"] == (
        """kubectl patch replicaset web -n default -p '{"spec":{"template":{"spec":{"nodeSelector":null}}}}'""",
    )
    assert commands["label-node"] == ("kubectl label node a disk=ssd",)
