"""Rules for what steers scheduling: node selectors, affinity, tolerations, taints, topology spread."""

from __future__ import annotations

from bayplan.api.errors import ErrorType, FieldError, duplicate, forbidden, invalid, required, unsupported
from bayplan.api.pods.execution_rules import MOST_COMBINATIONS, PREFERRED, REQUIRED, combinations
from bayplan.api.types import core_v1, meta_v1
from bayplan.api.validation.fields import (
    Errors,
    check_format,
    check_key_format,
    check_label_selector,
)
from bayplan.api.validation.go_structs import go_struct
from bayplan.api.validation.values import formats

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def check_affinity(errors: Errors, path: str, affinity: core_v1.Affinity) -> None:
    """`affinity` of a pod."""
    node = affinity.node_affinity
    if node is not None:
        where = f"{path}.nodeAffinity"
        selector = node.required_during_scheduling_ignored_during_execution
        _check_node_rules(
            errors, where, selector, node.preferred_during_scheduling_ignored_during_execution, _REQUIRED, _PREFERRED
        )
        selector = node.required_during_scheduling_required_during_execution
        _check_node_rules(
            errors, where, selector, node.preferred_during_scheduling_required_during_execution, REQUIRED, PREFERRED
        )
        if (count := combinations(node)) > MOST_COMBINATIONS:
            text = f"has {count} combinations with the terms of {_REQUIRED}, must have at most {MOST_COMBINATIONS}"
            errors.append(invalid(f"{where}.{REQUIRED}.nodeSelectorTerms", count, text))
    for name, part in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if part is None:
            continue
        required = part.required_during_scheduling_ignored_during_execution
        preferred = part.preferred_during_scheduling_ignored_during_execution
        _check_pod_rules(errors, f"{path}.{name}", required, preferred, _REQUIRED, _PREFERRED)
        required = part.required_during_scheduling_required_during_execution
        preferred = part.preferred_during_scheduling_required_during_execution
        _check_pod_rules(errors, f"{path}.{name}", required, preferred, REQUIRED, PREFERRED)


def _check_node_rules(
    errors: Errors,
    path: str,
    selector: core_v1.NodeSelector | None,
    preferred: tuple[core_v1.PreferredSchedulingTerm, ...],
    required_name: str,
    preferred_name: str,
) -> None:
    if selector is not None:
        check_node_selector(errors, f"{path}.{required_name}", selector)
    for index, one in enumerate(preferred):
        where = f"{path}.{preferred_name}[{index}]"
        if not 1 <= one.weight <= 100:
            errors.append(invalid(f"{where}.weight", one.weight, "must be in the range 1-100"))
        _check_node_selector_term(errors, f"{where}.preference", one.preference, check_values=False)


def _check_pod_rules(
    errors: Errors,
    path: str,
    required_terms: tuple[core_v1.PodAffinityTerm, ...],
    preferred: tuple[core_v1.WeightedPodAffinityTerm, ...],
    required_name: str,
    preferred_name: str,
) -> None:
    for index, term in enumerate(required_terms):
        _check_pod_affinity_term(errors, f"{path}.{required_name}[{index}]", term)
    for index, weighted in enumerate(preferred):
        where = f"{path}.{preferred_name}[{index}]"
        if not 1 <= weighted.weight <= 100:
            errors.append(invalid(f"{where}.weight", weighted.weight, "must be in the range 1-100"))
        _check_pod_affinity_term(errors, f"{where}.podAffinityTerm", weighted.pod_affinity_term)


def check_node_selector(
    errors: Errors, path: str, selector: core_v1.NodeSelector, *, check_values: bool = True
) -> None:
    """A `NodeSelector`; it has a term."""
    if not selector.node_selector_terms:
        errors.append(required(f"{path}.nodeSelectorTerms", "must have at least one node selector term"))
    for index, term in enumerate(selector.node_selector_terms):
        _check_node_selector_term(errors, f"{path}.nodeSelectorTerms[{index}]", term, check_values=check_values)


def _check_node_selector_term(errors: Errors, path: str, term: core_v1.NodeSelectorTerm, *, check_values: bool) -> None:
    for index, expression in enumerate(term.match_expressions):
        where, operator = f"{path}.matchExpressions[{index}]", expression.operator
        if operator in ("In", "NotIn"):
            if not expression.values:
                errors.append(required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in ("Exists", "DoesNotExist"):
            if expression.values:
                errors.append(
                    forbidden(f"{where}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
                )
        elif operator in ("Gt", "Lt"):
            if len(expression.values) != 1:
                errors.append(
                    required(f"{where}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
                )
        else:
            errors.append(invalid(f"{where}.operator", operator, "not a valid selector operator"))
        check_key_format(errors, f"{where}.key", expression.key)
        if check_values:
            for position, value in enumerate(expression.values):
                check_format(errors, f"{where}.values[{position}]", value, formats.label_value)
    for index, expression in enumerate(term.match_fields):
        where = f"{path}.matchFields[{index}]"
        if expression.operator not in ("In", "NotIn"):
            errors.append(invalid(f"{where}.operator", expression.operator, "not a valid selector operator"))
        elif len(expression.values) != 1:
            text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            errors.append(required(f"{where}.values", text))
        if expression.key != "metadata.name":
            errors.append(invalid(f"{where}.key", expression.key, "not a valid field selector key"))
            continue
        for position, value in enumerate(expression.values):
            check_format(errors, f"{where}.values[{position}]", value, formats.dns_subdomain)


def _check_pod_affinity_term(errors: Errors, path: str, term: core_v1.PodAffinityTerm) -> None:
    check_label_selector(errors, f"{path}.labelSelector", term.label_selector)
    check_label_selector(errors, f"{path}.namespaceSelector", term.namespace_selector)
    for name in term.namespaces:
        check_format(errors, f"{path}.namespace", name, formats.dns_label)
    _check_label_keys(errors, f"{path}.matchLabelKeys", term.match_label_keys, term.label_selector)
    _check_label_keys(errors, f"{path}.mismatchLabelKeys", term.mismatch_label_keys, term.label_selector)
    _check_keys_not_selected(errors, path, term.match_label_keys, term.label_selector)
    for index, key in enumerate(term.match_label_keys):
        if key in term.mismatch_label_keys:
            errors.append(
                invalid(f"{path}.matchLabelKeys[{index}]", key, "exists in both matchLabelKeys and mismatchLabelKeys")
            )
    if not term.topology_key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    check_key_format(errors, f"{path}.topologyKey", term.topology_key)


def _check_label_keys(errors: Errors, path: str, keys: tuple[str, ...], selector: meta_v1.LabelSelector | None) -> None:
    if keys and selector is None:
        errors.append(forbidden(path, "must not be specified when labelSelector is not set"))
        return
    for index, key in enumerate(keys):
        check_key_format(errors, f"{path}[{index}]", key)


def _check_keys_not_selected(
    errors: Errors, path: str, keys: tuple[str, ...], selector: meta_v1.LabelSelector | None
) -> None:
    """A label whose own value is matched is not selected as well. The pod's own value stands in the selector by now, so that twice is once too often."""
    if not keys or selector is None:
        return
    seen = set(selector.match_labels)
    places = {key: index for index, key in reversed(list(enumerate(keys)))}
    for expression in selector.match_expressions:
        if expression.key in places and expression.key in seen:
            text = "exists in both matchLabelKeys and labelSelector"
            errors.append(invalid(f"{path}[{places[expression.key]}]", expression.key, text))
        seen.add(expression.key)


def check_tolerations(errors: Errors, path: str, tolerations: tuple[core_v1.Toleration, ...]) -> None:
    """`tolerations` of a pod or a runtime class."""
    for index, toleration in enumerate(tolerations):
        key, operator = toleration.key, toleration.operator
        if key and formats.label_key(key):
            check_key_format(errors, f"{path}[{index}].key", key)
        if not key and operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(invalid(f"{path}[{index}].operator", operator, text))
        if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid(f"{path}[{index}].effect", toleration.effect, text))
        if operator in ("Equal", ""):
            messages = formats.label_value(toleration.value)
            if messages:
                errors.append(invalid(f"{path}[{index}].operator", toleration.value, ";".join(messages)))
        elif operator == "Exists":
            if toleration.value:
                errors.append(
                    invalid(
                        f"{path}[{index}].operator", toleration.value, "value must be empty when `operator` is 'Exists'"
                    )
                )
        else:
            supported = ("Equal", "Exists", "Lt", "Gt") if operator in ("Lt", "Gt") else ("Equal", "Exists")
            errors.append(unsupported(f"{path}[{index}].operator", operator, supported))
        if toleration.effect and toleration.effect not in EFFECTS:
            errors.append(unsupported(f"{path}[{index}].effect", toleration.effect, EFFECTS))


def check_taints(errors: Errors, path: str, taints: tuple[core_v1.Taint, ...]) -> None:
    """`taints` of a node."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        where = f"{path}[{index}]"
        check_key_format(errors, f"{where}.key", taint.key)
        messages = formats.label_value(taint.value)
        if messages:
            errors.append(invalid(f"{where}.value", taint.value, ";".join(messages)))
        if taint.effect not in EFFECTS:
            errors.append(
                unsupported(f"{where}.effect", taint.effect, EFFECTS) if taint.effect else required(f"{where}.effect")
            )
        if (taint.key, taint.effect) in seen:
            text = "taints must be unique by key and effect pair"
            errors.append(FieldError(ErrorType.DUPLICATE, where, go_struct(taint), text))
        seen.add((taint.key, taint.effect))


def check_topology_spread(errors: Errors, path: str, constraints: tuple[core_v1.TopologySpreadConstraint, ...]) -> None:
    """`topologySpreadConstraints` of a pod."""
    pairs = [(constraint.topology_key, constraint.when_unsatisfiable) for constraint in constraints]
    last = {pair: index for index, pair in enumerate(pairs)}
    for index, constraint in enumerate(constraints):
        where, action = f"{path}[{index}]", constraint.when_unsatisfiable
        if constraint.max_skew <= 0:
            errors.append(invalid(f"{where}.maxSkew", constraint.max_skew, "must be greater than zero"))
        if not constraint.topology_key:
            errors.append(required(f"{where}.topologyKey", "can not be empty"))
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            errors.append(unsupported(f"{where}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway")))
        pair = pairs[index]
        if last[pair] > index:
            errors.append(duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{pair[0]}, {pair[1]}}}"))
        if constraint.min_domains is not None:
            if constraint.min_domains <= 0:
                errors.append(invalid(f"{where}.minDomains", constraint.min_domains, "must be greater than zero"))
            if action != "DoNotSchedule":
                text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                errors.append(invalid(f"{where}.minDomains", constraint.min_domains, text))
        if constraint.node_affinity_policy not in (None, "Honor", "Ignore"):
            errors.append(
                unsupported(f"{where}.nodeAffinityPolicy", constraint.node_affinity_policy, ("Honor", "Ignore"))
            )
        if constraint.node_taints_policy not in (None, "Honor", "Ignore"):
            errors.append(unsupported(f"{where}.nodeTaintsPolicy", constraint.node_taints_policy, ("Honor", "Ignore")))
        _check_label_keys(errors, f"{where}.matchLabelKeys", constraint.match_label_keys, constraint.label_selector)
        keys = constraint.match_label_keys
        _check_keys_not_selected(errors, f"{where}.matchLabelKeys", keys, constraint.label_selector)
        check_label_selector(errors, f"{where}.labelSelector", constraint.label_selector)
