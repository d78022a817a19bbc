"""Pods that were promised a node: preemption made room there, and others of lower priority must not take it."""

from __future__ import annotations

from typing import Final

from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.scheduler.snapshot.snapshot import Snapshot

_MAX_LOG: Final = 1 << 16


class Nominator:
    """Nominated pods by node name, with a log of the nodes where they changed."""

    __slots__ = ("_by_node", "_log", "_log_start", "_node_of")

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._node_of: dict[str, str] = {}
        self._log: list[str] = []
        self._log_start = 0

    def __len__(self) -> int:
        return len(self._node_of)

    def add(self, pod: PodInfo, node_name: str) -> None:
        """Nominate a pod to a node; an earlier nomination is replaced."""
        self.remove(pod.key)
        self._by_node.setdefault(node_name, {})[pod.key] = pod
        self._node_of[pod.key] = node_name
        self._record(node_name)

    def remove(self, key: str) -> None:
        """Take a pod's nomination away, if it has one."""
        node_name = self._node_of.pop(key, None)
        if node_name is not None:
            pods = self._by_node[node_name]
            del pods[key]
            if not pods:
                del self._by_node[node_name]
            self._record(node_name)

    def _record(self, node_name: str) -> None:
        self._log.append(node_name)
        if len(self._log) >= _MAX_LOG:
            drop = _MAX_LOG // 2
            del self._log[:drop]
            self._log_start += drop

    @property
    def position(self) -> int:
        """The end of the log."""
        return self._log_start + len(self._log)

    def changed_since(self, position: int) -> list[str] | None:
        """Nodes whose nominated pods changed since a position (with repeats); None if the log no longer reaches back."""
        return self._log[position - self._log_start :] if position >= self._log_start else None

    def node_of(self, key: str) -> str:
        """The node a pod is nominated to, empty if none."""
        return self._node_of.get(key, "")

    def on(self, node_name: str) -> list[PodInfo]:
        """The pods nominated to a node."""
        pods = self._by_node.get(node_name)
        return list(pods.values()) if pods is not None else []

    def nodes(self) -> list[str]:
        """The nodes with nominated pods."""
        return list(self._by_node)


class NominatedReservations:
    """The nominated pods that pods of some priority must not push aside: those of equal or higher priority."""

    __slots__ = ("_nominator", "_priority", "_snapshot")

    def __init__(self, nominator: Nominator, snapshot: Snapshot, priority: int) -> None:
        self._nominator = nominator
        self._snapshot = snapshot
        self._priority = priority

    @property
    def position(self) -> int:
        """The end of the nominator's log."""
        return self._nominator.position

    def rows_since(self, position: int) -> list[int] | None:
        """Rows on which promises may have changed since a position of the log; None if all may."""
        names = self._nominator.changed_since(position)
        return None if names is None else self._rows(names)

    def rows(self) -> list[int]:
        """All rows with promises, of whatever priority."""
        return self._rows(self._nominator.nodes())

    def _rows(self, names: list[str]) -> list[int]:
        row_of = self._snapshot.row_of
        return [row_of[name] for name in dict.fromkeys(names) if name in row_of]

    def on(self, row: int) -> list[PodInfo]:
        """The pods that a row is promised to."""
        pods = self._nominator.on(self._snapshot.name(row))
        return [pod for pod in pods if pod.priority >= self._priority]
