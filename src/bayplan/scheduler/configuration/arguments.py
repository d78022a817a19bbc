"""Reading the arguments of plugins (`pluginConfig[].args`), and values in general, with kube-scheduler's checks.

Source: `pkg/scheduler/apis/config/validation/validation_pluginargs.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from bayplan.api import codec
from bayplan.api.errors import FieldError, duplicate, forbidden, invalid, required, unsupported
from bayplan.api.selectors.labels import qualified_name_errors
from bayplan.api.types.core_v1 import NodeAffinity, TopologySpreadConstraint
from bayplan.scheduler.errors import SettingsError
from bayplan.scheduler.extenders import settings as extender_settings
from bayplan.scheduler.framework import arguments
from bayplan.scheduler.framework.arguments import ResourceWeight, ShapePoint
from bayplan.scheduler.snapshot.node_selector import errors_of

Tree = Mapping[str, Any]
Errors = list[FieldError]

FIELDS: Final[dict[str, frozenset[str]]] = {
    "DefaultPreemption": frozenset({"minCandidateNodesPercentage", "minCandidateNodesAbsolute"}),
    "InterPodAffinity": frozenset({"hardPodAffinityWeight", "ignorePreferredTermsOfExistingPods"}),
    "NodeResourcesFit": frozenset({"ignoredResources", "ignoredResourceGroups", "scoringStrategy"}),
    "NodeResourcesBalancedAllocation": frozenset({"resources"}),
    "NodeAffinity": frozenset({"addedAffinity"}),
    "PodTopologySpread": frozenset({"defaultConstraints", "defaultingType"}),
    "VolumeBinding": frozenset({"bindTimeoutSeconds", "shape"}),
    "DynamicResources": frozenset({"filterTimeout", "bindingTimeout"}),
}
_STRATEGIES: Final = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")


class _ShownPoint(msgspec.Struct, rename="pascal"):
    """A point of a shape as messages show it."""

    utilization: int
    score: int


def _fit(tree: Tree, path: str, errors: Errors) -> arguments.NodeResourcesFitArgs:
    resources = sequence(tree.get("ignoredResources"), f"{path}.ignoredResources")
    groups = sequence(tree.get("ignoredResourceGroups"), f"{path}.ignoredResourceGroups")
    for index, name in enumerate(resources):
        _label_name(name, f"{path}.ignoredResources[{index}]", errors)
    for index, name in enumerate(groups):
        where = f"{path}.ignoredResourceGroups[{index}]"
        if "/" in name:
            errors.append(invalid(where, name, "resource group name can't contain '/'"))
        _label_name(name, where, errors)
    where = f"{path}.scoringStrategy"
    given = tree.get("scoringStrategy")
    strategy = mapping(given if given is not None else {"type": "LeastAllocated"}, where)
    kind = strategy.get("type") or ""
    if kind not in _STRATEGIES:
        errors.append(unsupported(f"{where}.type", kind, _STRATEGIES))
    weights = _resources(strategy.get("resources"), f"{where}.resources", errors)
    ratio = strategy.get("requestedToCapacityRatio")
    shape: tuple[ShapePoint, ...] = ()
    if kind == "RequestedToCapacityRatio":
        if ratio is None:
            detail = "must be specified when type is RequestedToCapacityRatio"
            errors.append(required(f"{where}.requestedToCapacityRatio", detail))
        else:
            place = f"{where}.requestedToCapacityRatio"
            shape = _shape(mapping(ratio, place).get("shape"), f"{place}.shape", errors)
    elif ratio is not None:
        detail = "must be nil when type is not RequestedToCapacityRatio"
        errors.append(forbidden(f"{where}.requestedToCapacityRatio", detail))
    return arguments.NodeResourcesFitArgs(frozenset(resources), frozenset(groups), kind, weights, shape)


def _label_name(name: str, path: str, errors: Errors) -> None:
    errors.extend(invalid(path, name, problem) for problem in qualified_name_errors(name))


def _resources(value: Any, path: str, errors: Errors) -> tuple[ResourceWeight, ...]:
    items = sequence(value, path)
    if not items:
        return arguments.CPU_AND_MEMORY
    found = []
    for index, item in enumerate(items):
        where = f"{path}[{index}]"
        name = mapping(item, where).get("name", "")
        weight = integer(item, "weight", where, 0, bits=64) or 1
        if not 0 < weight <= 100:
            detail = f"resource weight of {name} not in valid range (0, 100]"
            errors.append(invalid(f"{where}.weight", weight, detail))
        found.append(ResourceWeight(name, weight))
    return tuple(found)


def _shape(value: Any, path: str, errors: Errors) -> tuple[ShapePoint, ...]:
    points = [
        ShapePoint(integer(item, "utilization", f"{path}[{index}]", 0), integer(item, "score", f"{path}[{index}]", 0))
        for index, item in enumerate(sequence(value, path))
    ]
    if not points:
        errors.append(required(path, "at least one point must be specified"))
    for index in range(1, len(points)):
        if points[index].utilization <= points[index - 1].utilization:
            where = f"{path}[{index}].utilization"
            errors.append(invalid(where, points[index].utilization, "values must be sorted in increasing order"))
            break
    for index, point in enumerate(points):
        if not 0 <= point.utilization <= 100:
            errors.append(invalid(f"{path}[{index}].utilization", point.utilization, "not in valid range [0, 100]"))
        if not 0 <= point.score <= 10:
            errors.append(invalid(f"{path}[{index}].score", point.score, "not in valid range [0, 10]"))
    return tuple(points)


def _balanced(tree: Tree, path: str, errors: Errors) -> arguments.NodeResourcesBalancedAllocationArgs:
    seen: set[str] = set()
    for index, item in enumerate(sequence(tree.get("resources"), f"{path}.resources")):
        where = f"{path}.resources[{index}]"
        name = mapping(item, where).get("name", "")
        if name in seen:
            errors.append(duplicate(f"{where}.name", name))
        seen.add(name)
        weight = integer(item, "weight", where, 0, bits=64) or 1
        if weight != 1:
            errors.append(invalid(f"{where}.weight", weight, "must be 1"))
    resources = _resources(tree.get("resources"), f"{path}.resources", [])
    return arguments.NodeResourcesBalancedAllocationArgs(tuple(replace(item, weight=1) for item in resources))


def _node_affinity(tree: Tree, path: str, errors: Errors) -> arguments.NodeAffinityArgs:
    if tree.get("addedAffinity") is None:
        return arguments.NodeAffinityArgs(None)
    where = f"{path}.addedAffinity"
    added: NodeAffinity = _object(NodeAffinity, tree["addedAffinity"], where)
    required_terms = added.required_during_scheduling_ignored_during_execution
    terms = [
        (f"{where}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{index}]", term)
        for index, term in enumerate(required_terms.node_selector_terms if required_terms is not None else ())
    ]
    terms += [
        (f"{where}.preferredDuringSchedulingIgnoredDuringExecution[{index}]", item.preference)
        for index, item in enumerate(added.preferred_during_scheduling_ignored_during_execution)
        if item.weight
    ]
    for place, term in terms:
        errors.extend(msgspec.structs.replace(problem, field=f"{place}.{problem.field}") for problem in errors_of(term))
    return arguments.NodeAffinityArgs(added)


def _inter_pod_affinity(tree: Tree, path: str, errors: Errors) -> arguments.InterPodAffinityArgs:
    weight = integer(tree, "hardPodAffinityWeight", path, 1)
    if not 0 <= weight <= 100:
        errors.append(invalid(f"{path}.hardPodAffinityWeight", weight, "not in valid range [0, 100]"))
    return arguments.InterPodAffinityArgs(weight, bool(tree.get("ignorePreferredTermsOfExistingPods")))


def _topology_spread(tree: Tree, path: str, errors: Errors) -> arguments.PodTopologySpreadArgs:
    kind = tree.get("defaultingType") or "System"
    items = sequence(tree.get("defaultConstraints"), f"{path}.defaultConstraints")
    if kind not in ("System", "List"):
        errors.append(unsupported(f"{path}.defaultingType", kind, ("System", "List")))
    elif kind == "System" and items:
        errors.append(invalid(f"{path}.defaultingType", kind, "when .defaultConstraints are not empty"))
    constraints: list[TopologySpreadConstraint] = []
    for index, item in enumerate(items):
        where = f"{path}.defaultConstraints[{index}]"
        constraint: TopologySpreadConstraint = _object(TopologySpreadConstraint, item, where)
        _check_constraint(constraint, constraints, where, errors)
        constraints.append(constraint)
    return arguments.PodTopologySpreadArgs(kind, tuple(constraints))


def _check_constraint(
    one: TopologySpreadConstraint, others: Iterable[TopologySpreadConstraint], path: str, errors: Errors
) -> None:
    if one.max_skew <= 0:
        errors.append(invalid(f"{path}.maxSkew", one.max_skew, "not in valid range (0, inf)"))
    if not one.topology_key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    else:
        _label_name(one.topology_key, f"{path}.topologyKey", errors)
    actions = ("DoNotSchedule", "ScheduleAnyway")
    if not one.when_unsatisfiable:
        errors.append(required(f"{path}.whenUnsatisfiable", "can not be empty"))
    elif one.when_unsatisfiable not in actions:
        errors.append(unsupported(f"{path}.whenUnsatisfiable", one.when_unsatisfiable, actions))
    if one.label_selector is not None:
        detail = "constraint must not define a selector, as they deduced for each pod"
        errors.append(forbidden(f"{path}.labelSelector", detail))
    what = (one.topology_key, one.when_unsatisfiable)
    if any((item.topology_key, item.when_unsatisfiable) == what for item in others):
        errors.append(duplicate(path, f"{{{what[0]}, {what[1]}}}"))


def _preemption(tree: Tree, path: str, errors: Errors) -> arguments.DefaultPreemptionArgs:
    percentage = integer(tree, "minCandidateNodesPercentage", path, 10)
    absolute = integer(tree, "minCandidateNodesAbsolute", path, 100)
    where, other = f"{path}.minCandidateNodesPercentage", f"{path}.minCandidateNodesAbsolute"
    if not 0 <= percentage <= 100:
        errors.append(invalid(where, percentage, "not in valid range [0, 100]"))
    if absolute < 0:
        errors.append(invalid(other, absolute, "not in valid range [0, inf)"))
    if percentage == absolute == 0:
        errors.append(invalid(where, 0, "cannot be zero at the same time as minCandidateNodesAbsolute"))
        errors.append(invalid(other, 0, "cannot be zero at the same time as minCandidateNodesPercentage"))
    return arguments.DefaultPreemptionArgs(percentage, absolute)


def _volume_binding(tree: Tree, path: str, errors: Errors) -> arguments.VolumeBindingArgs:
    defaults = arguments.VolumeBindingArgs()
    timeout = integer(tree, "bindTimeoutSeconds", path, defaults.bind_timeout_seconds, bits=64)
    if timeout < 0:
        detail = "invalid BindTimeoutSeconds, should not be a negative value"
        errors.append(invalid(f"{path}.bindTimeoutSeconds", timeout, detail))
    shape = tree.get("shape")
    if shape is not None:
        detail = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        items = sequence(shape, f"{path}.shape")
        shown = [_ShownPoint(item.get("utilization", 0), item.get("score", 0)) for item in items]
        errors.append(invalid(f"{path}.shape", shown, detail))
    return arguments.VolumeBindingArgs(timeout, defaults.shape)


def _dynamic_resources(tree: Tree, path: str, errors: Errors) -> arguments.DynamicResourcesArgs:
    defaults = arguments.DynamicResourcesArgs()
    binding, search = defaults.binding_timeout_seconds, defaults.filter_timeout_seconds
    value = tree.get("filterTimeout")
    if value is not None:
        search = extender_settings.duration(value, f"{path}.filterTimeout")
        if search < 0:
            errors.append(invalid(f"{path}.filterTimeout", value, "must be zero or positive"))
    value = tree.get("bindingTimeout")
    if value is not None:
        binding = extender_settings.duration(value, f"{path}.bindingTimeout")
        if binding < 1:
            errors.append(invalid(f"{path}.bindingTimeout", value, "must be at least 1 second"))
    return arguments.DynamicResourcesArgs(binding, search)


READERS: Final[dict[str, Callable[[Tree, str, Errors], object]]] = {
    "NodeResourcesFit": _fit,
    "NodeResourcesBalancedAllocation": _balanced,
    "NodeAffinity": _node_affinity,
    "InterPodAffinity": _inter_pod_affinity,
    "PodTopologySpread": _topology_spread,
    "DefaultPreemption": _preemption,
    "VolumeBinding": _volume_binding,
    "DynamicResources": _dynamic_resources,
}


# Reading values


def only_known(tree: Tree, names: Iterable[str], path: str) -> None:
    """Fields that do not exist end the reading, as kube-scheduler's strict decoding does."""
    for name in tree:
        if name not in names:
            where = f"{path}.{name}".lstrip(".")
            raise SettingsError("strict decoding error", f'unknown field "{where}"')


def _object(cls: type[Any], tree: Any, path: str) -> Any:
    try:
        return codec.from_tree(cls, tree)
    except codec.DecodeError as error:
        raise SettingsError(path, str(error)) from error


def mapping(value: Any, path: str) -> Tree:
    """An object. Raises SettingsError for anything else."""
    if not isinstance(value, Mapping):
        raise SettingsError(path, f"must be an object, not {type(value).__name__}")
    return value


def sequence(value: Any, path: str) -> list[Any]:
    """A list; nothing is an empty one. Raises SettingsError for anything else."""
    if value is None:
        return []
    if not isinstance(value, (list, tuple)):
        raise SettingsError(path, f"must be a list, not {type(value).__name__}")
    return list(value)


def integer(tree: Tree, key: str, path: str, default: int, *, bits: int = 32) -> int:
    """An integer field of so many bits. Raises SettingsError for anything else."""
    value = tree.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise SettingsError(f"{path}.{key}".lstrip("."), f"must be an integer, not {value!r}")
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise SettingsError(f"{path}.{key}".lstrip("."), f"must be an integer of {bits} bits, not {value}")
    return value


def number(tree: Tree, key: str, default: float) -> float:
    """A number. Raises SettingsError for anything else."""
    value = tree.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise SettingsError(key, f"must be a number, not {value!r}")
    return value
