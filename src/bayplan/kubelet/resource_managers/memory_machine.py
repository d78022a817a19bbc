"""Memory of NUMA nodes that is given away and taken back. Nodes that one container spans are a group, which nothing but the same group may use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bayplan.kubelet.resource_managers.errors import ResourceManagerError
from bayplan.kubelet.resource_managers.memory_state import Block, Machine, MemoryTable
from bayplan.kubelet.resource_managers.topology_hints import NumaNodes


def table_of(size: int, reserved: int, pages: int) -> MemoryTable:
    """Memory of which nothing is given away: `reserved` bytes are the system's, `pages` bytes are huge pages."""
    allocatable = size - reserved - pages
    return MemoryTable(size, reserved, allocatable, 0, allocatable)


def total(machine: Machine, nodes: NumaNodes, name: str, side: str) -> int:
    """What nodes have of a resource on one side, such as `free`."""
    tables = (machine[node].tables.get(name) for node in nodes)
    return sum(getattr(table, side) for table in tables if table is not None)


def has_free(machine: Machine, nodes: NumaNodes, wanted: Mapping[str, int]) -> bool:
    """Whether nodes have enough left of everything."""
    return all(total(machine, nodes, name, "free") >= size for name, size in wanted.items())


def may_group(machine: Machine, nodes: NumaNodes) -> bool:
    """Whether memory may be taken from exactly these nodes."""
    if len(nodes) == 1:
        return all(len(machine[node].cells) <= 1 for node in nodes)
    return not breaks_group(machine, nodes)


def breaks_group(machine: Machine, nodes: NumaNodes) -> bool:
    """Whether a node of several is used by others than exactly these."""
    used = [machine[node] for node in nodes if machine[node].assignments]
    return len(nodes) > 1 and any(len(each.cells) == 1 or set(each.cells) != nodes for each in used)


def assign(machine: Machine, nodes: Sequence[int], name: str, size: int) -> None:
    """Give away memory of nodes, of the first ones first."""
    for node in nodes:
        memory = machine[node]
        memory.assignments += 1
        memory.cells = list(nodes)
        table = memory.tables.get(name)
        if table is not None and table.free > 0:
            taken = min(table.free, size)
            table.reserved += taken
            table.free -= taken
            size -= taken


def assign_known(machine: Machine, block: Block, uid: str, container: str) -> None:
    """Give away what a checkpoint says. Raises ResourceManagerError."""
    for node in block.numa_affinity:
        begin = f"[memorymanager] (pod: {uid}, container: {container}) the memory assignment uses"
        if node not in machine:
            raise ResourceManagerError(f"{begin} the NUMA that does not exist")
        if block.type not in machine[node].tables:
            raise ResourceManagerError(f"{begin} memory resource that does not exist")
    assign(machine, block.numa_affinity, block.type, block.size)


def release(machine: Machine, block: Block) -> None:
    """Take the memory of a block back."""
    left = block.size
    for node in block.numa_affinity:
        memory = machine[node]
        memory.assignments -= 1
        if not memory.assignments:
            memory.cells = [node]
        table = memory.tables.get(block.type)
        if table is not None:
            given = min(table.reserved, left)
            table.free += given
            table.reserved -= given
            left -= given


def are_equal(one: Machine, other: Machine) -> bool:
    """Whether two machines are the same, and groups of nodes have the same memory left together; single nodes of a group may differ."""
    if one.keys() != other.keys():
        return False
    for node, memory in one.items():
        expected = other[node]
        if memory.assignments != expected.assignments or sorted(memory.cells) != sorted(expected.cells):
            return False
        if memory.tables.keys() != expected.tables.keys() or not set(memory.cells) <= one.keys():
            return False
        for name, table in memory.tables.items():
            if _fixed(table) != _fixed(expected.tables[name]):
                return False
            group = frozenset(memory.cells)
            if any(total(one, group, name, side) != total(other, group, name, side) for side in ("free", "reserved")):
                return False
    return True


def _fixed(table: MemoryTable) -> tuple[int, int, int]:
    return table.total, table.system_reserved, table.allocatable
