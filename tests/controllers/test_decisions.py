"""What controllers decide: pure functions of objects and time."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.kinds import DEFAULT_KINDS
from bayplan.api.types import core_v1, meta_v1
from bayplan.controllers.cleanup.garbage_collector_rules import FOREGROUND, Graph, Verdict, verdict
from bayplan.controllers.expectations import TIMEOUT, Expectations
from bayplan.controllers.networking.endpoints import subsets_of
from bayplan.controllers.nodes.node_lifecycle import unknown_conditions, wanted_taints
from bayplan.controllers.nodes.taint_eviction import eviction_time
from bayplan.controllers.pods import claims_of
from bayplan.controllers.volumes.volume_protection import holds_claim
from bayplan.testing.clock import ManualClock

NOW = 1_767_225_600.0
STAMP = "2026-01-01T00:00:00Z"
PODS = DEFAULT_KINDS.of_kind("v1", "Pod")


def pod(
    name: str,
    *,
    owner: str = "",
    labels: dict[str, str] | None = None,
    ready: bool = True,
    node: str = "n1",
    **metadata: object,
) -> core_v1.Pod:
    owners = (
        (meta_v1.OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="rs", uid=owner, controller=True),)
        if owner
        else ()
    )
    status = core_v1.PodStatus(
        phase="Running" if node else "Pending",
        pod_ip=f"10.0.0.{len(name)}" if node else "",
        conditions=(
            core_v1.PodCondition(type="Ready", status="True" if ready else "False", last_transition_time=STAMP),
        ),
    )
    return core_v1.Pod(
        metadata=meta_v1.ObjectMeta(
            name=name, namespace="default", uid=name, labels={"a": "b"} if labels is None else labels, owner_references=owners,
            creation_timestamp=STAMP, **metadata,  # type: ignore[arg-type]
        ),
        spec=core_v1.PodSpec(node_name=node),
        status=status,
    )  # fmt: skip


class TestExpectations:
    def test_creations_are_awaited_one_by_one(self) -> None:
        expectations = Expectations(ManualClock())
        expectations.expect_creations("k", 2)
        assert not expectations.satisfied("k")
        expectations.creation_observed("k")
        assert not expectations.satisfied("k")
        expectations.creation_observed("k")
        assert expectations.satisfied("k")

    def test_deletions_are_awaited_by_uid(self) -> None:
        expectations = Expectations(ManualClock())
        expectations.expect_deletions("k", {"a", "b"})
        expectations.deletion_observed("k", "a")
        expectations.deletion_observed("k", "a")
        assert not expectations.satisfied("k")
        expectations.deletion_observed("k", "b")
        assert expectations.satisfied("k")

    def test_an_event_that_never_comes_does_not_hold_up_for_ever(self) -> None:
        clock = ManualClock()
        expectations = Expectations(clock)
        expectations.expect_creations("k", 1)
        clock.advance(TIMEOUT + 1)
        assert expectations.satisfied("k")


class TestGarbageCollector:
    def graph(self, *owner_uids: str, **owner: bool) -> tuple[Graph, core_v1.Pod]:
        assert PODS is not None
        graph = Graph()
        owners = tuple(
            meta_v1.OwnerReference(api_version="v1", kind="Pod", name=uid, uid=uid, **owner) for uid in owner_uids
        )
        dependent = core_v1.Pod(
            metadata=meta_v1.ObjectMeta(name="d", namespace="default", uid="d", owner_references=owners)
        )
        graph.put(PODS, dependent)
        return graph, dependent

    def test_an_object_whose_owners_are_all_gone_goes(self) -> None:
        graph, _ = self.graph("a", "b")
        assert verdict(graph.nodes["d"], {"a", "b"}, set()) == Verdict(delete="Background")

    def test_an_object_with_an_owner_left_only_loses_the_references(self) -> None:
        graph, _ = self.graph("a", "b")
        assert verdict(graph.nodes["d"], {"a"}, set()) == Verdict(drop=("a",))

    def test_an_owner_that_waits_for_its_dependents_gets_them_deleted(self) -> None:
        graph, _ = self.graph("a", block_owner_deletion=True)
        assert verdict(graph.nodes["d"], set(), {"a"}) == Verdict(delete="Background")

    def test_a_dependent_with_dependents_of_its_own_goes_foreground_too(self) -> None:
        assert PODS is not None
        graph, _ = self.graph("a", block_owner_deletion=True)
        owner = (meta_v1.OwnerReference(api_version="v1", kind="Pod", name="d", uid="d"),)
        graph.put(
            PODS,
            core_v1.Pod(metadata=meta_v1.ObjectMeta(name="e", namespace="default", uid="e", owner_references=owner)),
        )
        assert verdict(graph.nodes["d"], set(), {"a"}) == Verdict(delete="Foreground")

    def test_a_deletion_that_was_begun_foreground_stays_so(self) -> None:
        graph, dependent = self.graph("a")
        assert PODS is not None
        dependent.metadata.finalizers = (FOREGROUND,)
        graph.put(PODS, dependent)
        assert verdict(graph.nodes["d"], {"a"}, set()) == Verdict(delete="Foreground")

    def test_the_graph_forgets_owners_that_nobody_names_any_more(self) -> None:
        graph, dependent = self.graph("a")
        assert graph.nodes["a"].dependents == {"d": None}
        assert not graph.nodes["a"].seen
        graph.remove("d")
        assert graph.nodes == {}
        assert dependent.metadata.uid not in graph.nodes


class TestNodes:
    def node(self, **conditions: str) -> core_v1.Node:
        made = core_v1.Node(metadata=meta_v1.ObjectMeta(name="n1", creation_timestamp=STAMP))
        made.status.conditions = tuple(
            core_v1.NodeCondition(type=name, status=status) for name, status in conditions.items()
        )
        return made

    def taints(self, node: core_v1.Node) -> set[str]:
        return {f"{one.key.rpartition('/')[2]}:{one.effect}" for one in wanted_taints(node, STAMP)}

    @pytest.mark.parametrize(
        ("conditions", "expected"),
        [
            pytest.param({"Ready": "True"}, set(), id="a ready node has none"),
            pytest.param({"Ready": "False"}, {"not-ready:NoSchedule", "not-ready:NoExecute"}, id="not ready"),
            pytest.param({"Ready": "Unknown"}, {"unreachable:NoSchedule", "unreachable:NoExecute"}, id="silent"),
            pytest.param({"Ready": "True", "DiskPressure": "True"}, {"disk-pressure:NoSchedule"}, id="under pressure"),
        ],
    )
    def test_conditions_show_as_taints(self, conditions: dict[str, str], expected: set[str]) -> None:
        assert self.taints(self.node(**conditions)) == expected

    def test_a_cordoned_node_is_tainted_and_foreign_taints_stay(self) -> None:
        node = self.node(Ready="True")
        node.spec.unschedulable = True
        node.spec.taints = (core_v1.Taint(key="pool", value="x", effect="NoSchedule"),)
        assert self.taints(node) == {"pool:NoSchedule", "unschedulable:NoSchedule"}

    def test_a_taint_keeps_the_time_at_which_it_was_added(self) -> None:
        node = self.node(Ready="Unknown")
        earlier = "2025-12-31T23:00:00Z"
        node.spec.taints = (
            core_v1.Taint(key="node.kubernetes.io/unreachable", effect="NoExecute", time_added=earlier),
        )
        assert [one.time_added for one in wanted_taints(node, STAMP) if one.effect == "NoExecute"] == [earlier]

    def test_a_taint_goes_when_its_condition_does(self) -> None:
        node = self.node(Ready="True")
        node.spec.taints = (core_v1.Taint(key="node.kubernetes.io/not-ready", effect="NoExecute"),)
        assert wanted_taints(node, STAMP) == ()

    def test_a_silent_node_knows_nothing_any_more(self) -> None:
        conditions = {one.type: (one.status, one.reason) for one in unknown_conditions(self.node(Ready="True"), STAMP)}
        assert conditions["Ready"] == ("Unknown", "NodeStatusUnknown")
        assert conditions["DiskPressure"] == ("Unknown", "NodeStatusNeverUpdated")


class TestTaintEviction:
    taint = core_v1.Taint(key="k", value="v", effect="NoExecute", time_added=STAMP)

    @pytest.mark.parametrize(
        ("tolerations", "expected"),
        [
            pytest.param([], NOW + 50, id="no toleration: at once"),
            pytest.param([{"key": "k", "operator": "Exists"}], None, id="tolerated for ever"),
            pytest.param([{"operator": "Exists"}], None, id="everything is tolerated"),
            pytest.param([{"key": "k", "value": "w"}], NOW + 50, id="another value"),
            pytest.param([{"key": "k", "operator": "Exists", "effect": "NoSchedule"}], NOW + 50, id="another effect"),
            pytest.param([{"key": "k", "operator": "Exists", "toleration_seconds": 60}], NOW + 110, id="counted from when the pod was seen under it"),
            pytest.param(
                [{"key": "k", "value": "v", "toleration_seconds": 90}, {"operator": "Exists", "toleration_seconds": 30}], NOW + 140,
                id="the first that matches counts",
            ),
            pytest.param([{"key": "k", "operator": "Exists", "toleration_seconds": -5}], NOW + 50, id="a negative time is no time"),
        ],
    )  # fmt: skip
    def test_when_a_pod_has_to_leave(self, tolerations: list[dict[str, object]], expected: float | None) -> None:
        one = pod("x")
        one.spec.tolerations = tuple(core_v1.Toleration(**fields) for fields in tolerations)  # type: ignore[arg-type]
        assert eviction_time(one, [self.taint], NOW + 50) == expected


class TestEndpoints:
    def service(self, **spec: Any) -> core_v1.Service:
        ports = (core_v1.ServicePort(name="http", port=80, target_port="web"),)
        return core_v1.Service(
            metadata=meta_v1.ObjectMeta(name="s", namespace="default"), spec=core_v1.ServiceSpec(ports=ports, **spec)
        )

    def serving(self, name: str, port: int, **options: object) -> core_v1.Pod:
        one = pod(name, **options)  # type: ignore[arg-type]
        one.spec.containers = (
            core_v1.Container(name="c", ports=(core_v1.ContainerPort(name="web", container_port=port),)),
        )
        return one

    def test_pods_that_are_not_ready_stand_apart(self) -> None:
        (subset,) = subsets_of(self.service(), [self.serving("a", 8080), self.serving("bb", 8080, ready=False)])
        assert [one.ip for one in subset.addresses] == ["10.0.0.1"]
        assert [one.ip for one in subset.not_ready_addresses] == ["10.0.0.2"]

    def test_pods_with_other_port_numbers_make_another_subset(self) -> None:
        subsets = subsets_of(self.service(), [self.serving("a", 8080), self.serving("bb", 9090)])
        assert sorted(one.ports[0].port for one in subsets) == [8080, 9090]

    def test_pods_without_the_named_port_are_left_out(self) -> None:
        assert subsets_of(self.service(), [pod("a")]) == ()

    def test_not_ready_addresses_are_published_if_the_service_says_so(self) -> None:
        (subset,) = subsets_of(self.service(publish_not_ready_addresses=True), [self.serving("a", 8080, ready=False)])
        assert len(subset.addresses) == 1


class TestVolumeProtection:
    def test_claims_of_a_pod_are_those_it_names_and_those_made_for_it(self) -> None:
        one = pod("p")
        source = core_v1.PersistentVolumeClaimVolumeSource(claim_name="data")
        one.spec.volumes = (
            core_v1.Volume(name="d", persistent_volume_claim=source),
            core_v1.Volume(name="scratch", ephemeral=core_v1.EphemeralVolumeSource()),
        )
        assert claims_of(one) == ("default/data", "default/p-scratch")

    def test_a_pod_holds_its_claims_while_it_may_run(self) -> None:
        assert holds_claim(pod("p"))
        assert not holds_claim(pod("p", node=""))
        ended = pod("p")
        ended.status.phase = "Succeeded"
        assert not holds_claim(ended)
