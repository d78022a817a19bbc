"""Gives the memory of Guaranteed containers from as few NUMA nodes as can hold it (the Static policy of pkg/kubelet/cm/memorymanager). Pure but for the state.

A NUMA node is used either for containers that fit into one node, or for those that span several: then all of these are a group, and nothing but the
same group may use them, until the last of its containers has gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from bayplan.api.types import core_v1
from bayplan.kubelet.node.status import page_size
from bayplan.kubelet.resource_managers.errors import AllocationError, ResourceManagerError
from bayplan.kubelet.resource_managers.machine_topology import NumaNode
from bayplan.kubelet.resource_managers.manager_metrics import ManagerMetrics
from bayplan.kubelet.resource_managers.memory_machine import (
    are_equal,
    assign,
    assign_known,
    breaks_group,
    has_free,
    may_group,
    release,
    table_of,
    total,
)
from bayplan.kubelet.resource_managers.memory_state import Block, Machine, MemoryState, NodeMemory
from bayplan.kubelet.resource_managers.requests import (
    MEMORY,
    at_most,
    containers_of,
    is_init_container,
    memory_requests,
)
from bayplan.kubelet.resource_managers.topology_hints import (
    Affinities,
    Hints,
    NumaNodes,
    TopologyHint,
    is_narrower,
    masks,
    prefer_narrowest,
)

Reserved = Mapping[int, Mapping[str, int]]
"""NUMA node -> resource -> bytes that the system keeps."""


class StaticMemoryPolicy:
    """See the module."""

    def __init__(
        self,
        nodes: Sequence[NumaNode],
        state: MemoryState,
        affinities: Affinities,
        reserved: Reserved,
        metrics: ManagerMetrics | None = None,
    ) -> None:
        """Raises ResourceManagerError where the system keeps nothing."""
        if not sum(each.get(MEMORY, 0) for each in reserved.values()):
            raise ResourceManagerError("[memorymanager] you should specify the system reserved memory")
        self._nodes = nodes
        self._state = state
        self._affinities = affinities
        self._reserved = reserved
        self._metrics = metrics if metrics is not None else ManagerMetrics()
        self._reusable: dict[str, dict[tuple[NumaNodes, str], int]] = {}
        """Pod uid -> (NUMA nodes, resource) -> bytes of its init containers, which those after them may have."""

    def start(self) -> None:
        """Take the machine in, or check what a checkpoint says of it. Raises ResourceManagerError."""
        state, machine = self._state, self.machine()
        if not state.machine:
            if state.assignments:
                raise ResourceManagerError(
                    "[memorymanager] machine state can not be empty when it has memory assignments"
                )
            state.machine = machine
            state.save()
            return
        for uid, containers in state.assignments.items():
            for name, blocks in containers.items():
                for block in blocks:
                    assign_known(machine, block, uid, name)
        if not are_equal(state.machine, machine):
            raise ResourceManagerError("[memorymanager] the expected machine state is different from the real one")

    def machine(self) -> Machine:
        """The machine when nothing is given away. Huge pages are no memory for others."""
        return {node.id: self._node(node) for node in self._nodes}

    def _node(self, node: NumaNode) -> NodeMemory:
        reserved, tables = self._reserved.get(node.id, {}), {}
        for size, number in node.hugepages.items():
            name = f"hugepages-{page_size(size)}"
            tables[name] = table_of(size * number, reserved.get(name, 0), 0)
        pages = sum(each.total for each in tables.values())
        tables[MEMORY] = table_of(node.memory, reserved.get(MEMORY, 0), pages)
        return NodeMemory(0, tables, [node.id])

    def allocatable(self) -> list[Block]:
        """What containers may have, by NUMA node."""
        return [
            Block((node,), name, table.allocatable)
            for node, memory in sorted(self._state.machine.items())
            for name, table in memory.tables.items()
            if table.allocatable
        ]

    def allocate(self, pod: core_v1.Pod, container: core_v1.Container) -> None:
        """Give a container its memory, if its pod is managed. Raises AllocationError."""
        wanted = memory_requests(pod, container)
        if wanted:
            with self._metrics.pinning_memory():
                self._allocate(pod, container, wanted)

    def _allocate(self, pod: core_v1.Pod, container: core_v1.Container, wanted: Mapping[str, int]) -> None:
        uid, state = pod.metadata.uid, self._state
        known = state.get(uid, container.name)
        if known is not None:
            self._keep_reusable(pod, container, known)
            return
        nodes = self._choose(uid, container.name, wanted)
        bits, blocks = tuple(sorted(nodes)), []
        for name, size in sorted(wanted.items()):
            blocks.append(Block(bits, name, size))
            assign(state.machine, bits, name, max(0, size - self._reusable_size(uid, nodes, name)))
        self._keep_reusable(pod, container, blocks)
        state.set(uid, container.name, blocks)
        self._shrink_init_containers(pod, container, blocks)
        state.save()

    def _choose(self, uid: str, container: str, wanted: Mapping[str, int]) -> NumaNodes:
        """The NUMA nodes of a container: those that were decided, or more of them where these cannot hold it. Raises AllocationError."""
        hint, machine = self._affinities.affinity(uid, container), self._state.machine
        preferred, nodes = hint.preferred, hint.affinity
        if nodes is None:
            found = best_hint(self._hints(uid, wanted).get(MEMORY) or ())
            if found is None:
                raise AllocationError(
                    "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
                )
            nodes = _checked(found, preferred, "default")
            preferred = found.preferred
        if not has_free(machine, nodes, wanted):
            wider = [each for each in self._hints(uid, wanted).get(MEMORY) or () if nodes <= (each.affinity or nodes)]
            found = best_hint(wider)
            if found is None:
                raise AllocationError("[memorymanager] failed to find NUMA nodes to extend the current topology hint")
            nodes = _checked(found, preferred, "extended")
        if breaks_group(machine, nodes):
            raise AllocationError("[memorymanager] preferred hint violates NUMA node allocation")
        return nodes

    def hints(self, pod: core_v1.Pod, container: core_v1.Container) -> Hints:
        """From where a container's memory can come."""
        wanted = memory_requests(pod, container)
        blocks = self._state.get(pod.metadata.uid, container.name)
        if blocks is not None:
            return _hints_again(blocks, wanted)
        return self._hints(pod.metadata.uid, wanted) if wanted else {}

    def pod_hints(self, pod: core_v1.Pod) -> Hints:
        """From where the memory of all containers of a pod can come."""
        of_containers = at_most(pod, lambda container: memory_requests(pod, container))
        own = {name for each in pod.spec.containers for name in memory_requests(pod, each)}
        wanted = {name: size for name, size in of_containers.items() if name in own}
        if not wanted:
            return {}
        for container in containers_of(pod):
            blocks = self._state.get(pod.metadata.uid, container.name)
            if blocks is not None:
                return _hints_again(blocks, wanted)
        return self._hints(pod.metadata.uid, wanted)

    def _hints(self, uid: str, wanted: Mapping[str, int]) -> Hints:
        """The sets of NUMA nodes that may be used together and have enough; preferred are those as small as an empty machine would allow."""
        machine = self._state.machine
        smallest = len(machine)
        found = []
        for mask in masks(sorted(machine)):
            if any(total(machine, mask, name, "allocatable") < size for name, size in wanted.items()):
                continue
            smallest = min(smallest, len(mask))
            if not may_group(machine, mask):
                continue
            if all(
                total(machine, mask, name, "free") + self._reusable_size(uid, mask, name) >= size
                for name, size in wanted.items()
            ):
                found.append(mask)
        return dict.fromkeys(wanted, prefer_narrowest(found, smallest)) if found else {}

    def forget_reusable(self, uid: str) -> None:
        """The pod has been admitted or not: none of its containers comes any more."""
        self._reusable.pop(uid, None)

    def _reusable_size(self, uid: str, nodes: NumaNodes, name: str) -> int:
        return self._reusable.get(uid, {}).get((nodes, name), 0)

    def _keep_reusable(self, pod: core_v1.Pod, container: core_v1.Container, blocks: Iterable[Block]) -> None:
        """What an init container has can be used again; what another one has got of it cannot."""
        reusable = self._reusable.setdefault(pod.metadata.uid, {})
        is_init = is_init_container(pod, container.name)
        for block in blocks:
            key = frozenset(block.numa_affinity), block.type
            has = reusable.get(key, 0)
            reusable[key] = max(has, block.size) if is_init else max(0, has - block.size)

    def _shrink_init_containers(self, pod: core_v1.Pod, container: core_v1.Container, blocks: Iterable[Block]) -> None:
        """Take what a container has got from init containers out of their blocks, so that the sum of all blocks is what the pod has."""
        for block in blocks:
            left = block.size
            for earlier in pod.spec.init_containers:
                if earlier.name == container.name or not left:
                    break
                if earlier.restart_policy != "Always":
                    left = self._shrink(pod.metadata.uid, earlier.name, block, left)

    def _shrink(self, uid: str, name: str, like: Block, size: int) -> int:
        """Shrink the blocks of one container that are like another one; what is left of `size`."""
        blocks = self._state.get(uid, name) or []
        for index, each in enumerate(blocks):
            if each.type == like.type and set(each.numa_affinity) == set(like.numa_affinity):
                taken = min(each.size, size)
                blocks[index] = msgspec.structs.replace(each, size=each.size - taken)
                size -= taken
        return size

    def remove(self, uid: str, container: str) -> None:
        """Take a container's memory back."""
        blocks = self._state.remove(uid, container) or []
        for block in blocks:
            release(self._state.machine, block)
        if blocks:
            self._state.save()


def best_hint(hints: Iterable[TopologyHint]) -> TopologyHint | None:
    """The preferred hint with the fewest NUMA nodes; None of none."""
    best: TopologyHint | None = None
    for hint in hints:
        if (
            best is None
            or best.affinity is None
            or hint.affinity is None
            or (hint.preferred and not best.preferred)
            or (hint.preferred == best.preferred and is_narrower(hint.affinity, best.affinity))
        ):
            best = hint
    return best


def _checked(hint: TopologyHint, preferred: bool, what: str) -> NumaNodes:
    """The nodes of a hint, which must be as good as the one before. Raises AllocationError."""
    if (preferred and not hint.preferred) or hint.affinity is None:
        raise AllocationError(f"[memorymanager] failed to find the {what} preferred hint")
    return hint.affinity


def _hints_again(blocks: Sequence[Block], wanted: Mapping[str, int]) -> Hints:
    """The hints of what has its memory already; none where it has another amount than it asks for."""
    if {each.type: each.size for each in blocks} != wanted or len(blocks) != len(wanted):
        return {}
    return {each.type: (TopologyHint(frozenset(each.numa_affinity), True),) for each in blocks}
