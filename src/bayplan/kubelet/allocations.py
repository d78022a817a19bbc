"""Records of the resources of pods that outlive the kubelet: what was allocated to them, and what they have got.

Memory requests are nowhere in cgroups, so the runtime alone cannot tell. Kubernetes keeps the same two records (allocated_pods_state,
actuated_pods_state in the kubelet's directory).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import msgspec

from bayplan.api.types import core_v1
from bayplan.kubelet.core.resize import Allocation
from bayplan.support.blocking import Blocking
from bayplan.support.system.private_files import write_private

logger = logging.getLogger(__name__)

ALLOCATED, ACTUATED = "allocated_pods_state", "actuated_pods_state"


class AllocationRecords:
    """Resources by pod uid, in a file that is written soon after every change.

    What a kubelet that is killed has not written yet is found out again: pods are allocated what their specs ask for, and resized to that. Nothing waits for the
    disk, which runtimes keep busy while pods start: after a crash of the machine no container runs that a record could be about. Pods run on when the file cannot
    be written, as on a full disk: that is logged, and the next change writes all of it.
    """

    def __init__(self, path: Path | None, blocking: Blocking) -> None:
        """path: None to keep nothing beyond this process."""
        self._path = path
        self._blocking = blocking
        self._pods: dict[str, Allocation] = {}
        self._is_written = True
        self._writing: asyncio.Task[None] | None = None

    def load(self) -> None:
        """Read what an earlier kubelet left. A file that cannot be read counts as none: pods are then allocated what their specs ask for."""
        if self._path is None or not self._path.exists():
            return
        try:
            self._pods = msgspec.json.decode(self._path.read_bytes(), type=dict[str, Allocation])
        except (OSError, msgspec.MsgspecError) as error:
            logger.error("%s is left out: %s", self._path, error)

    def get(self, uid: str) -> Allocation | None:
        """The record of a pod, if there is one."""
        return self._pods.get(uid)

    def set(self, uid: str, allocation: Allocation) -> None:
        """Record a pod."""
        if self._pods.get(uid) != allocation:
            self._pods[uid] = allocation
            self._save()

    def set_container(self, uid: str, name: str, resources: core_v1.ResourceRequirements) -> None:
        """Record one container of a pod."""
        known = self._pods.get(uid) or Allocation()
        self.set(uid, msgspec.structs.replace(known, containers={**known.containers, name: resources}))

    def retain(self, uids: Iterable[str]) -> None:
        """Forget all other pods."""
        gone = self._pods.keys() - set(uids)
        for uid in gone:
            del self._pods[uid]
        if gone:
            self._save()

    async def close(self) -> None:
        """Return when everything is written."""
        if self._writing is not None:
            await self._writing

    def _save(self) -> None:
        self._is_written = False
        if self._path is not None and self._writing is None:
            self._writing = asyncio.create_task(self._write(self._path))

    async def _write(self, path: Path) -> None:
        """Write until nothing has changed meanwhile."""
        try:
            while not self._is_written:
                self._is_written = True
                data = msgspec.json.encode(self._pods)
                await self._blocking(partial(write_private, path, data, durable=False))
        except OSError as error:
            logger.error("%s is not up to date, a restart of the kubelet forgets allocations: %s", path, error)
        finally:
            self._writing = None
