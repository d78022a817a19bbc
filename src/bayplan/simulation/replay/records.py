"""What became of each pod of a replay: where it was, how long it ran and waited, who took its place."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class PodRecord:
    """One pod. Times are in seconds of the workload."""

    arrived: float
    node: str = ""
    """Where it was placed first; "" while it has not been."""
    last_node: str = ""
    """Where it was placed last."""
    wait: float = 0.0
    """From its arrival to its first placement, or to the end if there was none."""
    running: float = 0.0
    """In all, over all placements."""
    waiting: float = 0.0
    """In all, before each of its placements."""
    preempted_by: list[str] = field(default_factory=list)
    """`namespace/name` of the pods that took its place, in order."""
    message: str = ""
    """What the scheduler said when it last found no node."""
    since: float = 0.0
    """Since when it waits or runs."""

    @property
    def was_placed(self) -> bool:
        """Whether it ran at all."""
        return bool(self.node)


@dataclass(slots=True)
class PodRecords:
    """The records of all pods by `namespace/name`, filled while a workload is played."""

    of: dict[str, PodRecord] = field(default_factory=dict)
    """A name that comes again has its number behind it, as in `shop/db-0 (2)`."""
    _latest: dict[str, PodRecord] = field(default_factory=dict)
    _times: dict[str, int] = field(default_factory=dict)

    def arrive(self, key: str, at: float) -> None:
        """A pod came."""
        number = self._times[key] = self._times.get(key, 0) + 1
        self.of[key if number == 1 else f"{key} ({number})"] = self._latest[key] = PodRecord(at, since=at)

    def current_name(self, key: str) -> str:
        """The name in `of` of the pod that has this name now."""
        number = self._times[key]
        return key if number == 1 else f"{key} ({number})"

    def place(self, key: str, node: str, at: float) -> None:
        """A pod was placed."""
        record = self._latest[key]
        if not record.node:
            record.node = node
            record.wait = at - record.arrived
        record.last_node = node
        record.waiting += at - record.since
        record.since = at

    def stop(self, key: str, at: float, by: str = "") -> None:
        """A pod runs no more: it is over, or another pod takes its place."""
        record = self._latest[key]
        record.running += at - record.since
        record.since = at
        if by:
            record.preempted_by.append(by)

    def give_up(self, key: str, at: float, message: str) -> None:
        """A pod ends while it waits, or the workload does."""
        record = self._latest[key]
        record.waiting += at - record.since
        record.since = at
        if not record.node:
            record.wait = at - record.arrived
            record.message = message

    def refuse(self, key: str, message: str) -> None:
        """No node was found for a pod."""
        self._latest[key].message = message

    def waiting_of(self, name: str, now: float) -> float:
        """Seconds since a pod, by its name in `of`, came or was preempted."""
        return now - self.of[name].since
