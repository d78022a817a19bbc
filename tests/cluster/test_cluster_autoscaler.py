"""How cluster autoscaling decides, with the scheduler's own judgement: which group grows, and which nodes can go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from bayplan.api.nodes import GROUP_LABEL
from bayplan.api.types import apps_v1, core_v1, meta_v1, policy_v1
from bayplan.cluster.autoscaling import sandbox_maker
from bayplan.controllers.autoscaling import cluster_autoscaler_plan
from bayplan.controllers.autoscaling.cluster_autoscaler_expanders import LEAST_WASTE, MOST_PODS, choose
from bayplan.controllers.autoscaling.cluster_autoscaler_plan import Growth, Limits, View, removable
from bayplan.controllers.autoscaling.cluster_autoscaler_rules import (
    SAFE_TO_EVICT,
    SAFE_VOLUMES,
    SCALE_DOWN_DISABLED,
    Drain,
    NodeGroup,
    Option,
    daemon_pod,
    is_pending,
    obstacle,
    requests,
    utilization,
    why_not,
)
from bayplan.controllers.autoscaling.cluster_autoscaler_status import status_of
from bayplan.controllers.settings import ControllerSettings
from bayplan.kubelet.simulator.nodes.groups import parse_group, template_node
from bayplan.support.timestamps import parse_rfc3339
from bayplan.testing.builders import CREATED, container, metadata, node, owner, pod, pod_status, replica_set, template

NOW = parse_rfc3339(CREATED)
OWNER = owner(replica_set("web", meta={"uid": "web"}), "ReplicaSet")
DAEMON = meta_v1.OwnerReference(api_version="apps/v1", kind="DaemonSet", name="d", uid="d", controller=True)


def group(text: str) -> NodeGroup:
    settings = parse_group(text)
    return NodeGroup(settings.name, settings.minimum, settings.maximum, template_node(settings))


SMALL = group("name=small,max=10,cpu=2,memory=8Gi")
LARGE = group("name=large,max=10,cpu=16,memory=64Gi")


def waiting(name: str, cpu: str = "1", **fields: Any) -> core_v1.Pod:
    fields.setdefault("meta", {"uid": name, "owners": (OWNER,), "labels": {"app": "web"}})
    return pod(name, cpu=cpu, memory="1Gi", **fields)


def on(where: str, name: str, cpu: str = "500m", **fields: Any) -> core_v1.Pod:
    return waiting(name, cpu, node_name=where, status=pod_status(), **fields)


def member(name: str, of: NodeGroup = SMALL, **fields: Any) -> core_v1.Node:
    labels = {GROUP_LABEL: of.name, "kubernetes.io/hostname": name}
    return node(name, cpu="2", meta={"labels": labels, **fields})


def view(
    *nodes: core_v1.Node,
    pods: tuple[core_v1.Pod, ...] = (),
    pending: tuple[core_v1.Pod, ...] = (),
    groups: tuple[NodeGroup, ...] = (SMALL, LARGE),
) -> View:
    sizes = {one.name: sum(each.metadata.labels.get(GROUP_LABEL) == one.name for each in nodes) for one in groups}
    by_node = {each.metadata.name: [one for one in pods if one.spec.node_name == each.metadata.name] for each in nodes}
    named = {each.metadata.name: each for each in nodes}
    return View(named, by_node, pending, groups, sizes, {}, sandbox_maker())


def min_by_name(options: Sequence[Option]) -> Option:
    return min(options, key=lambda one: one.group.name)


def growth(seen: View, unavailable: Mapping[str, str]) -> Growth:
    """With the expander that is the default."""
    chain = ControllerSettings().autoscaler_expanders
    return cluster_autoscaler_plan.growth(
        seen, unavailable, lambda options: choose(options, chain, None, min_by_name).best
    )


class TestMoreNodes:
    def test_the_group_that_wastes_least_grows_by_what_is_needed(self) -> None:
        pods = tuple(waiting(f"p{index}") for index in range(3))
        found = growth(view(pending=pods), {})
        assert found.best is not None
        assert (found.best.group.name, found.best.nodes, len(found.best.pods)) == ("small", 2, 3)
        assert found.refused == {}

    def test_a_pod_that_only_the_large_group_holds_gets_that(self) -> None:
        found = growth(view(pending=(waiting("big", "10"),)), {})
        assert found.best is not None
        assert (found.best.group.name, found.best.nodes) == ("large", 1)

    def test_pods_that_fit_what_is_there_or_on_its_way_need_nothing(self) -> None:
        found = growth(view(member("a"), pending=(waiting("one"),)), {})
        assert (found.best, found.waiting) == (None, [])
        assert [one.metadata.name for one in found.expected["a"]] == ["one"]

    def test_spreading_over_hosts_takes_a_node_each(self) -> None:
        term = core_v1.PodAffinityTerm(
            topology_key="kubernetes.io/hostname", label_selector=meta_v1.LabelSelector(match_labels={"app": "web"})
        )
        apart = core_v1.Affinity(
            pod_anti_affinity=core_v1.PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
        )
        pods = tuple(waiting(f"p{index}", "100m", affinity=apart) for index in range(3))
        found = growth(view(pending=pods, groups=(SMALL,)), {})
        assert found.best is not None
        assert found.best.nodes == 3

    def test_no_more_than_the_maximum(self) -> None:
        few = group("name=few,max=2,cpu=2,memory=8Gi")
        found = growth(view(pending=tuple(waiting(f"p{index}", "1500m") for index in range(4)), groups=(few,)), {})
        assert found.best is not None
        assert (found.best.nodes, len(found.best.pods)) == (2, 2)
        assert list(found.refused.values()) == [["max node group size reached"]] * 2
        full = growth(view(member("a", few), member("b", few), pending=(waiting("p", "2500m"),), groups=(few,)), {})
        assert full.best is None
        assert why_not(full.refused["p"]) == "pod didn't trigger scale-up: 1 max node group size reached"

    def test_what_no_group_can_hold_is_told_in_the_schedulers_words(self) -> None:
        tainted = group("name=special,max=3,cpu=64,memory=256Gi,taint=only=me:NoSchedule")
        huge = waiting("huge", "32")
        found = growth(view(pending=(huge,), groups=(SMALL, LARGE, tainted)), {})
        assert found.best is None
        assert why_not(found.refused["huge"]) == (
            "pod didn't trigger scale-up: 2 Insufficient cpu, 1 node(s) had untolerated taint(s)"
        )

    def test_a_group_that_failed_is_left_alone_for_a_while(self) -> None:
        found = growth(view(pending=(waiting("p"),)), {"small": "in backoff after failed scale-up"})
        assert found.best is not None
        assert found.best.group.name == "large"

    def test_a_pod_never_takes_the_place_of_another(self) -> None:
        full = tuple(on("a", f"low{index}", "1", priority=0) for index in range(2))
        found = growth(view(member("a"), pods=full, pending=(waiting("high", "1", priority=1000),)), {})
        assert found.best is not None

    def test_daemons_take_their_part_of_every_new_node(self) -> None:
        agent = container("agent", cpu="600m")
        labels = {"app": "agent"}
        daemons = apps_v1.DaemonSet(
            metadata=metadata("agent", "default", uid="agent"),
            spec=apps_v1.DaemonSetSpec(template=template(labels, containers=(agent,))),
        )
        pods = tuple(waiting(f"p{index}") for index in range(2))
        alone = growth(view(pending=pods, groups=(SMALL,)), {})
        with_daemons = growth(replace(view(pending=pods, groups=(SMALL,)), daemons=[daemon_pod(daemons)]), {})
        assert alone.best is not None
        assert with_daemons.best is not None
        assert (alone.best.nodes, with_daemons.best.nodes) == (1, 2)

    def test_of_equal_waste_the_option_with_more_pods_wins(self) -> None:
        one, two = Option(SMALL, 1, (waiting("a", "2"),)), Option(SMALL, 2, (waiting("a", "2"), waiting("b", "2")))
        assert choose((one, two), (LEAST_WASTE, MOST_PODS), None, min_by_name).best is two
        assert choose((), (LEAST_WASTE,), None, min_by_name).best is None

    @pytest.mark.parametrize(
        ("fields", "pending"),
        [
            pytest.param({}, True, id="unschedulable"),
            pytest.param({"priority": -11}, False, id="expendable"),
            pytest.param({"node_name": "n"}, False, id="bound"),
            pytest.param({"nominated": "n"}, False, id="others make room for it"),
            pytest.param({"meta": {"deleted": CREATED}}, False, id="on its way out"),
        ],
    )
    def test_which_pods_wait(self, fields: dict[str, Any], pending: bool) -> None:
        condition = core_v1.PodCondition(type="PodScheduled", status="False", reason="Unschedulable")
        fields = dict(fields)
        nominated = fields.pop("nominated", "")
        status = core_v1.PodStatus(phase="Pending", conditions=(condition,), nominated_node_name=nominated)
        one = pod("p", status=status, **fields)
        assert is_pending(one, -10) is pending
        assert not is_pending(msgspec.structs.replace(one, status=core_v1.PodStatus()), -10)


class TestFewerNodes:
    def find(
        self, seen: View, *budgets: policy_v1.PodDisruptionBudget, **limits: Any
    ) -> tuple[list[str], dict[str, str]]:
        groups = {one.name: one for one in seen.groups}

        def group_of(one: core_v1.Node) -> NodeGroup | None:
            return groups.get(one.metadata.labels.get(GROUP_LABEL, ""))

        found, kept = removable(seen, group_of, budgets, Limits(**limits), (), NOW)
        return [one.node.metadata.name for one in found], kept

    def test_nodes_whose_pods_fit_elsewhere_can_go_together(self) -> None:
        pods = (on("a", "pa", "1500m"), on("b", "pb"), on("c", "pc"))
        found, kept = self.find(view(member("a"), member("b"), member("c"), pods=pods))
        assert found == ["b"], "a takes the pod of b, then there is no room for that of c"
        assert kept == {"a": "NotUnderutilized", "c": "NoPlaceToMovePods"}

    def test_empty_nodes_go_down_to_the_minimum_and_others_do_not_matter(self) -> None:
        at_least = group("name=small,min=1,max=5,cpu=2")
        found, kept = self.find(view(member("a"), member("b"), member("c"), node("other"), groups=(at_least,)))
        assert found == ["a", "b"]
        assert kept == {"c": "NodeGroupMinSizeReached"}

    def test_an_annotation_keeps_a_node(self) -> None:
        found, kept = self.find(view(member("a", annotations={SCALE_DOWN_DISABLED: "true"})))
        assert (found, kept) == ([], {"a": "ScaleDownDisabledAnnotation"})

    def test_pods_of_daemon_sets_go_with_the_node(self) -> None:
        daemon = on("a", "daemon", meta={"owners": (DAEMON,)})
        assert self.find(view(member("a"), pods=(daemon,)))[0] == ["a"]

    def test_a_threshold_says_what_hardly_used_means(self) -> None:
        pods = (on("a", "pa"),)
        assert utilization(member("a"), pods) == pytest.approx(0.25)
        seen = view(member("a"), node("other"), pods=pods)
        assert self.find(seen)[0] == ["a"]
        assert self.find(seen, threshold=0.2)[1] == {"a": "NotUnderutilized"}

    def test_a_budget_that_is_used_up_keeps_the_node(self) -> None:
        selector = meta_v1.LabelSelector(match_labels={"app": "web"})
        budget = policy_v1.PodDisruptionBudget(
            metadata=metadata("web", "default"),
            spec=policy_v1.PodDisruptionBudgetSpec(selector=selector),
            status=policy_v1.PodDisruptionBudgetStatus(disruptions_allowed=0),
        )
        seen = view(member("a"), node("other"), pods=(on("a", "pa"),))
        assert self.find(seen, budget)[1]["a"].startswith("NotEnoughPdb")
        allowing = msgspec.structs.replace(budget, status=policy_v1.PodDisruptionBudgetStatus(disruptions_allowed=1))
        assert self.find(seen, allowing)[0] == ["a"]


def test_the_status_counts_nodes_and_candidates() -> None:
    groups = {one.name: one for one in (SMALL, LARGE)}
    seen = view(member("a"), member("b"), node("other"))
    found = status_of(seen, lambda one: groups.get(one.metadata.labels.get(GROUP_LABEL, "")), {"a"}, ("large",))
    small, large = found["nodeGroups"]
    assert found["clusterWide"]["health"]["nodeCounts"]["registered"] == {"total": 3, "ready": 3, "notStarted": 0}
    assert (small["name"], small["health"]["cloudProviderTarget"], small["health"]["maxSize"]) == ("small", 2, 10)
    assert small["scaleDown"] == {"status": "CandidatesPresent", "candidates": 1}
    assert (small["scaleUp"]["status"], large["scaleUp"]["status"]) == ("NoActivity", "InProgress")


LOCAL = (core_v1.Volume(name="scratch", empty_dir=core_v1.EmptyDirVolumeSource()),)
MEMORY = (core_v1.Volume(name="scratch", empty_dir=core_v1.EmptyDirVolumeSource(medium="Memory")),)


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        pytest.param(on("n", "p"), "", id="an ordinary pod"),
        pytest.param(on("n", "p", meta={}), "NotReplicated", id="nobody makes it again"),
        pytest.param(on("n", "p", meta={"annotations": {SAFE_TO_EVICT: "true"}}), "", id="but it may go"),
        pytest.param(
            on("n", "p", meta={"owners": (OWNER,), "annotations": {SAFE_TO_EVICT: "false"}}),
            "NotSafeToEvictAnnotation",
            id="it must not go",
        ),
        pytest.param(on("n", "p", namespace="kube-system"), "UnmovableKubeSystemPod", id="a system pod"),
        pytest.param(on("n", "p", volumes=LOCAL), "LocalStorageRequested", id="data on the node"),
        pytest.param(on("n", "p", volumes=MEMORY), "", id="data in memory"),
        pytest.param(
            on("n", "p", volumes=LOCAL, meta={"owners": (OWNER,), "annotations": {SAFE_VOLUMES: "scratch"}}),
            "",
            id="data that may be lost",
        ),
        pytest.param(on("n", "p", meta={"owners": (DAEMON,)}), "", id="of a daemon set"),
    ],
)
def test_what_keeps_a_pod_where_it_is(one: core_v1.Pod, reason: str) -> None:
    assert obstacle(one, (), Drain(), NOW).partition(":")[0] == reason
    assert obstacle(one, (), Drain(False, False), NOW).partition(":")[0] in (
        "",
        "NotReplicated",
        "NotSafeToEvictAnnotation",
    )


def test_a_pod_requests_its_containers_and_sidecars_or_its_largest_step() -> None:
    sidecar = msgspec.structs.replace(container("log", cpu="100m"), restart_policy="Always")
    one = pod("p", cpu="200m", memory="1Gi", init_containers=(sidecar, container("setup", cpu="1")))
    assert requests(one) == {"cpu": 1100, "memory": 2**30}
    whole = msgspec.structs.replace(
        one, spec=msgspec.structs.replace(one.spec, resources=core_v1.ResourceRequirements(requests={"cpu": "3"}))
    )
    assert requests(whole) == {"cpu": 3000, "memory": 2**30}, (
        "what is not given for the whole is that of the containers"
    )
    above = msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, overhead={"cpu": "50m"}))
    assert requests(above)["cpu"] == 1150, "the runtime takes its share"
