"""A pod as the scheduler holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayplan.scheduler.snapshot.resources import ResourceTable, Vector, accounted, is_resized
from bayplan.scheduler.snapshot.shape import PodShape

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Pod


def pod_key(pod: Pod) -> str:
    """`namespace/name`."""
    metadata = pod.metadata
    return f"{metadata.namespace}/{metadata.name}"


def is_ended(pod: Pod) -> bool:
    """Whether the pod has run to its end and takes nothing any more."""
    return pod.status.phase in ("Succeeded", "Failed")


class PodInfo:
    """A pod, its shape and what it takes of a node. `row` is the node's row, -1 while it has none."""

    __slots__ = (
        "host_ports",
        "key",
        "live",
        "node_name",
        "nonzero_cpu",
        "nonzero_memory",
        "pod",
        "priority",
        "requests",
        "row",
        "shape",
        "start_time",
    )

    def __init__(self, pod: Pod, shape: PodShape, resources: ResourceTable) -> None:
        self.pod = pod
        self.key = pod_key(pod)
        self.shape = shape
        self.priority = pod.spec.priority or 0
        self.node_name = pod.spec.node_name
        self.live = pod.metadata.deletion_timestamp is None
        self.start_time = pod.status.start_time
        self.row = -1
        self.host_ports = shape.host_ports
        self.requests: Vector
        if is_resized(pod.spec, pod.status):
            self.requests, self.nonzero_cpu, self.nonzero_memory = accounted(pod.spec, pod.status, resources)
        else:
            self.requests = shape.requests
            self.nonzero_cpu = shape.nonzero_cpu
            self.nonzero_memory = shape.nonzero_memory

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return self.pod.metadata.uid
