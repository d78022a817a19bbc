"""Priority: a pod's priority and preemption policy follow from its priority class; one class at most is the global default."""

from __future__ import annotations

from typing import Any

from bayplan.api.errors import forbidden_error
from bayplan.api.kinds import Kind
from bayplan.apiserver.admission.chain import CREATE, UPDATE, AdmissionPlugin, AdmissionRequest


class Priority(AdmissionPlugin):
    """See the module."""

    name = "Priority"
    keeps_defaults = True
    decided_by = (("scheduling.k8s.io/v1", "PriorityClass"),)

    def __init__(self) -> None:
        self._default: tuple[int, Any] = (-1, None)
        """The revision of the classes of which it is known, and their global default or None."""

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        if subresource or kind.is_custom or operation not in (CREATE, UPDATE):
            return False
        return kind.kind == "PriorityClass" or (kind.kind == "Pod" and operation == CREATE)

    def admit(self, request: AdmissionRequest) -> None:
        """Resolve the class of a pod."""
        if request.kind.kind != "Pod":
            return
        spec = request.obj.spec
        name = spec.priority_class_name
        if name:
            entry = _classes(request).get("", name)
            if entry is None:
                raise forbidden_error("pods", "", request.name, f"no PriorityClass with name {name} was found")
            found = _classes(request).shared(entry)
        else:
            found = self._global_default(request)
        value = found.value if found is not None else 0
        policy = (found.preemption_policy if found is not None else None) or "PreemptLowerPriority"
        if spec.priority is not None and spec.priority != value:
            detail = (
                f"the integer value of priority ({spec.priority}) must not be provided in pod spec; "
                f"priority admission controller computed {value} from the given PriorityClass name"
            )
            raise forbidden_error("pods", "", request.name, detail)
        if spec.preemption_policy is not None and spec.preemption_policy != policy:
            detail = (
                f"the string value of PreemptionPolicy ({spec.preemption_policy}) must not be provided in pod spec; "
                f"priority admission controller computed {policy} from the given PriorityClass name"
            )
            raise forbidden_error("pods", "", request.name, detail)
        spec.priority, spec.preemption_policy = value, policy
        if found is not None and not name:
            spec.priority_class_name = found.metadata.name

    def _global_default(self, request: AdmissionRequest) -> Any:
        """The default class of lowest value, or None."""
        classes = _classes(request)
        if self._default[0] != classes.revision:
            marked = [classes.shared(entry) for entry in classes.all() if b'"globalDefault":true' in entry.body]
            self._default = classes.revision, min(marked, key=lambda one: one.value, default=None)
        return self._default[1]

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse a second global default."""
        if request.kind.kind != "PriorityClass" or not request.obj.global_default:
            return
        for entry in _classes(request).all():
            if entry.name != request.name and b'"globalDefault":true' in entry.body:
                detail = f"PriorityClass {entry.name} is already marked as default. Only one default can exist"
                raise forbidden_error("priorityclasses", "scheduling.k8s.io", request.name, detail)


def _classes(request: AdmissionRequest) -> Any:
    context = request.call.context
    kind = context.kinds.of_kind("scheduling.k8s.io/v1", "PriorityClass")
    assert kind is not None
    return context.objects.cache(kind)
