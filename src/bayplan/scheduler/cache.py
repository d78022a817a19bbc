"""The scheduler's picture of the cluster, fed by events in any order and by its own assumptions.

A pod that was given a node is *assumed* there until the API server says so or the binding fails. Events may come out of
order: a pod before its node, the deletion of a pod that is still assumed, a bound pod that landed elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayplan.scheduler.snapshot.pods import PodInfo, is_ended, pod_key
from bayplan.scheduler.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Pod


class Cache:
    """Pods on nodes in a snapshot, real and assumed."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._assumed: dict[str, str] = {}

    def __len__(self) -> int:
        """How many pods are counted on an assumption."""
        return len(self._assumed)

    def assume(self, pod: PodInfo, node_name: str) -> None:
        """Count a pod on the node that was chosen for it. ValueError if it is counted already."""
        if pod.key in self.snapshot.pods:
            raise ValueError(f"pod {pod.key} is already counted on node {self.snapshot.pods[pod.key].node_name}")
        self._assumed[pod.key] = pod.uid
        self.snapshot.place(pod, node_name)

    def forget(self, key: str) -> None:
        """The assumption was wrong: count the pod no more. Harmless if the pod has been confirmed meanwhile."""
        if self._assumed.pop(key, None) is not None:
            self.snapshot.remove_pod(key)

    def is_assumed(self, key: str) -> bool:
        """Whether a pod is counted on an assumption."""
        return key in self._assumed

    def put_pod(self, pod: Pod) -> None:
        """A pod with a node was seen. It replaces an assumption, wherever that had placed the pod."""
        key = pod_key(pod)
        assumed = self._assumed.pop(key, None) is not None
        known = self.snapshot.pods.get(key)
        if (
            assumed
            and known is not None
            and known.node_name == pod.spec.node_name
            and known.uid == pod.metadata.uid
            and not is_ended(pod)
            and self._takes_the_same(known, pod)
        ):
            known.pod = pod
            known.start_time = pod.status.start_time
            return
        self.snapshot.put_pod(pod)

    def remove_pod(self, pod: Pod) -> None:
        """A pod is gone. A newer pod of the same name stays."""
        key = pod_key(pod)
        known = self.snapshot.pods.get(key)
        if known is None or known.uid == pod.metadata.uid:
            self._assumed.pop(key, None)
            self.snapshot.remove_pod(key)

    def _takes_the_same(self, known: PodInfo, pod: Pod) -> bool:
        fresh = self.snapshot.pod_info(pod)
        return (fresh.requests, fresh.live, fresh.priority, fresh.host_ports, fresh.shape.group, fresh.shape.terms) == (
            known.requests,
            known.live,
            known.priority,
            known.host_ports,
            known.shape.group,
            known.shape.terms,
        )
