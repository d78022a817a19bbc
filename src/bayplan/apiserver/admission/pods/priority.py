"""Priority: priority and preemption policy of a pod, pod group or composite group follow from the priority class; one class at most is the global default."""

from __future__ import annotations

from typing import Any, Final

from bayplan.api.conversions import pod_groups as conversion
from bayplan.api.errors import forbidden_error
from bayplan.api.feature_gates import POD_GROUP_PREEMPTION_POLICY, WORKLOAD_PREEMPTION
from bayplan.api.kinds import Kind
from bayplan.apiserver.admission.chain import CREATE, UPDATE, AdmissionPlugin, AdmissionRequest

_PREEMPTS: Final = "PreemptLowerPriority"
_GROUPS: Final = (("PodGroup", "scheduling.k8s.io"), ("CompositePodGroup", "scheduling.k8s.io"))


class Priority(AdmissionPlugin):
    """See the module."""

    name = "Priority"

    def __init__(self) -> None:
        self._default: tuple[int, Any] = (-1, None)
        """The revision of the classes of which it is known, and their global default or None."""

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        if subresource or kind.is_custom or operation not in (CREATE, UPDATE):
            return False
        if kind.kind == "PriorityClass":
            return True
        return kind.kind == "Pod" or (operation == CREATE and (kind.kind, kind.group) in _GROUPS)

    def admit(self, request: AdmissionRequest) -> None:
        """Resolve the class of a pod or pod group; a pod that is changed keeps what came of it."""
        if request.kind.kind == "Pod":
            if request.operation == UPDATE:
                spec, old = request.obj.spec, request.old.spec
                spec.priority = old.priority if spec.priority is None else spec.priority
                spec.preemption_policy = spec.preemption_policy or old.preemption_policy
            else:
                self._admit_pod(request)
        elif (
            request.kind.kind != "PriorityClass" and WORKLOAD_PREEMPTION in request.call.context.settings.feature_gates
        ):
            self._admit_group(request)

    def _admit_group(self, request: AdmissionRequest) -> None:
        spec = request.obj.spec
        found = self._class_of(request)
        value = found.value if found is not None else 0
        if spec.priority is not None and spec.priority != value:
            detail = (
                f"priority set in the {_named(request.kind)} ({spec.priority}) must match the priority computed ({value}) based on "
                "the priority class set in the spec"
            )
            raise forbidden_error(request.kind.plural, request.kind.group, request.name, detail)
        spec.priority = value
        if found is not None and not spec.priority_class_name:
            spec.priority_class_name = found.metadata.name
        if POD_GROUP_PREEMPTION_POLICY in request.call.context.settings.feature_gates:
            _admit_preemption_policy(request, (found.preemption_policy if found is not None else None) or _PREEMPTS)

    def _class_of(self, request: AdmissionRequest) -> Any:
        """The class that an object names, or the default one; None if there is neither. Raises ApiError."""
        name, kind = request.obj.spec.priority_class_name, request.kind
        if not name:
            return self._global_default(request)
        entry = _classes(request).get("", name)
        if entry is None:
            raise forbidden_error(kind.plural, kind.group, request.name, f"no PriorityClass with name {name} was found")
        return _classes(request).shared(entry)

    def _admit_pod(self, request: AdmissionRequest) -> None:
        spec = request.obj.spec
        name = spec.priority_class_name
        found = self._class_of(request)
        value = found.value if found is not None else 0
        policy = (found.preemption_policy if found is not None else None) or _PREEMPTS
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


def _named(kind: Kind) -> str:
    return "pod group" if kind.kind == "PodGroup" else "composite pod group"


def _admit_preemption_policy(request: AdmissionRequest, policy: str) -> None:
    """Give a group the preemption policy of its class. One that is told in `v1alpha2` has none. Raises ApiError."""
    obj = request.obj
    newer = conversion.group_to_v1beta1(obj) if request.kind.kind == "PodGroup" else obj
    said = newer.spec.preemption_policy
    if said is not None and said != policy:
        detail = (
            f"the string value of PreemptionPolicy ({said}) must not be provided in {_named(request.kind)} spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name"
        )
        raise forbidden_error(request.kind.plural, request.kind.group, request.name, detail)
    if newer is not obj and request.call.kind is request.call.stored:
        return
    newer.spec.preemption_policy = policy
    if newer is not obj:
        obj.metadata.annotations = conversion.group_to_v1alpha2(newer).metadata.annotations


def _classes(request: AdmissionRequest) -> Any:
    context = request.call.context
    kind = context.kinds.of_kind("scheduling.k8s.io/v1", "PriorityClass")
    assert kind is not None
    return context.objects.cache(kind)
