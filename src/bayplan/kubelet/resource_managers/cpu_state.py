"""Which CPUs are given to whom, and its checkpoint `cpu_manager_state` in kubelet's format."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bayplan.kubelet.resource_managers.checkpoint import CORRUPT, checksum, go_map, read_checkpoint, write_checkpoint
from bayplan.kubelet.resource_managers.cpu_set import NONE, CpuSet, format_cpu_set, parse_cpu_set
from bayplan.kubelet.resource_managers.errors import CheckpointError

logger = logging.getLogger(__name__)

CPU_STATE: Final = "cpu_manager_state"


@dataclass(slots=True)
class CpuState:
    """`shared` are the CPUs of all containers that have none of their own; `assignments` pod uid -> container -> its CPUs.

    `path` is that of the checkpoint, None to keep nothing; it is written at every `save`.
    """

    policy: str
    path: Path | None = None
    shared: CpuSet = NONE
    assignments: dict[str, dict[str, CpuSet]] = field(default_factory=dict)

    def get(self, uid: str, container: str) -> CpuSet | None:
        """The CPUs of a container's own, if it has any."""
        return self.assignments.get(uid, {}).get(container)

    def of(self, uid: str, container: str) -> CpuSet:
        """The CPUs on which a container runs."""
        own = self.get(uid, container)
        return self.shared if own is None else own

    def assigned(self) -> CpuSet:
        """All CPUs that are some container's own."""
        return NONE.union(*(cpus for containers in self.assignments.values() for cpus in containers.values()))

    def set(self, uid: str, container: str, cpus: CpuSet) -> None:
        """Give a container its CPUs."""
        self.assignments.setdefault(uid, {})[container] = cpus

    def remove(self, uid: str, container: str) -> CpuSet | None:
        """Take them back; what it had."""
        containers = self.assignments.get(uid, {})
        found = containers.pop(container, None)
        if uid in self.assignments and not containers:
            del self.assignments[uid]
        return found

    def load(self) -> None:
        """Read the checkpoint; where there is none, write one. Raises CheckpointError."""
        if self.path is None:
            return
        try:
            tree = read_checkpoint(self.path)
            if tree is None:
                self._write()
                return
            self._restore(tree)
        except (CheckpointError, ValueError) as error:
            raise CheckpointError(
                f"could not restore state from checkpoint: {error}, please drain this node and delete the CPU manager checkpoint "
                f'file "{self.path}" before restarting Kubelet'
            ) from error

    def _restore(self, tree: Mapping[str, Any]) -> None:
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

    def save(self) -> None:
        """Write the checkpoint. Containers run on when that fails, as on a full disk; the next change writes all of it."""
        try:
            self._write()
        except CheckpointError as error:
            logger.error("a restart of the kubelet forgets who has which CPUs: %s", error)

    def _write(self) -> None:
        if self.path is None:
            return
        entries = {
            uid: {name: format_cpu_set(cpus) for name, cpus in each.items()} for uid, each in self.assignments.items()
        }
        shared = format_cpu_set(self.shared)
        tree: dict[str, Any] = {"policyName": self.policy, "defaultCpuSet": shared}
        if entries:
            tree["entries"] = entries
        write_checkpoint(self.path, {**tree, "checksum": _checksum(self.policy, shared, entries)})


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
