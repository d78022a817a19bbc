"""NodePorts: two pods on one node cannot take the same host port."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from bayplan.scheduler.framework.events import Action, EventHint, left_node
from bayplan.scheduler.framework.extension_points import FilterPlugin, PreFilterPlugin, Scope
from bayplan.scheduler.framework.state import CycleState, PodInfo, PodShape
from bayplan.scheduler.framework.verdicts import SKIP, Codes, Narrow, Reject, Skip, Status
from bayplan.scheduler.snapshot.labels import Rows
from bayplan.scheduler.snapshot.shape import HostPort, host_ports

ANY_ADDRESS = "0.0.0.0"


def addresses_conflict(wanted: str, used: dict[str, int]) -> bool:
    """Whether an address (0.0.0.0: all of them) collides with those in use for the same port."""
    return bool(used) and (wanted == ANY_ADDRESS or wanted in used or ANY_ADDRESS in used)


class NodePorts(PreFilterPlugin, FilterPlugin):
    """Refuses nodes on which a wanted host port is taken."""

    name = "NodePorts"
    filter_scope = Scope.ROW
    filter_alone = 'reading "PreFilterNodePorts" from cycleState: not found'

    def reads(self, pod: PodShape) -> Hashable | None:
        return pod.host_ports

    def pre_filter(self, state: CycleState, pod: PodShape) -> Skip | Narrow | Reject | None:
        return None if pod.host_ports else SKIP

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        taken = np.zeros(self.snapshot.size, dtype=np.int32)
        code = self._code()
        for port in pod.host_ports:
            for row, used in self.snapshot.ports.get((port.protocol, port.port), {}).items():
                if addresses_conflict(port.ip, used):
                    taken[row] = code
        return taken[rows]

    def filter_row(self, state: CycleState, pod: PodShape, row: int) -> int:
        return self._code() if any(self._is_taken(port, row) for port in pod.host_ports) else 0

    def _is_taken(self, port: HostPort, row: int) -> bool:
        return addresses_conflict(port.ip, self.snapshot.ports.get((port.protocol, port.port), {}).get(row, {}))

    def _code(self) -> int:
        return self.reasons.code(
            Status.UNSCHEDULABLE, self.name, "node(s) didn't have free ports for the requested pod ports"
        )

    def events(self) -> tuple[EventHint, ...]:
        return (EventHint("Pod", Action.DELETE, _frees_port), EventHint("Node", Action.ADD))


def _frees_port(pod: PodInfo, old: Any, new: Any) -> bool:
    freed = host_ports(old.spec) if left_node(old) else ()
    return any(
        (port.protocol, port.port) == (one.protocol, one.port) and addresses_conflict(port.ip, {one.ip: 1})
        for port in pod.host_ports
        for one in freed
    )
