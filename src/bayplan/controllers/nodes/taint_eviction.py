"""Taint eviction: pods leave a node with NoExecute taints that they do not tolerate, at once or when their tolerationSeconds are over."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api.errors import ApiError
from bayplan.api.pods.tolerations import tolerates
from bayplan.api.types import core_v1
from bayplan.controllers.base import Controller, condition_of
from bayplan.controllers.nodes.eviction import evict
from bayplan.controllers.pods import index_by_node
from bayplan.informers.cache import key_of
from bayplan.support.timestamps import parse_rfc3339


def eviction_time(pod: core_v1.Pod, taints: Sequence[core_v1.Taint], since: float) -> float | None:
    """When the pod has to leave (unix seconds, `since` for at once); None if it may stay for ever.

    `since` is when the pod was first seen on a node with such taints. Of each taint the first toleration that matches counts. Its tolerationSeconds run from
    the moment that the taint was added, or, if the taint does not say when, or the pod came later, from `since`.
    """
    times = []
    for taint in taints:
        matching = next((one for one in pod.spec.tolerations if tolerates(one, taint)), None)
        if matching is None:
            return since
        if matching.toleration_seconds is not None:
            times.append(_start(pod, taint, since) + max(matching.toleration_seconds, 0))
    return min(times, default=None)


def _start(pod: core_v1.Pod, taint: core_v1.Taint, since: float) -> float:
    """When a pod's time under a taint began. A restart of this controller does not begin it anew."""
    scheduled = condition_of(pod.status.conditions, "PodScheduled")
    if not taint.time_added or scheduled is None or not scheduled.last_transition_time:
        return since
    return min(since, max(parse_rfc3339(taint.time_added), parse_rfc3339(scheduled.last_transition_time)))


class TaintEvictionController(Controller):
    """See the module."""

    name = "taint-eviction-controller"

    def setup(self) -> None:
        self.nodes = self.informer(core_v1.Node)
        self.pods = self.informer(core_v1.Pod)
        index_by_node(self.pods)
        self._since: dict[str, float] = {}
        """Uid of a pod that will have to leave -> unix time when it was first seen on a tainted node."""
        self.nodes.on_change(add=self._node_added, update=self._node_changed)
        self.pods.on_change(add=self._pod_added, update=self._pod_changed, delete=self._pod_deleted)

    def _node_added(self, node: core_v1.Node) -> None:
        if _no_execute(node):
            self._touch_pods(node)

    def _node_changed(self, old: core_v1.Node, new: core_v1.Node) -> None:
        if old.spec.taints != new.spec.taints and (_no_execute(old) or _no_execute(new)):
            self._touch_pods(new)

    def _touch_pods(self, node: core_v1.Node) -> None:
        for pod in self.pods.cache.by_index("node", node.metadata.name):
            self.queue.add(key_of(pod))

    def _pod_added(self, pod: core_v1.Pod) -> None:
        node = self.nodes.cache.get("", pod.spec.node_name) if pod.spec.node_name else None
        if node is not None and _no_execute(node):
            self.queue.add(key_of(pod))

    def _pod_changed(self, old: core_v1.Pod, new: core_v1.Pod) -> None:
        if old.spec.node_name != new.spec.node_name or old.spec.tolerations != new.spec.tolerations:
            self.queue.add(key_of(new))

    def _pod_deleted(self, pod: core_v1.Pod) -> None:
        self._since.pop(pod.metadata.uid, None)

    async def reconcile(self, key: str) -> None:
        pod: core_v1.Pod | None = self.pods.cache.by_key(key)
        if pod is None or pod.metadata.deletion_timestamp or not pod.spec.node_name:
            return
        node: core_v1.Node | None = self.nodes.cache.get("", pod.spec.node_name)
        taints = _no_execute(node) if node is not None else ()
        now = self.clock.now()
        since = self._since.get(pod.metadata.uid, now)
        when = eviction_time(pod, taints, since)
        if when is None:
            if self._since.pop(pod.metadata.uid, None) is not None:
                self.recorder.event(pod, "Normal", "TaintManagerEviction", f"Cancelling deletion of Pod {key}")
            return
        self._since[pod.metadata.uid] = since
        if when > now:
            self.queue.add_after(key, when - now)
            return
        await self._evict(pod)

    async def _evict(self, pod: core_v1.Pod) -> None:
        try:
            text = "Taint manager: deleting due to NoExecute taint"
            await evict(self.client, pod, "DeletionByTaintManager", text, self.clock.now())
        except ApiError as error:
            if error.code == 409:
                self.queue.add_rate_limited(key_of(pod))
            elif error.code != 404:
                raise
        else:
            self._since.pop(pod.metadata.uid, None)
            self.recorder.event(pod, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {key_of(pod)}")


def _no_execute(node: core_v1.Node) -> tuple[core_v1.Taint, ...]:
    return tuple(taint for taint in node.spec.taints if taint.effect == "NoExecute")
