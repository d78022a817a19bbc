"""Pods of a node that want other resources: who gets them now and who waits for room. The shell around `resize`."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bayplan.api.types import core_v1
from bayplan.informers import Informer
from bayplan.informers.cache import key_of
from bayplan.kubelet.core.resize_requests import DEFERRED, PENDING
from bayplan.kubelet.simulator import resize


class Resizing:
    """Resizes of all simulated nodes. `pods` has an index `node`; a resize takes so many `seconds`."""

    def __init__(self, nodes: Informer[core_v1.Node], pods: Informer[core_v1.Pod], seconds: float) -> None:
        self._nodes = nodes
        self._pods = pods
        self._seconds = seconds
        self._deferred: dict[str, dict[str, None]] = {}
        """Node -> keys of its pods that wait for room, in the order in which they came."""

    def advance(self, pod: core_v1.Pod, now: float) -> tuple[core_v1.Pod, float | None]:
        """A running pod after the next step of its resize, and seconds until the one after that."""
        key, node = key_of(pod), pod.spec.node_name
        found = resize.advance(pod, now, self._seconds, lambda: self._room(pod))
        if any(one.type == PENDING and one.reason == DEFERRED for one in found.status.conditions):
            self._deferred.setdefault(node, {})[key] = None
        else:
            self.forget(pod)
        if found.status is pod.status:
            return pod, found.wait
        return msgspec.structs.replace(pod, status=found.status), found.wait

    def waiting(self, node: str, but: str = "") -> Iterator[str]:
        """Keys of pods that did not find room on a node and may now: something has changed there (the pod `but`, which knows of it)."""
        return (key for key in tuple(self._deferred.get(node, ())) if key != but)

    def forget(self, pod: core_v1.Pod) -> None:
        """A pod is gone, or waits no more."""
        waiting = self._deferred.get(pod.spec.node_name)
        if waiting is not None:
            waiting.pop(key_of(pod), None)
            if not waiting:
                del self._deferred[pod.spec.node_name]

    def _room(self, pod: core_v1.Pod) -> resize.Room:
        """What there is for a pod on its node."""
        node = self._nodes.cache.get("", pod.spec.node_name)
        allocatable = node.status.allocatable if node is not None else {}
        used = {"cpu": 0, "memory": 0}
        for other in self._pods.cache.by_index("node", pod.spec.node_name):
            if other.metadata.uid != pod.metadata.uid and other.status.phase not in ("Succeeded", "Failed"):
                for name, amount in resize.promised(other).items():
                    used[name] += amount
        return resize.Room({name: resize.amount(name, allocatable.get(name, "0")) for name in used}, used)
