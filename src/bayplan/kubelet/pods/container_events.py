"""Events about pods and their containers, as a kubelet writes them."""

from __future__ import annotations

import msgspec

from bayplan.api.types import core_v1
from bayplan.client.events import EventRecorder, reference
from bayplan.kubelet.core.restarts import AnyContainer

NORMAL, WARNING = "Normal", "Warning"


def field_path(pod: core_v1.Pod, container: str) -> str:
    """Where in the pod the container of a name stands, such as `spec.containers{web}`."""
    for name, containers in (
        ("initContainers", pod.spec.init_containers),
        ("ephemeralContainers", pod.spec.ephemeral_containers),
    ):
        if any(each.name == container for each in containers):
            return f"spec.{name}{{{container}}}"
    return f"spec.containers{{{container}}}"


class ContainerEvents:
    """Records events of one node's kubelet."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def normal(self, pod: core_v1.Pod, container: AnyContainer, reason: str, message: str) -> None:
        """Something happened to a container as it should."""
        self._record(pod, container, NORMAL, reason, message)

    def warning(self, pod: core_v1.Pod, container: AnyContainer, reason: str, message: str) -> None:
        """Something is wrong with a container."""
        self._record(pod, container, WARNING, reason, message)

    def pod(self, pod: core_v1.Pod, event_type: str, reason: str, message: str) -> None:
        """Something about a pod as a whole."""
        self._recorder.event(pod, event_type, reason, message)

    def node(self, node: core_v1.Node, event_type: str, reason: str, message: str) -> None:
        """Something about the node itself."""
        name = node.metadata.name
        where = core_v1.ObjectReference(kind="Node", name=name, uid=name)  # kubelets name the node as its uid
        self._recorder.event(where, event_type, reason, message)

    def _record(self, pod: core_v1.Pod, container: AnyContainer, event_type: str, reason: str, message: str) -> None:
        where = msgspec.structs.replace(
            reference(self._recorder.client, pod), field_path=field_path(pod, container.name)
        )
        self._recorder.event(where, event_type, reason, message)
