"""How much memory of which NUMA node is given to whom, and its checkpoint `memory_manager_state` in kubelet's format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from bayplan.kubelet.resource_managers.assignments import Assignments
from bayplan.kubelet.resource_managers.checkpoint import CORRUPT, checksum, go_list, go_map
from bayplan.kubelet.resource_managers.errors import CheckpointError

MEMORY_STATE: Final = "memory_manager_state"


class MemoryTable(msgspec.Struct):
    """Memory of one kind on a NUMA node, in bytes: all, what the system keeps, the rest, and what of that is given away and what is free."""

    total: int
    system_reserved: int = msgspec.field(name="systemReserved")
    allocatable: int
    reserved: int
    free: int


class NodeMemory(msgspec.Struct):
    """A NUMA node: `assignments` counts memory blocks that it has a part in, `cells` are the nodes with which it shares them, itself included."""

    assignments: int = msgspec.field(name="numberOfAssignments")
    tables: dict[str, MemoryTable] = msgspec.field(name="memoryMap")
    cells: list[int]


class Block(msgspec.Struct, frozen=True):
    """Bytes of memory, or of huge pages of one size, that a container gets from NUMA nodes."""

    numa_affinity: tuple[int, ...] = msgspec.field(name="numaAffinity")
    type: str
    size: int


Machine = dict[int, NodeMemory]


class _Checkpoint(msgspec.Struct):
    policy: str = msgspec.field(name="policyName")
    machine: dict[int, NodeMemory] | None = msgspec.field(name="machineState")
    checksum: int
    entries: dict[str, dict[str, list[Block]]] = {}


class MemoryState(Assignments[list[Block]]):
    """`machine` is NUMA node -> its memory."""

    kind = "memory"

    def __init__(self, policy: str, path: Path | None = None) -> None:
        super().__init__(policy, path)
        self.machine: Machine = {}

    def restore(self, tree: Mapping[str, Any]) -> None:
        """See Assignments."""
        try:
            found = msgspec.convert(dict(tree), _Checkpoint, strict=False)
        except msgspec.ValidationError as error:
            raise CheckpointError(CORRUPT) from error
        machine = found.machine or {}
        if found.checksum and found.checksum != _checksum(found.policy, machine, found.entries):
            raise CheckpointError(CORRUPT)
        if found.policy != self.policy:
            raise CheckpointError(
                f'[memorymanager] configured policy "{self.policy}" differs from state checkpoint policy "{found.policy}"'
            )
        self.machine, self.assignments = machine, found.entries

    def tree(self) -> dict[str, Any]:
        """See Assignments."""
        tree: dict[str, Any] = {"policyName": self.policy, "machineState": msgspec.to_builtins(self._text_keys())}
        if self.assignments:
            tree["entries"] = msgspec.to_builtins(self.assignments)
        return {**tree, "checksum": _checksum(self.policy, self.machine, self.assignments)}

    def _text_keys(self) -> dict[str, NodeMemory]:
        return {str(node): memory for node, memory in self.machine.items()}


def _checksum(policy: str, machine: Machine, entries: Mapping[str, Mapping[str, list[Block]]]) -> int:
    """Of the struct in which kubelet holds the checkpoint."""
    nodes = go_map(machine, _go_node)
    blocks = go_map(entries, lambda containers: go_map(containers, lambda each: go_list(map(_go_block, each))))
    return checksum(
        f"(*state.MemoryManagerCheckpoint){{PolicyName:(string){policy} MachineState:(state.NUMANodeMap){nodes} "
        f"Entries:(state.ContainerMemoryAssignments){blocks} Checksum:(checksum.Checksum)0}}"
    )


def _go_node(node: NodeMemory) -> str:
    tables = go_map(node.tables, _go_table)
    return (
        f"<*>{{NumberOfAssignments:(int){node.assignments} MemoryMap:(map[v1.ResourceName]*state.MemoryTable){tables} "
        f"Cells:([]int){go_list(node.cells)}}}"
    )


def _go_table(table: MemoryTable) -> str:
    return (
        f"<*>{{TotalMemSize:(uint64){table.total} SystemReserved:(uint64){table.system_reserved} "
        f"Allocatable:(uint64){table.allocatable} Reserved:(uint64){table.reserved} Free:(uint64){table.free}}}"
    )


def _go_block(block: Block) -> str:
    affinity = go_list(block.numa_affinity)
    return f"{{NUMAAffinity:([]int){affinity} Type:(v1.ResourceName){block.type} Size:(uint64){block.size}}}"
