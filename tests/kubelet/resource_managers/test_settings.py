"""What a configuration says of the managers, and what kubelet refuses of it."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from bayplan.cli.components.kubelet import _configuration, command
from bayplan.kubelet.configuration import API_VERSION, KIND, from_tree
from bayplan.kubelet.core.containers.resources import LimitSettings, container_resources
from bayplan.kubelet.core.resize_requests import fixed_refusal
from bayplan.kubelet.core.resources import CPU_PERIOD
from bayplan.kubelet.errors import ConfigurationError
from bayplan.kubelet.node.machine import Machine
from bayplan.kubelet.node.status import DeviceCapacity, NodeFacts, node_status
from bayplan.kubelet.resource_managers.errors import ResourceManagerError
from bayplan.kubelet.resource_managers.make_managers import Setting, make_managers
from bayplan.kubelet.resource_managers.reservations import with_reserved_cpus
from bayplan.testing.builders import node
from tests.kubelet.resource_managers.cases import container, pod
from tests.kubelet.resource_managers.played_resources import RESERVED, configuration, machine


def tree(**fields: Any) -> dict[str, Any]:
    """A configuration file."""
    return {"apiVersion": API_VERSION, "kind": KIND, **fields}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cpuManagerPolicy": "dynamic"}, "cpuManagerPolicy: 'dynamic' is none of none, static"),
        ({"reservedSystemCPUs": "0-"}, "reservedSystemCPUs: unable to parse 0-"),
        (
            {"reservedSystemCPUs": "0", "kubeReservedCgroup": "/kube"},
            "can't use reservedSystemCPUs with systemReservedCgroup or kubeReservedCgroup",
        ),
        (
            {"reservedMemory": [{"numaNode": 0, "limits": {"cpu": "1"}}]},
            "NUMA node 0: the limit type 'cpu' is not supported",
        ),
        (
            {"reservedMemory": [{"numaNode": 1, "limits": {"memory": "0"}}]},
            "NUMA node 1: reserved memory may not be zero for 'memory'",
        ),
        (
            {"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}] * 2},
            "the reserved memory has a duplicate value for 'memory'",
        ),
        ({"reservedMemory": [{"numaNode": 0, "limits": {"memory": "much"}}]}, "NUMA node 0: memory: "),
    ],
)
def test_what_makes_no_sense_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message.replace("(", r"\(")):
        from_tree(tree(**fields), "kubelet.yaml")


def test_reserved_cpus_count_in_the_place_of_amounts() -> None:
    before = configuration(
        reserved_system_cpus="0,2-3", system_reserved={"cpu": "500m", "memory": "1Gi"}, kube_reserved={"cpu": "1"}
    )
    after = with_reserved_cpus(before, machine().cpus.all())
    assert (after.system_reserved, after.kube_reserved) == ({"cpu": "3", "memory": "1Gi"}, {})
    with pytest.raises(ResourceManagerError, match="reserved-cpus: 0,2-3 is not a subset of online-cpus: 0-1"):
        with_reserved_cpus(before, frozenset((0, 1)))


@pytest.mark.parametrize(
    ("fields", "reserved", "message"),
    [
        ({}, {}, "the static policy requires systemreserved.cpu . kubereserved.cpu to be greater than zero"),
        ({}, {"cpu": "2"}, "unable to reserve the required amount of CPUs .size of 0 did not equal 2."),
        ({"cpu_manager_policy_options": {"other": "1"}}, RESERVED, "new static policy error: unknown CPU Manager"),
        (
            {"cpu_manager_policy": "none", "cpu_manager_policy_options": {"full-pcpus-only": "true"}},
            RESERVED,
            "None policy: received unsupported options",
        ),
        ({"memory_manager_policy": "Static"}, {"cpu": "1"}, "you should specify the system reserved memory"),
        (
            {"topology_manager_policy": "restricted", "topology_manager_policy_options": {"x": "1"}},
            RESERVED,
            "unknown Topology Manager Policy option",
        ),
    ],
)
def test_what_does_not_fit_the_machine_stops_the_kubelet(
    fields: dict[str, Any], reserved: dict[str, str], message: str
) -> None:
    setting = Setting(configuration(**fields), machine(), reserved, None, lambda: 0.0)
    with pytest.raises(ResourceManagerError, match=message):
        make_managers(setting)


def test_machines_with_too_many_numa_nodes_need_an_option() -> None:
    wanted = configuration(topology_manager_policy="best-effort")
    big = machine(nodes=9, cores=1)
    with pytest.raises(ResourceManagerError, match="unsupported on machines with more than 8 NUMA Nodes"):
        make_managers(Setting(wanted, big, RESERVED, None, lambda: 0.0))
    wanted = configuration(
        topology_manager_policy="best-effort", topology_manager_policy_options={"max-allowable-numa-nodes": "9"}
    )
    assert make_managers(Setting(wanted, big, RESERVED, None, lambda: 0.0)).topology.policy.options.most_nodes == 9


FLAGS = {
    "cpu-manager-policy": "static",
    "cpu-manager-policy-options": "full-pcpus-only=true,strict-cpu-reservation=true",
    "cpu-manager-reconcile-period": "5s",
    "memory-manager-policy": "Static",
    "topology-manager-policy": "restricted",
    "topology-manager-scope": "pod",
    "topology-manager-policy-options": "prefer-closest-numa-nodes=true",
    "reserved-cpus": "0-1",
}


def test_flags_stand_for_fields() -> None:
    options: dict[str, Any] = {each.name: None for each in command.params if each.name is not None}
    options.update({name.replace("-", "_"): value for name, value in FLAGS.items()})
    options["reserved_memory"] = ("0:memory=1Gi,hugepages-1Gi=2Gi", "1:memory=2Gi")
    found = _configuration(None, None, options)
    assert (found.cpu_manager_policy, found.cpu_manager_reconcile_period) == ("static", 5.0)
    assert found.cpu_manager_policy_options == {"full-pcpus-only": "true", "strict-cpu-reservation": "true"}
    assert (found.memory_manager_policy, found.reserved_system_cpus) == ("Static", "0-1")
    assert (found.topology_manager_policy, found.topology_manager_scope) == ("restricted", "pod")
    assert found.topology_manager_policy_options == {"prefer-closest-numa-nodes": "true"}
    assert [(each.numa_node, each.limits) for each in found.reserved_memory] == [
        (0, {"memory": "1Gi", "hugepages-1Gi": "2Gi"}),
        (1, {"memory": "2Gi"}),
    ]


def test_flags_are_those_of_kubelet() -> None:
    text = CliRunner().invoke(command, ["--help"]).output
    assert all(f"--{name} " in text for name in (*FLAGS, "reserved-memory"))


def test_containers_with_cpus_of_their_own_have_no_quota() -> None:
    wanted = pod(container("app", "2"))
    settings = LimitSettings(8 << 30, has_exclusive_cpus=lambda _, name: name == "app")
    limits = container_resources(wanted, wanted.spec.containers[0], settings)
    assert (limits.cpu_quota, limits.cpu_period) == (-1, CPU_PERIOD)
    limits = container_resources(wanted, wanted.spec.containers[0], LimitSettings(8 << 30))
    assert limits.cpu_quota == 2 * CPU_PERIOD


@pytest.mark.parametrize(
    ("after", "limit", "fixed", "refused"),
    [("2", "2", True, True), ("1", "1", True, False), ("2", "3", True, False), ("2", "2", False, False)],
    ids=["more CPUs", "the same", "burstable", "another policy"],
)
def test_guaranteed_pods_keep_the_cpus_that_they_were_given(after: str, limit: str, fixed: bool, refused: bool) -> None:
    policies = {"cpu": 'CPU Manager policy "static"'} if fixed else {}
    found = fixed_refusal(pod(container("app", after, limit)), pod(container("app", "1")), policies)
    assert (found is not None) == refused
    if found is not None:
        assert (found.reason, found.message) == (
            "Infeasible",
            'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"',
        )


def test_the_node_shows_devices_and_how_many_are_healthy() -> None:
    shown = node("n")
    devices = DeviceCapacity({"example.com/gpu": 4}, {"example.com/gpu": 3}, ("example.com/old",))
    facts = NodeFacts(Machine(2, 4 << 30), "n", (), 10250, 110, devices=devices)
    status = node_status(shown, facts, "2026-01-01T00:00:00Z").status
    assert (status.capacity["example.com/gpu"], status.allocatable["example.com/gpu"]) == ("4", "3")
    assert (status.capacity["example.com/old"], status.allocatable["example.com/old"]) == ("0", "0")
