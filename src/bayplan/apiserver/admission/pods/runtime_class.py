"""RuntimeClass: a pod's runtime class must exist; it brings the pod's overhead, node selector and tolerations.

Source: plugin `RuntimeClass` of kube-apiserver, KEP-688 (overhead), KEP-585 (scheduling).
"""

from __future__ import annotations

from bayplan.api.errors import ApiError, forbidden_error
from bayplan.api.kinds import Kind
from bayplan.api.pods.tolerations import merged
from bayplan.api.quota.amounts import parsed
from bayplan.api.types import core_v1, node_v1
from bayplan.apiserver.admission.chain import CREATE, AdmissionPlugin, AdmissionRequest


class RuntimeClass(AdmissionPlugin):
    """See the module."""

    name = "RuntimeClass"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return kind.kind == "Pod" and not kind.group and operation == CREATE and not subresource

    def admit(self, request: AdmissionRequest) -> None:
        """Fill in what the class brings."""
        spec = request.obj.spec
        if spec.runtime_class_name is None:
            return
        found = _find(request)
        if found.overhead is not None and found.overhead.pod_fixed:
            if spec.overhead and parsed(spec.overhead) != parsed(found.overhead.pod_fixed):
                raise _mismatch(request)
            spec.overhead = dict(found.overhead.pod_fixed)
        if found.scheduling is not None:
            _schedule(request, spec, found.scheduling)

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse an overhead that is not the class's."""
        spec = request.obj.spec
        if not spec.overhead and spec.runtime_class_name is None:
            return
        found = _find(request) if spec.runtime_class_name is not None else None
        if found is not None and found.overhead is not None:
            if parsed(spec.overhead) != parsed(found.overhead.pod_fixed):
                raise _mismatch(request)
        elif spec.overhead:
            detail = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            raise _refused(request, detail)


def _find(request: AdmissionRequest) -> node_v1.RuntimeClass:
    """The pod's class. Raises ApiError (403)."""
    name = request.obj.spec.runtime_class_name
    found: node_v1.RuntimeClass | None = request.call.context.find("RuntimeClass", "", name, "node.k8s.io/v1")
    if found is None:
        raise _refused(request, f'pod rejected: RuntimeClass "{name}" not found')
    return found


def _schedule(request: AdmissionRequest, spec: core_v1.PodSpec, scheduling: node_v1.Scheduling) -> None:
    for key, value in scheduling.node_selector.items():
        own = spec.node_selector.get(key, value)
        if own != value:
            detail = (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
            )
            raise _refused(request, detail)
    if scheduling.node_selector:
        spec.node_selector = {**spec.node_selector, **scheduling.node_selector}
    if scheduling.tolerations:
        spec.tolerations = merged(spec.tolerations, scheduling.tolerations)


def _mismatch(request: AdmissionRequest) -> ApiError:
    return _refused(request, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")


def _refused(request: AdmissionRequest, detail: str) -> ApiError:
    return forbidden_error("pods", "", request.name, detail)
