"""DefaultBinder: binds a pod by creating its Binding at the API."""

from __future__ import annotations

from bayplan.scheduler.framework.extension_points import Actions, BindPlugin
from bayplan.scheduler.framework.state import CycleState, PodInfo


class DefaultBinder(BindPlugin):
    """The last of the bind plugins: always binds."""

    name = "DefaultBinder"

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str, actions: Actions) -> bool:
        await actions.bind(pod, node_name)
        return True
