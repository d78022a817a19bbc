"""Runtime classes."""

from __future__ import annotations

from bayplan.api.defaults.quantities import canonical_list
from bayplan.api.errors import FieldError, duplicate
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import node_v1
from bayplan.api.validation import formats
from bayplan.api.validation.fields import check_format, check_labels, check_unchanged, go_struct
from bayplan.api.validation.pod_spec import check_overhead
from bayplan.api.validation.pod_warnings import deprecated_label_warning
from bayplan.api.validation.scheduling import check_tolerations


class RuntimeClassStrategy(Strategy):
    """Rules of runtime classes: the handler never changes. The rest is checked only when the class is new, as in Kubernetes."""

    allow_unconditional_update = False

    def default(self, obj: node_v1.RuntimeClass) -> None:
        if obj.overhead is not None:
            canonical_list(obj.overhead.pod_fixed)

    def validate_create(self, obj: node_v1.RuntimeClass) -> list[FieldError]:
        errors: list[FieldError] = []
        check_format(errors, "handler", obj.handler, formats.dns_label)
        if obj.overhead is not None:
            check_overhead(errors, "overhead", obj.overhead.pod_fixed)
        if obj.scheduling is not None:
            check_labels(errors, "scheduling.nodeSelector", obj.scheduling.node_selector)
            tolerations = obj.scheduling.tolerations
            check_tolerations(errors, "scheduling.tolerations", tolerations)
            for index, toleration in enumerate(tolerations):
                if toleration in tolerations[:index]:
                    errors.append(duplicate(f"scheduling.tolerations[{index}]", go_struct(toleration)))
        return errors

    def validate_update(self, obj: node_v1.RuntimeClass, old: node_v1.RuntimeClass) -> list[FieldError]:
        errors: list[FieldError] = []
        check_unchanged(errors, "handler", obj.handler, old.handler)
        return errors

    def warnings(self, obj: node_v1.RuntimeClass, old: node_v1.RuntimeClass | None) -> list[str]:
        if obj.scheduling is None:
            return []
        texts = ((key, deprecated_label_warning(key)) for key in sorted(obj.scheduling.node_selector))
        return [f"scheduling.nodeSelector: {key} is {text}" for key, text in texts if text]


STRATEGY = RuntimeClassStrategy()
