"""TTL: each node is told how long it may keep secrets and config maps before it asks for them again; the more nodes, the longer.

Source of the behaviour: Kubernetes' `pkg/controller/ttl`.
"""

from __future__ import annotations

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.controllers.base import Controller

ANNOTATION = "node.alpha.kubernetes.io/ttl"
_STEPS = ((0, 100, 0), (90, 500, 15), (450, 1000, 30), (900, 2000, 60), (1800, None, 300))
"""(fewest nodes, most nodes, seconds): steps overlap, so that a node more or less does not change all of them each time."""


def step_for(nodes: int, step: int) -> int:
    """The step for a number of nodes, coming from another one."""
    while (most := _STEPS[step][1]) is not None and nodes > most:
        step += 1
    while nodes < _STEPS[step][0]:
        step -= 1
    return step


def seconds_at(step: int) -> int:
    """How long nodes may keep objects."""
    return _STEPS[step][2]


class TtlController(Controller):
    """See the module."""

    name = "ttl-controller"
    workers = 2

    def setup(self) -> None:
        self.nodes = self.informer(core_v1.Node)
        self._step = 0
        self.nodes.on_change(add=self._came, update=self._changed, delete=self._went)

    def _came(self, node: core_v1.Node) -> None:
        self._count()
        self.queue.add(node.metadata.name)

    def _changed(self, old: core_v1.Node, new: core_v1.Node) -> None:
        if new.metadata.annotations.get(ANNOTATION) != str(seconds_at(self._step)):
            self.queue.add(new.metadata.name)

    def _went(self, node: core_v1.Node) -> None:
        self._count()

    def _count(self) -> None:
        step = step_for(len(self.nodes.cache), self._step)
        if step != self._step:
            self._step = step
            for node in self.nodes.cache:
                self.queue.add(node.metadata.name)

    async def reconcile(self, key: str) -> None:
        node: core_v1.Node | None = self.nodes.cache.by_key(key)
        wanted = str(seconds_at(self._step))
        if node is None or node.metadata.annotations.get(ANNOTATION) == wanted:
            return
        patch = {"metadata": {"uid": node.metadata.uid, "annotations": {ANNOTATION: wanted}}}
        try:
            await self.client.patch(core_v1.Node, key, "", patch)
        except ApiError as error:
            if error.code not in (404, 409):
                raise
