"""The static policy gives and takes memory as kubelet's does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bayplan.api.types import core_v1
from bayplan.kubelet.configuration import MemoryReservation
from bayplan.kubelet.resource_managers.errors import AllocationError, CheckpointError, ResourceManagerError
from bayplan.kubelet.resource_managers.machine_topology import NumaNode
from bayplan.kubelet.resource_managers.memory_machine import are_equal
from bayplan.kubelet.resource_managers.memory_policy import StaticMemoryPolicy
from bayplan.kubelet.resource_managers.memory_state import MEMORY_STATE, Block, MemoryState, NodeMemory
from bayplan.kubelet.resource_managers.providers import MemoryManager
from bayplan.kubelet.resource_managers.reservations import reserved_memory
from tests.kubelet.resource_managers.cases import FixedAffinity, cases, container, hint_of, pod

GIB = 1 << 30
Assignments = dict[str, dict[str, list[Block]]]


def state_of(case: dict[str, Any], kind: str = "") -> MemoryState:
    """A state of a case: the one that it begins with, or the `expected_` one."""
    state = MemoryState("Static")
    machine = case.get(f"{kind}machine", {})
    state.machine = {int(node): msgspec.convert(each, NodeMemory) for node, each in machine.items()}
    state.assignments = msgspec.convert(case.get(f"{kind}assignments", {}), Assignments)
    return state


def policy_of(case: dict[str, Any], state: MemoryState) -> StaticMemoryPolicy:
    """The policy of a case."""
    nodes = [
        NumaNode(each["id"], each["memory"], {int(size): number for size, number in each["hugepages"].items()})
        for each in case.get("info", ())
    ]
    reserved = {int(node): each for node, each in case["reserved"].items()}
    return StaticMemoryPolicy(nodes, state, FixedAffinity(case.get("hint")), reserved)


def pod_of(case: dict[str, Any]) -> core_v1.Pod:
    """The pod of a case."""

    def containers(rows: list[dict[str, Any]]) -> tuple[core_v1.Container, ...]:
        return tuple(msgspec.convert({**each, "image": "app"}, core_v1.Container) for each in rows)

    return pod(*containers(case["containers"]), uid=case["uid"], init=containers(case["init"]))


def shown(assignments: Assignments) -> dict[str, dict[str, set[Block]]]:
    """Assignments whose blocks have no order."""
    return {uid: {name: set(each) for name, each in containers.items()} for uid, containers in assignments.items()}


def check(state: MemoryState, case: dict[str, Any]) -> None:
    """Hold a state against what a case expects."""
    expected = state_of(case, "expected_")
    assert shown(state.assignments) == shown(expected.assignments)
    assert are_equal(state.machine, expected.machine)


@pytest.mark.parametrize("case", cases("memory", "start"))
def test_a_state_is_held_against_the_machine(case: dict[str, Any]) -> None:
    state, error = state_of(case), ""
    try:
        policy_of(case, state).start()
    except ResourceManagerError as failure:
        error = str(failure)
    assert error == case.get("error", "")
    if not error:
        check(state, case)


@pytest.mark.parametrize("case", [*cases("memory", "allocate"), *cases("memory", "init"), *cases("memory", "sidecars")])
def test_containers_get_the_memory_that_kubelet_gives(case: dict[str, Any]) -> None:
    state, error, wanted = state_of(case), "", pod_of(case["pod"])
    policy = policy_of(case, state)
    try:
        for each in (*wanted.spec.init_containers, *wanted.spec.containers):
            policy.allocate(wanted, each)
    except AllocationError as failure:
        error = str(failure)
    assert error == case.get("error", "")
    if not error:
        check(state, case)


@pytest.mark.parametrize("case", cases("memory", "remove"))
def test_memory_is_taken_back_as_kubelet_does(case: dict[str, Any]) -> None:
    state = state_of(case)
    policy_of(case, state).remove("pod1", "container1")
    check(state, case)


@pytest.mark.parametrize("case", cases("memory", "hints"))
def test_hints_are_those_of_kubelet(case: dict[str, Any]) -> None:
    wanted = pod_of(case["pod"])
    hints = policy_of(case, state_of(case)).hints(wanted, wanted.spec.containers[0])
    assert {name: list(each or ()) for name, each in hints.items()} == hints_of(case)


@pytest.mark.parametrize("case", cases("memory", "pod_hints"))
def test_hints_of_pods_are_those_of_kubelet(case: dict[str, Any]) -> None:
    hints = policy_of(case, state_of(case)).pod_hints(pod_of(case["pod"]))
    assert {name: list(each or ()) for name, each in hints.items()} == hints_of(case)


def hints_of(case: dict[str, Any]) -> dict[str, list[Any]]:
    """The hints that a case expects."""
    return {name: [hint_of(one) for one in each] for name, each in (case.get("expected_hints") or {}).items()}


def two_nodes(state: MemoryState) -> StaticMemoryPolicy:
    """Two NUMA nodes of 4 GiB, the first of which keeps one."""
    nodes = [NumaNode(0, 4 * GIB), NumaNode(1, 4 * GIB)]
    policy = StaticMemoryPolicy(nodes, state, FixedAffinity(), {0: {"memory": GIB}, 1: {}})
    policy.start()
    return policy


def test_memory_of_init_containers_is_free_once_the_next_one_starts_but_sidecars_keep_theirs() -> None:
    state = MemoryState("Static")
    policy = two_nodes(state)
    sidecar = container("sidecar", memory="1Gi")
    sidecar.restart_policy = "Always"
    wanted = pod(container("app", memory="1Gi"), init=(container("init", memory="2Gi"), sidecar))
    for each in (*wanted.spec.init_containers, *wanted.spec.containers):
        policy.allocate(wanted, each)
    manager = MemoryManager(policy, state)
    assert manager.numa_nodes("pod", "app") == {0}
    manager.starts(wanted, "app")
    assert sorted(state.assignments["pod"]) == ["app", "sidecar"]


def test_a_state_survives_a_restart_and_another_reservation_does_not_fit_it(tmp_path: Path) -> None:
    before = MemoryState("Static", tmp_path / MEMORY_STATE)
    before.load()
    wanted = pod(container("app", memory="2Gi"))
    two_nodes(before).allocate(wanted, wanted.spec.containers[0])
    after = MemoryState("Static", tmp_path / MEMORY_STATE)
    after.load()
    assert after.machine == before.machine
    assert after.assignments == before.assignments == {"pod": {"app": [Block((0,), "memory", 2 * GIB)]}}
    two_nodes(after)
    smaller = StaticMemoryPolicy([NumaNode(0, 4 * GIB)], after, FixedAffinity(), {0: {"memory": GIB}})
    with pytest.raises(ResourceManagerError, match="the expected machine state is different from the real one"):
        smaller.start()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "unexpected end of JSON input"),
        ('{"policyName":"Static","machineState":{},"entries":{},"checksum":101010}', "checkpoint is corrupted"),
        ('{"policyName":"Static","machineState":[],"checksum":1}', "checkpoint is corrupted"),
        (
            '{"policyName":"None","machineState":{},"checksum":0}',
            '[memorymanager] configured policy "Static" differs from state checkpoint policy "None"',
        ),
    ],
)
def test_a_broken_checkpoint_is_refused_with_what_to_do(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / MEMORY_STATE
    path.write_text(content)
    with pytest.raises(CheckpointError) as failure:
        MemoryState("Static", path).load()
    assert str(failure.value) == (
        f"could not restore state from checkpoint: {message}, please drain this node and delete the memory manager checkpoint "
        f'file "{path}" before restarting Kubelet'
    )


def test_checkpoints_of_kubernetes_are_read_and_written_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / MEMORY_STATE
    table = '{"total":2048,"systemReserved":512,"allocatable":1536,"reserved":512,"free":1024}'
    content = (
        '{"policyName":"static","machineState":{"0":{"numberOfAssignments":0,"memoryMap":{"memory":'
        + table
        + '},"cells":[]}},"entries":{"pod":{"container1":[{"numaAffinity":[0],"type":"memory","size":512}]}},'
        '"checksum":4215593881}'
    )
    path.write_text(content)
    state = MemoryState("static", path)
    state.load()
    assert state.get("pod", "container1") == [Block((0,), "memory", 512)]
    state.save()
    assert path.read_text() == content


@pytest.mark.parametrize(
    ("node", "limits", "message"),
    [
        (2, {"memory": "1Gi"}, "references a NUMA node 2 that does not exist on this machine"),
        (0, {"memory": "2Gi"}, 'the total amount "2Gi" of type "memory" is not equal to the value "1Gi"'),
        (0, {"memory": "1Gi", "hugepages-1Gi": "1Gi"}, 'the total amount "1Gi" of type "hugepages-1Gi" is not equal'),
    ],
)
def test_reservations_must_be_those_of_the_node(node: int, limits: dict[str, str | int], message: str) -> None:
    with pytest.raises(ResourceManagerError, match=message):
        reserved_memory([MemoryReservation(numa_node=node, limits=limits)], [0, 1], {"memory": "1Gi", "cpu": "1"})


class Memory(RuleBasedStateMachine):
    """Pods come and go in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.state = MemoryState("Static")
        self.policy = two_nodes(self.state)

    @rule(uid=st.sampled_from("abcd"), sizes=st.lists(st.integers(1, 5), min_size=1, max_size=2))
    def admit(self, uid: str, sizes: list[int]) -> None:
        wanted = pod(*(container(f"c{index}", memory=f"{each}Gi") for index, each in enumerate(sizes)), uid=uid)
        if uid in self.state.assignments:
            return
        try:
            for each in wanted.spec.containers:
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
    def what_is_given_is_no_more_than_there_is(self) -> None:
        tables = [each.tables["memory"] for each in self.state.machine.values()]
        assert all(each.free >= 0 and each.reserved + each.free == each.allocatable for each in tables)
        given = sum(
            block.size for each in self.state.assignments.values() for blocks in each.values() for block in blocks
        )
        assert sum(each.reserved for each in tables) == given

    @invariant()
    def an_empty_machine_has_no_groups(self) -> None:
        if not self.state.assignments:
            assert [each.cells for each in self.state.machine.values()] == [[0], [1]]


TestMemory = Memory.TestCase
TestMemory.settings = settings(max_examples=50, stateful_step_count=20, deadline=None)
