"""Pods of a node that want other resources and wait for room. The shell around `allocation`."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.api.types import core_v1
from bayplan.informers.cache import key_of
from bayplan.kubelet.core.resize_requests import DEFERRED, PENDING


class Resizing:
    """Which pods of all simulated nodes wait for room."""

    def __init__(self) -> None:
        self._deferred: dict[str, dict[str, None]] = {}
        """Node -> keys of its pods that wait for room, in the order in which they came."""

    def see(self, pod: core_v1.Pod) -> None:
        """A pod is as the API shows it."""
        if any(one.type == PENDING and one.reason == DEFERRED for one in pod.status.conditions):
            self._deferred.setdefault(pod.spec.node_name, {})[key_of(pod)] = None
        elif self._deferred:
            self.forget(pod)

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
