"""What containers were given of one kind, and its checkpoint: read when the kubelet starts, written at every change."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from bayplan.kubelet.resource_managers.checkpoint import read_checkpoint, write_checkpoint
from bayplan.kubelet.resource_managers.errors import CheckpointError

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Assignments(ABC, Generic[T]):
    """`assignments` is pod uid -> container -> what it was given. kind: CPU or memory, as messages name it."""

    kind: ClassVar[str]

    def __init__(self, policy: str, path: Path | None = None) -> None:
        """path: of the checkpoint; None to keep nothing."""
        self.policy = policy
        self.path = path
        self.assignments: dict[str, dict[str, T]] = {}

    def get(self, uid: str, container: str) -> T | None:
        """What a container was given, if it was given anything."""
        return self.assignments.get(uid, {}).get(container)

    def set(self, uid: str, container: str, given: T) -> None:
        """Give a container what is its own."""
        self.assignments.setdefault(uid, {})[container] = given

    def remove(self, uid: str, container: str) -> T | None:
        """Take it back; what the container had."""
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
            else:
                self.restore(tree)
        except CheckpointError as error:
            raise CheckpointError(
                f"could not restore state from checkpoint: {error}, please drain this node and delete the {self.kind} manager "
                f'checkpoint file "{self.path}" before restarting Kubelet'
            ) from error

    def save(self) -> None:
        """Write the checkpoint. Containers run on when that fails, as on a full disk; the next change writes all of it."""
        try:
            self._write()
        except CheckpointError as error:
            logger.error("a restart of the kubelet forgets what the %s manager has given: %s", self.kind, error)

    def _write(self) -> None:
        if self.path is not None:
            write_checkpoint(self.path, self.tree())

    @abstractmethod
    def restore(self, tree: Mapping[str, Any]) -> None:
        """Take over what a checkpoint holds. Raises CheckpointError."""

    @abstractmethod
    def tree(self) -> dict[str, Any]:
        """What the checkpoint is to hold."""
