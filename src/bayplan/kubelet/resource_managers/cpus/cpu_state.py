"""Which CPUs are given to whom, and its checkpoint `cpu_manager_state` in kubelet's format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bayplan.kubelet.resource_managers.assignments import Assignments
from bayplan.kubelet.resource_managers.checkpoint import CORRUPT, checksum, go_map
from bayplan.kubelet.resource_managers.cpus.cpu_set import NONE, CpuSet, format_cpu_set, parse_cpu_set
from bayplan.kubelet.resource_managers.errors import CheckpointError

CPU_STATE: Final = "cpu_manager_state"


class CpuState(Assignments[CpuSet]):
    """`shared` are the CPUs of all containers that have none of their own."""

    kind = "CPU"

    def __init__(self, policy: str, path: Path | None = None, shared: CpuSet = NONE) -> None:
        super().__init__(policy, path)
        self.shared = shared

    def of(self, uid: str, container: str) -> CpuSet:
        """The CPUs on which a container runs."""
        own = self.get(uid, container)
        return self.shared if own is None else own

    def assigned(self) -> CpuSet:
        """All CPUs that are some container's own."""
        return NONE.union(*(cpus for containers in self.assignments.values() for cpus in containers.values()))

    def restore(self, tree: Mapping[str, Any]) -> None:
        """See Assignments."""
        policy, shared, entries = tree.get("policyName", ""), tree.get("defaultCpuSet", ""), tree.get("entries") or {}
        if not (isinstance(policy, str) and isinstance(shared, str) and _is_nested(entries)):
            raise CheckpointError(CORRUPT)
        given = tree.get("checksum", 0)
        if given and given != _checksum(policy, shared, entries):
            raise CheckpointError(CORRUPT)
        if policy != self.policy:
            raise CheckpointError(f'configured policy "{self.policy}" differs from state checkpoint policy "{policy}"')
        self.shared = _parsed(shared, "default cpu set")
        self.assignments = {
            uid: {name: _parsed(text, f'cpuset for container "{name}" in pod "{uid}"') for name, text in each.items()}
            for uid, each in entries.items()
        }

    def tree(self) -> dict[str, Any]:
        """See Assignments."""
        entries = {
            uid: {name: format_cpu_set(cpus) for name, cpus in each.items()} for uid, each in self.assignments.items()
        }
        shared = format_cpu_set(self.shared)
        tree: dict[str, Any] = {"policyName": self.policy, "defaultCpuSet": shared}
        if entries:
            tree["entries"] = entries
        return {**tree, "checksum": _checksum(self.policy, shared, entries)}


def _parsed(text: str, what: str) -> CpuSet:
    try:
        return parse_cpu_set(text)
    except ValueError as error:
        raise CheckpointError(f'could not parse {what} "{text}": {error}') from error


def _is_nested(entries: object) -> bool:
    return isinstance(entries, dict) and all(
        isinstance(each, dict) and all(isinstance(text, str) for text in each.values()) for each in entries.values()
    )


def _checksum(policy: str, shared: str, entries: Mapping[str, Mapping[str, str]]) -> int:
    """Of the struct in which kubelet holds the checkpoint."""
    printed = go_map(entries, lambda containers: go_map(containers, str))
    return checksum(
        f"(*state.CPUManagerCheckpoint){{PolicyName:(string){policy} DefaultCPUSet:(string){shared} "
        f"Entries:(map[string]map[string]string){printed} Checksum:(checksum.Checksum)0}}"
    )
