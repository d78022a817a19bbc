"""The static policy gives, keeps and takes CPUs as kubelet's does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bayplan.kubelet.resource_managers.cpus.cpu_options import CpuOptions, check_cpu_options, parse_cpu_options
from bayplan.kubelet.resource_managers.cpus.cpu_policy import StaticCpuPolicy
from bayplan.kubelet.resource_managers.cpus.cpu_set import CpuSet, format_cpu_set, parse_cpu_set
from bayplan.kubelet.resource_managers.cpus.cpu_state import CPU_STATE, CpuState
from bayplan.kubelet.resource_managers.errors import AllocationError, CheckpointError, ResourceManagerError
from bayplan.kubelet.resource_managers.machine_topology import Cpu, CpuTopology
from tests.kubelet.resource_managers.cases import (
    FixedAffinity,
    cases,
    container,
    cpu_state,
    hint_of,
    pod,
    pod_of,
    topology,
)

GATES = {"CPUManagerPolicyAlphaOptions": True}


def policy_of(case: dict[str, Any], state: CpuState) -> StaticCpuPolicy:
    """The policy of a case."""
    return StaticCpuPolicy(
        topology(case["topology"]),
        state,
        FixedAffinity(case.get("hint")),
        parse_cpu_options(case["options"], GATES),
        reserved=parse_cpu_set(case["reserved"]),
        reserved_number=case["reserved_number"],
    )


@pytest.mark.parametrize("case", cases("cpu", "static"))
def test_containers_get_the_cpus_that_kubelet_gives(case: dict[str, Any]) -> None:
    state, wanted = cpu_state(case), pod_of(case["pod"])
    policy = policy_of(case, state)
    if case["every_container"]:
        state.shared -= policy.reserved
    error = ""
    try:
        for each in wanted.spec.containers if case["every_container"] else wanted.spec.containers[:1]:
            policy.allocate(wanted, each)
    except AllocationError as failure:
        error = str(failure)
    assert error == case["error"]
    cpus = state.get(wanted.metadata.uid, wanted.spec.containers[0].name)
    if case["allocated"]:
        assert cpus is not None
        assert format_cpu_set(cpus) == case["expected"]
        assert not cpus & state.shared
    elif case.get("caches"):
        given = state.assignments[wanted.metadata.uid].values()
        used = {topology(case["topology"]).cpus[cpu].uncore_cache for each in given for cpu in each}
        assert format_cpu_set(used) == case["caches"]
    else:
        assert cpus is None


@pytest.mark.parametrize("case", cases("cpu", "start"))
def test_a_state_is_held_against_the_machine(case: dict[str, Any]) -> None:
    state, error = cpu_state(case), ""
    try:
        policy_of(case, state).start()
    except ResourceManagerError as failure:
        error = str(failure)
    assert error == case["error"]
    if not error:
        assert format_cpu_set(state.shared) == case["expected"]


MACHINE = CpuTopology({cpu: Cpu(cpu % 6, cpu % 6 // 3, cpu % 6 // 3, 1) for cpu in range(12)})
"""The machine of upstream's tests of hints: two NUMA nodes with three cores of two CPUs each."""


@pytest.mark.parametrize("case", cases("cpu", "hints"))
def test_hints_are_those_of_kubelet(case: dict[str, Any]) -> None:
    state, wanted = cpu_state(case), pod_of(case["pod"])
    policy = StaticCpuPolicy(MACHINE, state, FixedAffinity())
    hints = policy.hints(wanted, wanted.spec.containers[0]).get("cpu") or ()
    expected = {hint_of(each) for each in case["hints"] or ()}
    assert set(hints) == expected
    assert len(hints) == len(expected)


def a_policy(state: CpuState, options: CpuOptions | None = None, reserved: CpuSet = frozenset((0,))) -> StaticCpuPolicy:
    """On a socket of four cores with two CPUs each (0 and 4 share one); CPU 0 is reserved."""
    found = StaticCpuPolicy(
        topology("topoSingleSocketHT"),
        state,
        FixedAffinity(),
        options or CpuOptions(),
        reserved=reserved,
        reserved_number=len(reserved),
    )
    found.start()
    return found


def test_containers_have_the_cpus_of_init_containers_and_sidecars_keep_theirs() -> None:
    state = CpuState("static")
    policy = a_policy(state)
    sidecar = container("sidecar", "1")
    sidecar.restart_policy = "Always"
    wanted = pod(container("app", "4"), init=(container("init", "4"), sidecar))
    for each in (*wanted.spec.init_containers, *wanted.spec.containers):
        policy.allocate(wanted, each)
    given = state.assignments["pod"]
    assert not given["sidecar"] & given["app"]
    assert given["app"] == given["init"]
    policy.remove("pod", "init")
    assert state.shared == topology("topoSingleSocketHT").all() - given["app"] - given["sidecar"]


@pytest.mark.parametrize(
    ("cpu", "limit"), [("1500m", "1500m"), ("1", "2"), ("0", "0")], ids=["parts of CPUs", "burstable", "no CPU"]
)
def test_other_containers_share(cpu: str, limit: str) -> None:
    state = CpuState("static")
    policy = a_policy(state)
    wanted = pod(container("app", cpu, limit))
    policy.allocate(wanted, wanted.spec.containers[0])
    assert state.assignments == {}
    assert policy.hints(wanted, wanted.spec.containers[0]) == {}


def test_a_state_survives_a_restart_also_with_strict_reservation(tmp_path: Path) -> None:
    path = tmp_path / CPU_STATE
    strict = CpuOptions(strict_reservation=True)
    wanted = pod(container("app", "2"))
    before = CpuState("static", path)
    before.load()
    a_policy(before, strict).allocate(wanted, wanted.spec.containers[0])
    after = CpuState("static", path)
    after.load()
    a_policy(after, strict)
    assert after.get("pod", "app") == before.get("pod", "app") == frozenset((1, 5))
    assert format_cpu_set(after.shared) == "2-4,6-7"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"policyName":"none","defaultCpuSet":"4-6","entries":{},"checksum":1337}', "checkpoint is corrupted"),
        ("{", "unexpected end of JSON input"),
        ("[]", "checkpoint is corrupted"),
        ('{"policyName":"none","defaultCpuSet":5}', "checkpoint is corrupted"),
        (
            '{"policyName":"other","defaultCpuSet":"1-3","entries":{},"checksum":1394507217}',
            'configured policy "none" differs from state checkpoint policy "other"',
        ),
        (
            '{"policyName":"none","defaultCpuSet":"1.3","entries":{},"checksum":3021697696}',
            'could not parse default cpu set "1.3"',
        ),
        (
            '{"policyName":"none","defaultCpuSet":"1-3","entries":{"pod":{"container1":"4-6","container2":"asd"}},'
            '"checksum":962272150}',
            'could not parse cpuset for container "container2" in pod "pod" "asd"',
        ),
    ],
)
def test_a_broken_checkpoint_is_refused_with_what_to_do(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / CPU_STATE
    path.write_text(content)
    with pytest.raises(CheckpointError) as failure:
        CpuState("none", path).load()
    assert str(failure.value).startswith(f"could not restore state from checkpoint: {message}")
    assert str(failure.value).endswith(
        f'please drain this node and delete the CPU manager checkpoint file "{path}" before restarting Kubelet'
    )


def test_checkpoints_of_kubernetes_are_read_and_written_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / CPU_STATE
    content = (
        '{"policyName":"none","defaultCpuSet":"1-3","entries":{"pod":{"container1":"4-6","container2":"1-3"}},'
        '"checksum":3610638499}'
    )
    path.write_text(content)
    state = CpuState("none", path)
    state.load()
    assert state.get("pod", "container1") == frozenset((4, 5, 6))
    state.save()
    assert path.read_text() == content


@pytest.mark.parametrize(
    ("options", "gates", "message"),
    [
        ({"full-pcpus-only": "maybe"}, {}, 'bad value for option "full-pcpus-only"'),
        ({"unknown": "true"}, {}, 'unknown CPU Manager Policy option: "unknown"'),
        ({"align-by-socket": "true"}, {}, "CPU Manager Policy Alpha-level Options not enabled"),
        (
            {"distribute-cpus-across-numa": "true"},
            {"CPUManagerPolicyBetaOptions": False},
            "CPU Manager Policy Beta-level Options not enabled",
        ),
        (
            {"full-pcpus-only": "true", "distribute-cpus-across-cores": "true"},
            GATES,
            "static policy options full-pcpus-only and distribute-cpus-across-cores can not be used at the same time",
        ),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], gates: dict[str, bool], message: str) -> None:
    with pytest.raises(ResourceManagerError, match=message):
        parse_cpu_options(options, gates)


def test_alignment_by_socket_needs_machines_and_policies_that_allow_it() -> None:
    by_socket = CpuOptions(by_socket=True)
    check_cpu_options(by_socket, MACHINE, "restricted")
    with pytest.raises(ResourceManagerError, match="single-numa-node policy is incompatible"):
        check_cpu_options(by_socket, MACHINE, "single-numa-node")
    one_node = CpuTopology({cpu: Cpu(cpu, cpu, 0, 0) for cpu in range(2)})
    with pytest.raises(ResourceManagerError, match="not compatible with hardware"):
        check_cpu_options(by_socket, one_node, "restricted")


class Pools(RuleBasedStateMachine):
    """Pods come and go in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.state = CpuState("static")
        self.policy = a_policy(self.state)

    @rule(uid=st.sampled_from("abcd"), cpus=st.lists(st.integers(0, 4), min_size=1, max_size=2), init=st.integers(0, 3))
    def admit(self, uid: str, cpus: list[int], init: int) -> None:
        first = (container("init", str(init)),) if init else ()
        wanted = pod(*(container(f"c{index}", str(each)) for index, each in enumerate(cpus)), uid=uid, init=first)
        if uid in self.state.assignments:
            return
        try:
            for each in (*first, *wanted.spec.containers):
                self.policy.allocate(wanted, each)
        except AllocationError:
            self.remove(uid)
        self.policy.forget_reusable(uid)

    @rule(uid=st.sampled_from("abcd"))
    def remove(self, uid: str) -> None:
        for name in list(self.state.assignments.get(uid, {})):
            self.policy.remove(uid, name)
        assert uid not in self.state.assignments

    @invariant()
    def no_cpu_has_two_owners(self) -> None:
        owned = [cpu for each in self.state.assignments.values() for cpu in frozenset[int]().union(*each.values())]
        assert len(owned) == len(set(owned))

    @invariant()
    def the_shared_pool_is_all_that_nobody_owns(self) -> None:
        assert self.state.shared == topology("topoSingleSocketHT").all() - self.state.assigned()
        assert 0 in self.state.shared


TestPools = Pools.TestCase
TestPools.settings = settings(max_examples=50, stateful_step_count=20, deadline=None)
