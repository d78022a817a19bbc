"""Pod garbage collector: removes pods that nobody else will: those of nodes that are gone, those that were deleted before they got a node, and the oldest of too
many that have ended.

Source of the behaviour: kube-controller-manager's pod-garbage-collector-controller.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from bayplan.api.errors import ApiError
from bayplan.api.nodes import is_ready_node
from bayplan.api.strategies.base import clone
from bayplan.api.types import core_v1
from bayplan.client.errors import ClientError
from bayplan.controllers.base import Controller, with_condition
from bayplan.controllers.pods import disruption_target, has_ended
from bayplan.informers.cache import key_of

logger = logging.getLogger(__name__)

_QUARANTINE = 40.0
"""Seconds for which a node has to be missing: one that is re-created meanwhile keeps its pods."""
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


def surplus(pods: Iterable[core_v1.Pod], threshold: int) -> list[core_v1.Pod]:
    """Pods that have ended beyond the number to keep (0 keeps all), evicted ones first, then the oldest."""
    ended = [pod for pod in pods if has_ended(pod)]
    if not threshold or len(ended) <= threshold:
        return []
    ended.sort(
        key=lambda pod: (pod.status.reason != "Evicted", pod.metadata.creation_timestamp or "", pod.metadata.name)
    )
    return ended[: len(ended) - threshold]


def unscheduled_terminating(pods: Iterable[core_v1.Pod]) -> list[core_v1.Pod]:
    """Pods that are being deleted and have no node whose kubelet would finish that."""
    return [pod for pod in pods if pod.metadata.deletion_timestamp and not pod.spec.node_name]


def lost_with_node(pods: Iterable[core_v1.Pod], nodes: Sequence[core_v1.Node]) -> list[core_v1.Pod]:
    """Pods that are being deleted on a node that is not ready and marked as out of service by an administrator."""
    lost = {
        node.metadata.name
        for node in nodes
        if any(taint.key == _OUT_OF_SERVICE for taint in node.spec.taints) and not is_ready_node(node)
    }
    return [pod for pod in pods if pod.metadata.deletion_timestamp and pod.spec.node_name in lost] if lost else []


class PodGarbageCollector(Controller):
    """See the module. Works in rounds, without its queue."""

    name = "pod-garbage-collector-controller"
    workers = 0

    def setup(self) -> None:
        self.pods = self.informer(core_v1.Pod)
        self.nodes = self.informer(core_v1.Node)
        self._missing: dict[str, float] = {}
        """Name of a node that has pods and is not there -> since when (monotonic)."""
        self._changed = True
        """Whether there is anything that the last round did not see."""
        self.pods.on_change(add=self._note, update=self._note_update, delete=self._note)
        self.nodes.on_change(add=self._note, update=lambda old, new: self._note(new), delete=self._note)

    def _note(self, obj: core_v1.Pod | core_v1.Node) -> None:
        self._changed = True

    def _note_update(self, old: core_v1.Pod, new: core_v1.Pod) -> None:
        """Of a pod only its end, its deletion and its node matter."""
        if not self._changed:
            self._changed = (
                old.status.phase != new.status.phase
                or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
                or old.spec.node_name != new.spec.node_name
            )

    async def run_background(self) -> None:
        """Look at all pods now and then."""
        while True:
            await self.clock.sleep(self.context.settings.orphaned_pod_period)
            if not self._changed and not self._missing:
                continue
            self._changed = False
            try:
                await self.collect()
            except (ApiError, ClientError) as error:
                logger.warning("pods were not collected: %s", error)
                self._changed = True

    async def collect(self) -> None:
        """One round. Raises ApiError, ClientError."""
        pods = list(self.pods.cache)
        for pod in (*surplus(pods, self.context.settings.terminated_pod_threshold), *unscheduled_terminating(pods)):
            await self._remove(pod, "")
        for pod in lost_with_node(pods, list(self.nodes.cache)):
            await self._remove(pod, "")
        for pod in await self._orphaned(pods):
            await self._remove(pod, "PodGC: node no longer exists")

    async def _orphaned(self, pods: Sequence[core_v1.Pod]) -> list[core_v1.Pod]:
        """Pods of nodes that have been missing for long enough, as the server says and not only the cache."""
        now = self.clock.monotonic()
        used = dict.fromkeys(pod.spec.node_name for pod in pods if pod.spec.node_name)
        missing = [name for name in used if self.nodes.cache.get("", name) is None]
        self._missing = {name: self._missing.get(name, now) for name in missing}
        quarantine = min(_QUARANTINE, 2 * self.context.settings.orphaned_pod_period)
        gone = {
            name for name, since in self._missing.items() if now - since >= quarantine and not await self._exists(name)
        }
        return [pod for pod in pods if pod.spec.node_name in gone] if gone else []

    async def _exists(self, node_name: str) -> bool:
        try:
            await self.client.get(core_v1.Node, node_name)
        except ApiError as error:
            if error.code != 404:
                raise
            return False
        return True

    async def _remove(self, pod: core_v1.Pod, reason: str) -> None:
        """Delete at once; a pod that had not ended is shown as failed first, with the reason."""
        try:
            if not has_ended(pod):
                await self.client.update_status(self._failed(pod, reason))
            await self.client.delete(
                core_v1.Pod, pod.metadata.name, pod.metadata.namespace, grace_period_seconds=0, uid=pod.metadata.uid
            )
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            logger.debug("pod %s: %s", key_of(pod), error)
            self._changed = self._changed or error.code == 409  # it is there still, and as the cache does not show yet

    def _failed(self, pod: core_v1.Pod, reason: str) -> core_v1.Pod:
        changed: core_v1.Pod = clone(pod)
        changed.status.phase = "Failed"
        changed.status.observed_generation = pod.metadata.generation
        if reason:
            condition = disruption_target(pod, self.clock.now(), "DeletionByPodGC", reason)
            changed.status.conditions = with_condition(pod.status.conditions, condition)
        return changed
