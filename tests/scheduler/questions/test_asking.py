"""Questions to a running scheduler: the answers are its decisions, and it is as before afterwards."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.feature_gates import COMPOSITE_POD_GROUPS, GANG_SCHEDULING, GENERIC_WORKLOAD, TOPOLOGY_AWARE
from bayplan.api.types import core_v1, scheduling_v1alpha2, storage_v1
from bayplan.scheduler.configuration.settings import load
from bayplan.scheduler.core import SchedulerCore
from bayplan.scheduler.cycle import FirstByName
from bayplan.scheduler.errors import QuestionError
from bayplan.scheduler.extenders.protocol import unasked
from bayplan.scheduler.questions.asking import answer
from bayplan.scheduler.questions.manifests import MOST_PODS, read_question
from bayplan.support.clock import SystemClock
from bayplan.support.randomness import SystemRandomness
from tests.scheduler.objects import affinity_term, node, pod, spread, taint

Tree = dict[str, Any]
TREE_GATES = frozenset((GENERIC_WORKLOAD, GANG_SCHEDULING, TOPOLOGY_AWARE, COMPOSITE_POD_GROUPS))
_TYPES: dict[str, Any] = {
    "Node": core_v1.Node,
    "Pod": core_v1.Pod,
    "StorageClass": storage_v1.StorageClass,
    "PodGroup": scheduling_v1alpha2.PodGroup,
}


def a_core(*objects: Tree, config: Any = None) -> SchedulerCore:
    core = SchedulerCore(load(config), SystemClock(), SystemRandomness())
    for one in objects:
        core.handle(one["kind"], None, from_tree(_TYPES[one["kind"]], one))
    return core


def ask(core: SchedulerCore, *objects: Tree, explain: bool = False) -> Tree:
    question = objects[0] if len(objects) == 1 else {"kind": "List", "apiVersion": "v1", "items": list(objects)}
    return unasked(answer(core, read_question(json.dumps(question).encode()), explain=explain)).to_dict()


def state(core: SchedulerCore) -> Any:
    snapshot = core.snapshot
    return (
        snapshot.requested.tolist(),
        snapshot.free.tolist(),
        snapshot.pod_count.tolist(),
        {key: info.node_name for key, info in snapshot.pods.items()},
        sorted(snapshot.catalog.claims),
        sorted(snapshot.catalog.pod_groups),
        len(core.nominator),
        len(core.queue),
    )


def template(cpu: str = "1", **spec: Any) -> Tree:
    containers = [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}]
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers, **spec}}


def workload(kind: str, api_version: str, **spec: Any) -> Tree:
    selector = {} if kind in ("Job", "CronJob") else {"selector": {"matchLabels": {"app": "web"}}}
    return {"kind": kind, "apiVersion": api_version, "metadata": {"name": "web"}, "spec": {**selector, **spec}}


def test_a_pod_gets_the_schedulers_decision() -> None:
    core = a_core(node("small", cpu="1"), node("large", cpu="8"), pod("there", cpu="500m", on="small"))
    before = state(core)
    found = ask(core, pod("new", cpu="2"))
    assert (found["apiVersion"], found["kind"]) == ("whatif.bayplan.dev/v1", "PlacementAnswer")
    assert (found["nodes"], found["placed"], found["pending"]) == (2, 1, 0)
    (one,) = found["pods"]
    assert (one["pod"], one["workload"]) == ("default/new", "Pod default/new")
    assert (one["scheduled"], one["node"], one["feasible"]) == (True, "large", 1)
    assert one["decidedBy"] == "onlyFeasibleNode"
    assert state(core) == before


def test_scores_and_equally_good_nodes_are_told() -> None:
    core = a_core(*(node(f"n{index}") for index in range(12)))
    (one,) = ask(core, pod("new", cpu="1"))["pods"]
    assert (one["feasible"], one["equallyGood"], len(one["best"])) == (12, 12, 10)
    assert one["score"] == sum(one["scores"].values()) > 0


def test_what_keeps_a_pod_from_every_node_is_told_in_the_schedulers_words() -> None:
    core = a_core(node("a", cpu="1"), node("b", taints=(taint("dedicated"),)))
    (one,) = ask(core, pod("new", cpu="2"))["pods"]
    assert not one["scheduled"]
    assert "node" not in one
    assert one["reason"] == "Unschedulable"
    assert one["message"].startswith("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s).")
    assert one["plugins"] == ["NodeResourcesFit", "TaintToleration"]
    assert one["refusals"] == [
        {"reason": "Insufficient cpu", "nodes": 1},
        {"reason": "node(s) had untolerated taint(s)", "nodes": 1},
    ]


def test_victims_of_a_preemption_are_named_and_stay() -> None:
    core = a_core(node("a", cpu="1"), pod("low", cpu="1", on="a"))
    before = state(core)
    (one,) = ask(core, pod("high", cpu="1", priority=10))["pods"]
    assert one["preemption"] == {"node": "a", "victims": ["default/low"]}
    assert state(core) == before


def test_pods_of_a_workload_see_each_other() -> None:
    core = a_core(node("a", cpu="2"), node("b", cpu="2"))
    before = state(core)
    found = ask(core, workload("Deployment", "apps/v1", replicas=5, template=template()))
    assert (found["placed"], found["pending"]) == (4, 1)
    assert sorted(one.get("node", "") for one in found["pods"]) == ["", "a", "a", "b", "b"]
    assert [one["pod"] for one in found["pods"]] == [f"default/web-{index}" for index in range(5)]
    assert {one["workload"] for one in found["pods"]} == {"Deployment default/web"}
    told = [bool(one.get("profile")) for one in found["pods"]]
    assert told == [True, False, False, False, True], "details of the first pod of each outcome"
    assert state(core) == before


def test_pods_of_higher_priority_come_first() -> None:
    core = a_core(node("a", cpu="1"))
    found = ask(core, pod("low", cpu="1"), pod("high", cpu="1", priority=5))
    assert [one["scheduled"] for one in found["pods"]] == [False, True]


@pytest.mark.parametrize(
    ("manifest", "pods"),
    [
        (workload("ReplicaSet", "apps/v1", template=template()), 1),
        (workload("ReplicaSet", "apps/v1", replicas=0, template=template()) | {"metadata": {"name": "none"}}, 0),
        (
            {
                "kind": "ReplicationController",
                "apiVersion": "v1",
                "metadata": {"name": "web"},
                "spec": {"replicas": 2, "template": template()},
            },
            2,
        ),
        (workload("StatefulSet", "apps/v1", replicas=2, template=template()), 2),
        (workload("Job", "batch/v1", parallelism=3, completions=2, template=template(restartPolicy="Never")), 2),
        (
            workload(
                "CronJob",
                "batch/v1",
                schedule="* * * * *",
                jobTemplate={"spec": {"parallelism": 2, "template": template(restartPolicy="Never")}},
            ),
            2,
        ),
        ({"kind": "PodTemplate", "apiVersion": "v1", "metadata": {"name": "web"}, "template": template()}, 1),
    ],
)
def test_workloads_ask_about_the_pods_that_they_would_make(manifest: Tree, pods: int) -> None:
    core = a_core(node("a"))
    found = ask(core, manifest, pod("beside"))
    assert (len(found["pods"]), found["placed"]) == (pods + 1, pods + 1)


def test_a_daemon_set_is_told_on_how_many_nodes_its_pods_fit() -> None:
    cordoned = node("b")
    cordoned["spec"] = {"unschedulable": True}
    core = a_core(node("a"), cordoned, node("c", cpu="500m"), node("d", taints=(taint("dedicated"),)))
    (one,) = ask(core, workload("DaemonSet", "apps/v1", template=template()))["pods"]
    assert one["fits"] == 2, "its pods tolerate a cordon"
    assert one["refusals"] == [
        {"reason": "Insufficient cpu", "nodes": 1},
        {"reason": "node(s) had untolerated taint(s)", "nodes": 1},
    ]


def test_claims_of_a_stateful_set_are_supposed_to_be_there() -> None:
    waiting = {
        "kind": "StorageClass",
        "apiVersion": "storage.k8s.io/v1",
        "metadata": {"name": "local"},
        "provisioner": "example.com/local",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    core = a_core(node("a"), waiting)
    before = state(core)
    claim: Tree = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    found = ask(core, workload("StatefulSet", "apps/v1", replicas=2, template=template(), volumeClaimTemplates=[claim]))
    assert (found["placed"], found["pending"]) == (2, 0), found
    claim["spec"]["storageClassName"] = "absent"
    found = ask(core, workload("StatefulSet", "apps/v1", replicas=1, template=template(), volumeClaimTemplates=[claim]))
    assert found["pending"] == 1
    assert state(core) == before


def test_the_pods_of_a_gang_are_decided_about_together() -> None:
    core = a_core(node("a", cpu="2"))
    group = {
        "kind": "PodGroup",
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
    before = state(core)
    members = [pod(f"m{index}", cpu="1", schedulingGroup={"podGroupName": "g"}) for index in range(3)]
    found = ask(core, group, *members)
    assert (found["placed"], found["pending"]) == (0, 3), found
    assert "minCount" in found["pods"][0]["message"]
    small = [pod(f"m{index}", cpu="500m", schedulingGroup={"podGroupName": "g"}) for index in range(3)]
    assert ask(core, group, *small)["placed"] == 3
    assert state(core) == before


def newer_group(name: str, need: int, parent: str = "job") -> Tree:
    return {
        "kind": "PodGroup",
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": need}}, "parentCompositePodGroupName": parent},
    }


def tree_of(need: int) -> Tree:
    return {
        "kind": "CompositePodGroup",
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "metadata": {"name": "job"},
        "spec": {"schedulingPolicy": {"gang": {"minGroupCount": need}} if need else {"basic": {}}},
    }


def members_of(group: str, count: int) -> list[Tree]:
    return [pod(f"{group}{index}", cpu="1", schedulingGroup={"podGroupName": group}) for index in range(count)]


@pytest.mark.parametrize(
    ("need", "nodes", "sizes", "placed"),
    [
        (2, 4, (2, 2), "aabb"),
        (2, 3, (2, 3), ""),  # one of the two that are needed does not fit
        (1, 3, (2, 3), "aa"),
        (0, 2, (3, 2), "bb"),
    ],
)
def test_the_groups_of_a_tree_are_decided_about_together(
    need: int, nodes: int, sizes: tuple[int, int], placed: str
) -> None:
    core = SchedulerCore(load(None, TREE_GATES), SystemClock(), SystemRandomness())
    for number in range(nodes):
        core.handle("Node", None, from_tree(core_v1.Node, node(f"n{number}", cpu="1")))
    before = state(core)
    groups = [newer_group(name, size) for name, size in zip("ab", sizes, strict=True)]
    members = [one for name, size in zip("ab", sizes, strict=True) for one in members_of(name, size)]
    found = ask(core, tree_of(need), *groups, *members)
    assert sorted(one["pod"][len("default/")] for one in found["pods"] if one["scheduled"]) == list(placed)
    assert state(core) == before
    assert not core.snapshot.catalog.trees.composites
    assert not core.snapshot.catalog.trees.is_child("default/a")


def test_a_tree_without_its_root_waits_for_it_and_a_scheduler_without_trees_takes_each_group_for_itself() -> None:
    core = SchedulerCore(load(None, TREE_GATES), SystemClock(), SystemRandomness())
    core.handle("Node", None, from_tree(core_v1.Node, node("a", cpu="2")))
    found = ask(core, newer_group("a", 2), *members_of("a", 2))
    assert found["placed"] == 0
    assert 'composite pod group "job" spec to appear' in found["pods"][0]["message"]
    plain = SchedulerCore(load(None, frozenset((GENERIC_WORKLOAD, GANG_SCHEDULING))), SystemClock(), SystemRandomness())
    plain.handle("Node", None, from_tree(core_v1.Node, node("a", cpu="2")))
    assert ask(plain, tree_of(9), newer_group("a", 2), *members_of("a", 2))["placed"] == 2
    with pytest.raises(QuestionError, match=r"minGroupCount: -1 must be a whole number"):
        ask(plain, tree_of(-1), *members_of("a", 2))


def test_gated_pods_are_told_what_holds_them_back() -> None:
    core = a_core(node("a"))
    (one,) = ask(core, pod("new", schedulingGates=[{"name": "example.com/wait"}]))["pods"]
    assert (one["scheduled"], one["reason"], one["plugins"]) == (False, "SchedulingGated", ["SchedulingGates"])
    assert "example.com/wait" in one["message"]


def test_explained_answers_judge_every_node() -> None:
    core = a_core(node("a"), node("b", cpu="100m"))
    (one,) = ask(core, pod("new", cpu="1"), explain=True)["pods"]
    nodes = one["decision"]["nodes"]
    assert nodes["a"]["filter"] == {"ok": True}
    assert nodes["b"]["filter"]["reasons"] == ["Insufficient cpu"]


@pytest.mark.parametrize(
    ("manifest", "text"),
    [
        ("[", "the question is no JSON"),
        ("[1]", "an object with apiVersion and kind is expected"),
        ('{"kind": "List", "items": 1}', "items of the List: a list is expected"),
        ('{"kind": "List", "items": []}', "nothing is asked about"),
        ('{"kind": "Service", "apiVersion": "v1", "metadata": {"name": "s"}}', "v1 Service makes no pods"),
        ('{"kind": "Pod", "apiVersion": "v1", "spec": {"containers": []}}', "Pod: metadata.name is missing"),
        ('{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": {"containers": 5}}', "Pod p: "),
        ('{"kind": "Pod", "apiVersion": "v1", "metadata": 7}', "Pod ?: "),
        ('{"kind": "Pod", "apiVersion": 1, "metadata": {"name": "p"}}', "1 Pod makes no pods"),
        (json.dumps(pod("p", on="a")), "Pod default/p: spec.nodeName is set"),
        (
            json.dumps(pod("p", schedulerName="other")),
            "pod default/p: spec.schedulerName: this scheduler has no profile 'other'",
        ),
        (
            json.dumps({"kind": "List", "apiVersion": "v1", "items": [pod("p"), pod("p")]}),
            "pod default/p is asked about twice",
        ),
        (json.dumps(pod("there")), "pod default/there is there already, on node a"),
        (
            json.dumps(workload("Deployment", "apps/v1", replicas=MOST_PODS + 1, template=template())),
            f"{MOST_PODS + 1:,} pods; {MOST_PODS:,} are allowed",
        ),
    ],
)
def test_questions_without_sense_are_refused_and_change_nothing(manifest: str, text: str) -> None:
    core = a_core(node("a"), pod("there", on="a"))
    before = state(core)
    with pytest.raises(QuestionError) as refused:
        unasked(answer(core, read_question(manifest.encode())))
    assert text in str(refused.value)
    assert state(core) == before


def test_a_pod_that_waits_may_be_asked_about_and_keeps_its_nomination() -> None:
    core = a_core(node("a", cpu="2"), node("b", cpu="1"))
    nominated = pod("waits", cpu="1")
    nominated["status"]["nominatedNodeName"] = "b"
    core.handle("Pod", None, from_tree(core_v1.Pod, nominated))
    before = state(core)
    assert ask(core, pod("waits", cpu="2"))["pods"][0]["node"] == "a"
    assert core.nominator.node_of("default/waits") == "b"
    assert state(core) == before


def test_details_are_those_of_all_scores() -> None:
    """What is told of the choice without the scores of all nodes equals what these say."""
    nodes = [node(f"n{number}", cpu="2", labels={"zone": f"z{number % 3}"}) for number in range(24)]
    nodes += [node("soft", taints=(taint("slow", "PreferNoSchedule"),)), node("full", cpu="1", pods="1")]
    apart = {"weight": 10, "podAffinityTerm": affinity_term("zone", {"app": "web"})}
    rules = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [apart]}}
    evenly = [spread("zone", {"app": "web"}, when="ScheduleAnyway")]
    core = a_core(
        *nodes, *(pod(f"p{number}", cpu="300m", on=f"n{number}", labels={"app": "web"}) for number in (0, 4, 5))
    )
    core.handle("Pod", None, from_tree(core_v1.Pod, pod("p", on="full")))
    for cycle in core.cycles.values():
        cycle.choice = FirstByName()
    kinds: list[dict[str, Any]] = [
        {},
        {"affinity": rules},
        {"topologySpreadConstraints": evenly},
        {"nodeSelector": {"zone": "z1"}},
        {"nodeSelector": {"zone": "z9"}},
    ]
    for number, kind in enumerate(kinds):
        asked = pod("new", cpu=f"{number + 1}00m", labels={"app": "web"}, **kind)
        (brief,) = ask(core, asked)["pods"]
        (whole,) = ask(core, asked, explain=True)["pods"]
        assert brief == {name: value for name, value in whole.items() if name != "decision"}
        assert brief.get("best") == (whole["decision"]["best"][:10] if brief["scheduled"] else None)
        assert brief.get("equallyGood") == (len(whole["decision"]["best"]) if brief["scheduled"] else None)
