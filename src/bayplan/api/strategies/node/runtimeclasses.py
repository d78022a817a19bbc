"""Runtime classes."""

from __future__ import annotations

from bayplan.api.errors import FieldError, duplicate, required
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import node_v1
from bayplan.api.validation.fields import (
    check_format,
    check_labels,
    check_unchanged,
    repeats,
)
from bayplan.api.validation.go_structs import go_struct
from bayplan.api.validation.label_warnings import deprecated_label_warning
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.pods.pod_spec import check_overhead
from bayplan.api.validation.pods.scheduling import check_tolerations
from bayplan.api.validation.values import formats


class RuntimeClassStrategy(Strategy):
    """Rules of runtime classes: the handler never changes."""

    update_checks = UpdateChecks(whole=1)
    knows_finalizers = False
    allow_create_on_update = True
    allow_unconditional_update = False

    def validate(self, obj: node_v1.RuntimeClass) -> list[FieldError]:
        errors: list[FieldError] = []
        if not obj.handler:
            errors.append(required("handler"))
        else:
            check_format(errors, "handler", obj.handler, formats.dns_label)
        if obj.overhead is not None:
            check_overhead(errors, "overhead", obj.overhead.pod_fixed)
        if obj.scheduling is not None:
            check_labels(errors, "scheduling.nodeSelector", obj.scheduling.node_selector)
            tolerations = obj.scheduling.tolerations
            check_tolerations(errors, "scheduling.tolerations", tolerations)
            keys = [(one.key, one.operator, one.value, one.effect) for one in tolerations]
            again = repeats(keys)
            for index, toleration in enumerate(tolerations):
                if index in again:
                    errors.append(duplicate(f"scheduling.tolerations[{index}]", go_struct(toleration)))
        return errors

    def validate_update(self, obj: node_v1.RuntimeClass, old: node_v1.RuntimeClass) -> list[FieldError]:
        errors: list[FieldError] = []
        check_unchanged(errors, "handler", obj.handler, old.handler)
        return errors

    def warnings(self, obj: node_v1.RuntimeClass, old: node_v1.RuntimeClass | None) -> list[str]:
        if obj.scheduling is None:
            return []
        texts = (deprecated_label_warning(key) for key in sorted(obj.scheduling.node_selector))
        return [f"scheduling.nodeSelector: {text}" for text in texts if text]


STRATEGY = RuntimeClassStrategy()
