"""Storage classes."""

from __future__ import annotations

from collections import Counter

from bayplan.api.errors import MOST_ERRORS, FieldError, duplicate, required, unsupported
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import core_v1, storage_v1
from bayplan.api.validation.fields import Errors, check_key_format, check_unchanged, repeats
from bayplan.api.validation.label_warnings import deprecated_label_warning
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.storage import check_parameters, check_provisioner

_POLICIES = ("Delete", "Retain")
_MODES = ("Immediate", "WaitForFirstConsumer")


class StorageClassStrategy(Strategy):
    """Rules of storage classes."""

    update_checks = UpdateChecks(whole=1)
    returns_object_on_delete = True

    def default(self, obj: storage_v1.StorageClass) -> None:
        if obj.reclaim_policy is None:
            obj.reclaim_policy = "Delete"
        if obj.volume_binding_mode is None:
            obj.volume_binding_mode = "Immediate"

    def validate(self, obj: storage_v1.StorageClass) -> list[FieldError]:
        errors: list[FieldError] = []
        check_provisioner(errors, "provisioner", obj.provisioner)
        check_parameters(errors, obj.parameters)
        if obj.reclaim_policy and obj.reclaim_policy not in _POLICIES:
            errors.append(unsupported("reclaimPolicy", obj.reclaim_policy, _POLICIES))
        if obj.volume_binding_mode is None:
            errors.append(required("volumeBindingMode"))
        elif obj.volume_binding_mode not in _MODES:
            errors.append(unsupported("volumeBindingMode", obj.volume_binding_mode, _MODES))
        _check_topologies(errors, obj.allowed_topologies)
        return errors

    def validate_update(self, obj: storage_v1.StorageClass, old: storage_v1.StorageClass) -> list[FieldError]:
        errors: list[FieldError] = []
        check_unchanged(errors, "parameters", obj.parameters, old.parameters)
        check_unchanged(errors, "provisioner", obj.provisioner, old.provisioner)
        check_unchanged(errors, "reclaimPolicy", obj.reclaim_policy, old.reclaim_policy)
        check_unchanged(errors, "volumeBindingMode", obj.volume_binding_mode, old.volume_binding_mode)
        return errors

    def warnings(self, obj: storage_v1.StorageClass, old: storage_v1.StorageClass | None) -> list[str]:
        found = []
        for index, term in enumerate(obj.allowed_topologies):
            for position, expression in enumerate(term.match_label_expressions):
                text = deprecated_label_warning(expression.key)
                if text:
                    found.append(f"allowedTopologies[{index}].matchLabelExpressions[{position}].key: {text}")
        return found


def _check_topologies(errors: Errors, terms: tuple[core_v1.TopologySelectorTerm, ...]) -> None:
    meanings: Counter[frozenset[tuple[str, frozenset[str]]]] = Counter()
    for index, term in enumerate(terms):
        keys: set[str] = set()
        for position, expression in enumerate(term.match_label_expressions):
            where = f"allowedTopologies[{index}].matchLabelExpressions[{position}]"
            if not expression.values:
                errors.append(required(f"{where}.values"))
            again = repeats(expression.values)
            for place, value in enumerate(expression.values):
                if place in again:
                    errors.append(duplicate(f"{where}.values[{place}]", value))
            check_key_format(errors, f"{where}.key", expression.key)
            if expression.key in keys:
                errors.append(duplicate(f"{where}.key", expression.key))
            keys.add(expression.key)
        meaning = frozenset({one.key: frozenset(one.values) for one in term.match_label_expressions}.items())
        equal = meanings[meaning] + (0 if meaning else len(terms))  # one that says nothing counts as equal to all
        equal = min(equal, MOST_ERRORS - len(errors))
        errors += [duplicate(f"allowedTopologies[{index}].matchLabelExpressions", "")] * equal
        meanings[meaning] += 1


STRATEGY = StorageClassStrategy()
