"""Which nodes can go, and where everything moves."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from bayplan.api.types import core_v1
from bayplan.api.validation.profiles import MIRROR
from bayplan.controllers.autoscaling.cluster_autoscaler_rules import SAFE_TO_EVICT, SCALE_DOWN_DISABLED
from bayplan.scheduler import Planner
from bayplan.scheduler.planning.relocation import use_of_nodes
from bayplan.simulation.questions.consolidate import Consolidation, consolidate
from bayplan.simulation.questions.consolidate_rules import Rules
from bayplan.simulation.snapshots.planner import fresh
from bayplan.simulation.snapshots.snapshot import ClusterSnapshot
from bayplan.testing.builders import node, owner
from tests.simulation.objects import budget, copy_of, owned, random_cluster, running, set_of


def why(answer: Consolidation, name: str) -> str:
    return next((one.why[0] for one in answer.kept if one.node == name), "")


def two_nodes(**fields: object) -> ClusterSnapshot:
    """Node a with one pod that fits on b."""
    web = set_of("web")
    return copy_of(node("a"), node("b"), web, owned(web, "web-1", "a", cpu="1", **fields))


def test_the_emptiest_node_goes_and_its_pods_move() -> None:
    web = set_of("web")
    full = [owned(web, f"web-{number}", "b", cpu="1") for number in range(2)]
    answer = consolidate(copy_of(node("a"), node("b"), web, *full, owned(web, "lone", "a", cpu="1")))
    assert [(step.node, [(one.pod, one.to) for one in step.moves]) for step in answer.steps] == [
        ("a", [("default/lone", "b")])
    ]
    assert (len(answer.before), [use.node for use in answer.after]) == (2, ["b"])


def test_at_least_so_many_nodes_remain() -> None:
    assert len(consolidate(copy_of(*(node(name) for name in "abcd")), keep=3).steps) == 1
    assert len(consolidate(copy_of(*(node(name) for name in "abcd")), most=2).steps) == 2


@pytest.mark.parametrize(
    ("fields", "reason", "rules"),
    [
        ({"meta": {"annotations": {SAFE_TO_EVICT: "false"}}}, "safe-to-evict: false", None),
        ({"meta": {"owners": ()}}, "nobody would make it again", Rules(bare_pods=True)),
        (
            {"volumes": (core_v1.Volume(name="v", empty_dir=core_v1.EmptyDirVolumeSource()),)},
            "volume v is kept on the node",
            Rules(local_storage=True),
        ),
        ({"namespace": "kube-system"}, "of kube-system", Rules(system_pods=True)),
    ],
)
def test_pods_that_may_not_be_moved_keep_their_node(
    fields: dict[str, object], reason: str, rules: Rules | None
) -> None:
    copy = two_nodes(**fields)
    copy.objects["Node"][1].metadata.annotations = {SCALE_DOWN_DISABLED: "true"}
    answer = consolidate(copy, keep=0)
    assert not answer.steps
    assert reason in why(answer, "a")
    if rules is not None:
        assert [step.node for step in consolidate(copy, keep=0, rules=rules).steps] == ["a"]


def test_a_pod_marked_as_safe_may_be_moved_whatever_it_keeps() -> None:
    volumes = (core_v1.Volume(name="v", host_path=core_v1.HostPathVolumeSource(path="/x")),)
    copy = two_nodes(volumes=volumes, meta={"annotations": {SAFE_TO_EVICT: "true"}})
    copy.objects["Node"][1].metadata.annotations = {SCALE_DOWN_DISABLED: "true"}
    assert [step.node for step in consolidate(copy).steps] == ["a"]


def test_a_budget_that_allows_nothing_keeps_the_node() -> None:
    copy = two_nodes()
    copy.objects["PodDisruptionBudget"] = [budget("b", 0, {"app": "web"})]
    assert why(consolidate(copy, keep=0), "a") == "pod default/web-1: disruption budget default/b allows no disruption"


def test_daemons_and_mirror_pods_go_with_their_node() -> None:
    agents = set_of("agent")
    daemon = owned(agents, "agent-a", "a", meta={"owners": (owner(agents, "DaemonSet"),)})
    mirror = running("proxy-a", "a", meta={"annotations": {MIRROR: "x"}})
    stays = node("b", meta={"annotations": {SCALE_DOWN_DISABLED: "true"}})
    steps = consolidate(copy_of(node("a"), stays, daemon, mirror)).steps
    assert [(step.node, step.moves, step.left_behind) for step in steps] == [
        ("a", (), ("default/agent-a", "default/proxy-a"))
    ]


def test_the_control_plane_stays() -> None:
    copy = copy_of(node("a", meta={"labels": {"node-role.kubernetes.io/control-plane": ""}}), node("b"))
    assert [step.node for step in consolidate(copy, keep=0).steps] == ["b"]


def test_pods_without_room_elsewhere_keep_their_node_and_say_why() -> None:
    web = set_of("web")
    copy = copy_of(
        node("a", cpu="4"), node("b", cpu="1"), web, owned(web, "web-1", "a", cpu="3"), owned(web, "w2", "b", cpu="1")
    )
    answer = consolidate(copy, selector="kubernetes.io/hostname=a")
    assert "Insufficient cpu" in why(answer, "a")


@pytest.mark.parametrize("seed", range(15))
def test_no_node_is_over_committed_and_no_pod_is_lost(seed: int) -> None:
    chance = random.Random(seed)
    web = set_of("web")
    nodes = [node(f"n{number}", cpu=str(chance.randint(2, 8)), pods="20") for number in range(8)]
    pods = [
        owned(web, f"p{number}", f"n{chance.randint(0, 7)}", cpu=f"{chance.randint(1, 6)}00m") for number in range(20)
    ]
    room = {use.node: use for use in use_of_nodes(Planner([*nodes, *pods]))}
    assert all(use.share("cpu") <= 1 for use in room.values())
    copy = copy_of(*nodes, web, *pods)
    answer = consolidate(copy)
    targets = {move.pod: move.to for step in answer.steps for move in step.moves}
    for step in answer.steps:
        for move in step.moves:
            assert move.to not in answer.removed
    for pod in pods:
        if pod.spec.node_name in answer.removed:
            assert f"default/{pod.metadata.name}" in targets
    assert all(use.share("cpu") <= 1 and use.pods <= 20 for use in answer.after)
    assert sum(use.pods for use in answer.after) == len(pods)


@pytest.mark.parametrize("seed", range(12))
def test_cordoning_and_draining_as_planned_puts_every_pod_where_the_plan_says(seed: int) -> None:
    copy, _ = random_cluster(seed)
    web = set_of("web")
    for pod in copy.of("Pod"):
        pod.metadata.owner_references = (owner(web, "ReplicaSet"),)
    answer = consolidate(copy)
    cordoned = [
        replace(one, spec=replace(one.spec, unschedulable=True)) if one.metadata.name in answer.removed else one
        for one in copy.of("Node")
    ]
    planner = Planner([*cordoned, *copy.of("Pod")])
    pods = {f"{pod.metadata.namespace}/{pod.metadata.name}": pod for pod in copy.of("Pod")}
    for step in answer.steps:
        for move in step.moves:
            planner.remove(move.pod)
        for move in step.moves:
            assert planner.schedule(fresh(pods[move.pod])).node == move.to


def test_a_pod_that_is_listed_twice_moves_once() -> None:
    web = set_of("web")
    pods = [owned(web, name, where, cpu="100m") for name, where in (("w", "a"), ("v", "a"), ("w", "b"), ("u", "c"))]
    copy = copy_of(*(node(name) for name in "abcd"), web)
    copy.objects["Pod"] = pods
    moved = [move.pod for step in consolidate(copy).steps for move in step.moves]
    assert sorted(moved) == sorted(set(moved))


def test_a_pod_under_two_budgets_cannot_be_evicted() -> None:
    copy = two_nodes()
    copy.objects["PodDisruptionBudget"] = [budget(name, 1, {"app": "web"}) for name in "bc"]
    assert "more than one disruption budget" in why(consolidate(copy, keep=0), "a")


def test_a_budget_that_no_controller_has_seen_yet_is_counted_here() -> None:
    copy = two_nodes()
    unseen = budget("b", 0, {"app": "web"})
    unseen.status.expected_pods = unseen.status.observed_generation = 0
    unseen.spec.max_unavailable = 0
    copy.objects["PodDisruptionBudget"] = [unseen]
    assert "allows no disruption" in why(consolidate(copy, keep=0), "a")
    unseen.spec.max_unavailable = "100%"
    assert why(consolidate(copy, keep=0), "a") == "pod default/web-1 fits nowhere else: no other node is left"
