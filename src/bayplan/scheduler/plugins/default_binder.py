"""DefaultBinder: binds a pod by creating its Binding at the API."""

from __future__ import annotations

from bayplan.scheduler.framework.extension_points import Actions, BindPlugin
from bayplan.scheduler.framework.state import CycleState, PodInfo


class DefaultBinder(BindPlugin):
    """The last of the bind plugins: always binds."""

    name = "DefaultBinder"

    async def bind(self, state: CycleState, pod: PodInfo, row: int, actions: Actions) -> bool:
        await actions.bind(pod, self.snapshot.name(row))
        return True
