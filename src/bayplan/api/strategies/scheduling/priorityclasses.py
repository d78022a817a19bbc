"""Priority classes."""

from __future__ import annotations

from bayplan.api.errors import FieldError, forbidden
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import scheduling_v1
from bayplan.api.validation.fields import check_one_of, check_unchanged

_HIGHEST_USER_VALUE = 1_000_000_000
_SYSTEM = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


class PriorityClassStrategy(Strategy):
    """Rules of priority classes: value and preemption policy never change, and the generation stays 1."""

    counts_generation = True

    def default(self, obj: scheduling_v1.PriorityClass) -> None:
        if obj.preemption_policy is None:
            obj.preemption_policy = "PreemptLowerPriority"

    def spec_changed(self, obj: scheduling_v1.PriorityClass, old: scheduling_v1.PriorityClass) -> bool:
        return False

    def validate_create(self, obj: scheduling_v1.PriorityClass) -> list[FieldError]:
        errors: list[FieldError] = []
        name = obj.metadata.name
        if name.startswith("system-"):
            problem = ""
            if name not in _SYSTEM:
                problem = f"{name} is not a known system priority class"
            elif obj.value != _SYSTEM[name]:
                problem = f"value of {name} PriorityClass must be {_SYSTEM[name]}"
            elif obj.global_default:
                problem = f"globalDefault of {name} PriorityClass must be false"
            if problem:
                text = "priority class names with 'system-' prefix are reserved for system use only. error: "
                errors.append(forbidden("metadata.name", text + problem))
        elif obj.value > _HIGHEST_USER_VALUE:
            text = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_VALUE}"
            errors.append(forbidden("value", text))
        if obj.preemption_policy is not None:
            check_one_of(errors, "preemptionPolicy", obj.preemption_policy, ("PreemptLowerPriority", "Never"))
        return errors

    def validate_update(self, obj: scheduling_v1.PriorityClass, old: scheduling_v1.PriorityClass) -> list[FieldError]:
        errors: list[FieldError] = []
        if obj.value != old.value:
            errors.append(forbidden("value", "may not be changed in an update."))
        check_unchanged(errors, "preemptionPolicy", obj.preemption_policy, old.preemption_policy)
        return errors


STRATEGY = PriorityClassStrategy()
