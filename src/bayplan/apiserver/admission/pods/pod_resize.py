"""PodResizeValidator: a pod on a node is given no more than the node has.

Source: Kubernetes' `plugin/pkg/admission/podresize`.
"""

from __future__ import annotations

from bayplan.api.errors import ApiError, forbidden_error
from bayplan.api.kinds import Kind
from bayplan.api.pods.resources import pod_total
from bayplan.api.quantity import Quantity, parse
from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.admission.chain import UPDATE, AdmissionPlugin, AdmissionRequest

_SYSTEM_LABEL = "kubernetes.io/os"


class PodResizeValidator(AdmissionPlugin):
    """See the module."""

    name = "PodResizeValidator"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return kind.kind == "Pod" and not kind.group and operation == UPDATE and subresource == "resize"

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse what the node cannot give."""
        new, old = request.obj, request.old
        if not new.spec.node_name or new.metadata.generation == old.metadata.generation:
            return
        node: core_v1.Node | None = request.call.context.find("Node", "", new.spec.node_name)
        if node is None:
            raise _refused(request, f'node "{new.spec.node_name}" not found')
        system = node.metadata.labels.get(_SYSTEM_LABEL, "linux")
        if system != "linux":
            text = f'pod resize is only supported on linux nodes, node "{node.metadata.name}" is "{system}"'
            raise _refused(request, text, "UnsupportedPlatform")
        problem = _beyond(pod_total(new.spec, "requests", overhead=True), node)
        if problem:
            raise _refused(request, problem, "NodeCapacity")


def _beyond(wanted: dict[str, Quantity], node: core_v1.Node) -> str:
    """What the node does not have; "" if it has enough."""
    texts = []
    for name, shown in (("cpu", Quantity.milli_value), ("memory", Quantity.value)):
        there, asked = parse(node.status.allocatable.get(name, "0")), wanted.get(name, parse("0"))
        if there < asked:
            texts.append(f"{name}, requested: {shown(asked)}, allocatable: {shown(there)}")
    return f"node didn't have enough allocatable resources: {'; '.join(texts)}" if texts else ""


def _refused(request: AdmissionRequest, detail: str, cause: str = "") -> ApiError:
    error = forbidden_error(request.call.kind.plural, "", request.name, detail)
    if cause and error.status.details is not None:
        error.status.details.causes = (meta_v1.StatusCause(reason=cause),)
    return error
