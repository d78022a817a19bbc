"""The scheduler's picture of the cluster, fed by events in any order and by its own assumptions.

A pod that was given a node is *assumed* there until the API server says so or the binding fails. Events may come out of
order: a pod before its node, the deletion of a pod that is still assumed, a bound pod that landed elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from bayplan.scheduler.snapshot.pods import PodInfo, is_ended, pod_key
from bayplan.scheduler.snapshot.resources import is_resized
from bayplan.scheduler.snapshot.shape import keeps_shape
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
        """A pod with a node was seen. It replaces an assumption, wherever that had placed the pod.

        A pod that takes what it took before stays counted as it is: most events of a running pod are news of its
        status only.
        """
        key = pod_key(pod)
        self._assumed.pop(key, None)
        known = self.snapshot.pods.get(key)
        if known is None or known.node_name != pod.spec.node_name or known.uid != pod.metadata.uid or is_ended(pod):
            self.snapshot.put_pod(pod)
        elif known.live is not (pod.metadata.deletion_timestamp is None):
            if known.live and keeps_shape(known.shape, known.pod, pod) and takes_its_shape(known.pod, pod):
                self.snapshot.terminate(known, pod)
            else:
                self.snapshot.put_pod(pod)
        elif is_same_but_for_labels(known.pod, pod):
            if known.pod.metadata.labels == pod.metadata.labels:
                self.snapshot.renew(known, pod)
            else:
                self.snapshot.relabel(known, pod)
        else:
            self._put_changed(known, pod)

    def remove_pod(self, pod: Pod) -> None:
        """A pod is gone. A newer pod of the same name stays."""
        key = pod_key(pod)
        known = self.snapshot.pods.get(key)
        if known is None or known.uid == pod.metadata.uid:
            self._assumed.pop(key, None)
            self.snapshot.remove_pod(key)

    def _put_changed(self, known: PodInfo, pod: Pod) -> None:
        fresh = self.snapshot.pod_info(pod)
        before, after = known.shape, fresh.shape
        if (
            fresh.requests == known.requests
            and fresh.priority == known.priority
            and fresh.host_ports == known.host_ports
            and (after.group, after.terms, after.volumes) == (before.group, before.terms, before.volumes)
        ):
            known.shape = after
            self.snapshot.renew(known, pod)
        else:
            self.snapshot.put_pod(pod)


def is_same_but_for_labels(one: Pod, other: Pod) -> bool:
    """Whether two states of a pod differ, as far as scheduling is concerned, in their labels, status or node at most, and
    no resources are in the status, where they would count."""
    spec = one.spec
    if spec.node_name != other.spec.node_name:
        spec = replace(spec, node_name=other.spec.node_name)
    return (
        spec == other.spec
        and one.metadata.owner_references == other.metadata.owner_references
        and takes_its_shape(one, other)
    )


def takes_its_shape(*states: Pod) -> bool:
    """Whether states of a pod take on a node what its shape says: no resources in the status count besides."""
    return not any(is_resized(pod.spec, pod.status) for pod in states)
