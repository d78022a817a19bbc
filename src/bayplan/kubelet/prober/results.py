"""What probes have found, by container."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from bayplan.kubelet.core.plan import Health


class ProbeType(enum.Enum):
    """What a probe is for; the value is the name in events and metrics."""

    STARTUP = "Startup"
    LIVENESS = "Liveness"
    READINESS = "Readiness"


@dataclass(frozen=True, slots=True)
class ProbeUpdate:
    """A result that has changed."""

    type: ProbeType
    pod_uid: str
    container_id: str
    health: Health


class ProbeResults:
    """The last result per container for one type of probe. Listeners hear of changes, at once."""

    def __init__(self, probe_type: ProbeType, listener: Callable[[ProbeUpdate], None]) -> None:
        self._type = probe_type
        self._listener = listener
        self.by_container: dict[str, Health] = {}

    def get(self, container_id: str) -> Health | None:
        """The last result; None for a container that has not been probed."""
        return self.by_container.get(container_id)

    def set(self, container_id: str, health: Health, pod_uid: str) -> None:
        """Keep a result and tell the listener if it is another one."""
        if self.by_container.get(container_id) is not health:
            self.by_container[container_id] = health
            self._listener(ProbeUpdate(self._type, pod_uid, container_id, health))

    def remove(self, container_id: str) -> None:
        """Forget a container."""
        self.by_container.pop(container_id, None)
