"""Reading a `Policy`, the scheduler's configuration before profiles: predicates, priorities and extenders by name.

One profile comes out, with the plugins that the old names stand for. Source: `pkg/scheduler/apis/config/v1/types.go`
and `legacy_registry.go` of Kubernetes 1.22, the last version that read such files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from bayplan.api.errors import FieldError, invalid
from bayplan.scheduler.configuration.arguments import integer, mapping, sequence
from bayplan.scheduler.configuration.older_names import (
    DEFAULT_PREDICATES,
    DEFAULT_PRIORITIES,
    GENERAL,
    MANDATORY,
    PREDICATES,
    PRIORITIES,
    SCORE,
    OlderName,
    near,
)
from bayplan.scheduler.configuration.reader import raise_all
from bayplan.scheduler.configuration.settings import PluginChoice, PluginSet, ProfileSettings, SchedulerSettings, Tree
from bayplan.scheduler.errors import SettingsError
from bayplan.scheduler.extenders import settings as extender_settings
from bayplan.scheduler.framework import arguments
from bayplan.scheduler.framework.arguments import (
    NodeLabelArgs,
    NodeResourcesFitArgs,
    ResourceWeight,
    ServiceAffinityArgs,
    ShapePoint,
)

ALWAYS: Final = ("SchedulingGates", "PrioritySort", "DynamicResources", "DefaultPreemption", "DefaultBinder")
"""Plugins that no Policy names and every profile needs."""
RATIO: Final = "RequestedToCapacityRatioPriority"
_DEFAULT_SHAPE: Final = [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]
"""Of `RATIO` without an argument, in Kubernetes 1.16 and before."""
RATIO_ARGUMENTS: Final = "requestedToCapacityRatioArguments"
ARGUMENTS: Final = {"labelPreference": "NodeLabel", "serviceAntiAffinity": "ServiceAffinity"}
"""Arguments of priorities with names of their own -> the plugin that does all of them together, with the sum of their weights."""
_FIELDS: Final = (
    "kind", "apiVersion", "predicates", "priorities", "extenders", "hardPodAffinitySymmetricWeight", "alwaysCheckAllPredicates",
)  # fmt: skip
_OF_PREDICATES: Final = ("name", "argument")
_OF_PRIORITIES: Final = ("name", "weight", "argument")
_OF_EXTENDERS: Final = (
    "apiVersion", "urlPrefix", "filterVerb", "preemptVerb", "prioritizeVerb", "weight", "bindVerb", "enableHttps", "enableHTTPS", "tlsConfig", "httpTimeout",
    "nodeCacheCapable", "managedResources", "ignorable",
)  # fmt: skip
WITH_ARGUMENT: Final = {"NodeLabel": frozenset(("score",)), "ServiceAffinity": SCORE}
"""Where these plugins act as priorities."""


def parse(tree: Tree) -> SchedulerSettings:
    """Settings from a Policy as plain dicts. Raises SettingsError."""
    version = tree.get("apiVersion", "v1")
    if version not in ("v1", "kubescheduler.config.k8s.io/v1"):
        raise SettingsError("apiVersion", f"{version!r} is not supported for a Policy, use 'v1'")
    errors: list[FieldError] = []
    _check_fields(tree, _FIELDS, "", errors)
    for part, fields in (("predicates", _OF_PREDICATES), ("priorities", _OF_PRIORITIES), ("extenders", _OF_EXTENDERS)):
        for index, item in enumerate(sequence(tree.get(part), part)):
            _check_fields(mapping(item, f"{part}[{index}]"), fields, f"{part}[{index}].", errors)
    predicates, of_predicates = _predicates(tree, errors)
    weights, of_priorities = _priorities(tree, errors)
    hard_weight = integer(tree, "hardPodAffinitySymmetricWeight", "", 1)
    if not 0 <= hard_weight <= 100:
        errors.append(invalid("hardPodAffinitySymmetricWeight", hard_weight, "not in valid range [0-100]"))
    items = [_extender(mapping(item, "extenders")) for item in sequence(tree.get("extenders"), "extenders")]
    extenders = extender_settings.parse(items, "extenders", errors)
    raise_all(errors)
    affinity = arguments.InterPodAffinityArgs(hard_weight)
    configured: dict[str, object] = {"InterPodAffinity": affinity, **of_predicates, **of_priorities}
    ignored = frozenset().union(*(item.ignored_resources for item in extenders))
    if ignored and "PodFitsResources" in predicates:
        configured["PodFitsResources"] = NodeResourcesFitArgs(ignored_resources=ignored)
    profile = ProfileSettings(
        multi_point=tuple(PluginChoice(name) for name in ALWAYS),
        points=_points(predicates, weights),
        arguments=configured,
    )
    return SchedulerSettings((profile,), extenders=extenders)


def _check_fields(tree: Tree, fields: Iterable[str], path: str, errors: list[FieldError]) -> None:
    """Fields that a Policy does not have, which Kubernetes passed over: what was meant by them would not hold."""
    errors += [
        invalid(f"{path}{name}", tree[name], f"no such field{near(name, fields)}")
        for name in tree
        if name not in fields
    ]


def _points(predicates: Iterable[str], weights: dict[str, int]) -> dict[str, PluginSet]:
    chosen: dict[str, list[PluginChoice]] = {}
    for name in predicates:
        for point in PREDICATES[name].points:
            chosen.setdefault(point, []).append(PluginChoice(name))
    for name, weight in weights.items():
        for point in WITH_ARGUMENT.get(name) or _priority(name).points:
            chosen.setdefault(point, []).append(PluginChoice(name, weight))
    return {point: PluginSet(tuple(choices)) for point, choices in chosen.items()}


def _priority(name: str) -> OlderName:
    return PRIORITIES["LeastRequestedPriority"] if name == RATIO else PRIORITIES[name]


def _predicates(tree: Tree, errors: list[FieldError]) -> tuple[list[str], dict[str, object]]:
    """The predicates, in the order in which they are asked, and the arguments of those that have some."""
    labels, affinity = NodeLabelArgs(), ServiceAffinityArgs()
    if tree.get("predicates") is None:
        wanted = {*DEFAULT_PREDICATES, *MANDATORY}
    else:
        wanted = set(MANDATORY)
        for index, item in enumerate(sequence(tree["predicates"], "predicates")):
            where = f"predicates[{index}]"
            name = mapping(item, where).get("name", "")
            argument = mapping(item.get("argument") or {}, f"{where}.argument")
            presence, together = argument.get("labelsPresence"), argument.get("serviceAffinity")
            if argument and (presence is None) == (together is None):
                errors.append(
                    invalid(
                        f"{where}.argument",
                        name,
                        f"Exactly 1 predicate argument is required, numArgs: {len(argument)}, Predicate: {name}",
                    )
                )
            elif presence is not None:
                found = mapping(presence, f"{where}.argument.labelsPresence")
                keys = _texts(found.get("labels"), f"{where}.argument.labelsPresence.labels")
                if found.get("presence"):
                    labels = replace(labels, present=(*labels.present, *keys))
                else:
                    labels = replace(labels, absent=(*labels.absent, *keys))
                wanted.add("CheckNodeLabelPresence")
            elif together is not None:
                place = f"{where}.argument.serviceAffinity"
                keys = _texts(mapping(together, place).get("labels"), f"{place}.labels")
                affinity = replace(affinity, affinity_labels=(*affinity.affinity_labels, *keys))
                wanted.add("CheckServiceAffinity")
            elif name in ("GeneralPredicates", "GeneralPred"):
                wanted.update(GENERAL)
            elif name in PREDICATES:
                wanted.add(name)
            else:
                told = f"Predicate type not found for {name}{near(name, (*PREDICATES, 'GeneralPredicates'))}"
                errors.append(invalid(f"{where}.name", name, told))
    return [name for name in PREDICATES if name in wanted], {
        "CheckNodeLabelPresence": labels,
        "CheckServiceAffinity": affinity,
    }


def _priorities(tree: Tree, errors: list[FieldError]) -> tuple[dict[str, int], dict[str, object]]:
    """Priority -> weight, and the arguments of those that have some."""
    if tree.get("priorities") is None:
        return dict(DEFAULT_PRIORITIES), {}
    weights: dict[str, int] = {}
    labels, affinity = NodeLabelArgs(), ServiceAffinityArgs()
    first: dict[str, tuple[str, int]] = {}
    configured: dict[str, object] = {}
    for index, item in enumerate(sequence(tree["priorities"], "priorities")):
        where = f"priorities[{index}]"
        name = mapping(item, where).get("name", "")
        weight = integer(item, "weight", where, 0)
        if weight <= 0:
            detail = f"Priority {name} should have a positive weight applied to it or it has overflown"
            errors.append(invalid(f"{where}.weight", weight, detail))
        argument = mapping(item.get("argument") or {}, f"{where}.argument")
        ratio = argument.get("requestedToCapacityRatioArguments")
        if ratio is not None:
            configured["LeastRequestedPriority"] = _ratio(mapping(ratio, where), f"{where}.argument")
            name = "LeastRequestedPriority"
        elif argument.keys() & ARGUMENTS.keys():
            kind = next(one for one in ARGUMENTS if one in argument)
            told = mapping(argument[kind], f"{where}.argument.{kind}")
            label, plugin = str(told.get("label", "")), ARGUMENTS[kind]
            if plugin == "ServiceAffinity":
                affinity = replace(affinity, anti_affinity_labels=(*affinity.anti_affinity_labels, label))
            elif told.get("presence"):
                labels = replace(labels, present_preference=(*labels.present_preference, label))
            else:
                labels = replace(labels, absent_preference=(*labels.absent_preference, label))
            other, same = first.setdefault(plugin, (name, weight))
            if weight != same:
                title = kind[0].upper() + kind[1:]
                detail = f'{title} priority "{name}" has a different weight with "{other}"'
                errors.append(invalid(f"{where}.weight", weight, detail))
            weights[plugin] = weights.get(plugin, 0) + weight
            continue
        elif argument:
            raise SettingsError(
                f"{where}.argument", f"one of {', '.join(sorted((*ARGUMENTS, RATIO_ARGUMENTS)))} is expected"
            )
        elif name == RATIO:
            configured["LeastRequestedPriority"] = _ratio({"shape": _DEFAULT_SHAPE}, f"{where}.argument")
            name = "LeastRequestedPriority"
        elif name not in PRIORITIES:
            detail = f"Priority type not found for {name}{near(name, (*PRIORITIES, RATIO))}"
            errors.append(invalid(f"{where}.name", name, detail))
            continue
        weights[name] = weight
    return weights, configured | {"NodeLabel": labels, "ServiceAffinity": affinity}


def _texts(items: Any, path: str) -> tuple[str, ...]:
    return tuple(str(item) for item in sequence(items, path))


def _ratio(tree: Tree, path: str) -> NodeResourcesFitArgs:
    """`shape` has scores up to 10, as in profiles."""
    where = f"{path}.requestedToCapacityRatioArguments"
    shape = tuple(
        ShapePoint(integer(item, "utilization", where, 0), integer(item, "score", where, 0))
        for item in sequence(tree.get("shape"), f"{where}.shape")
    )
    if not shape:
        raise SettingsError(f"{where}.shape", "Required value: at least one point must be specified")
    resources = tuple(
        ResourceWeight(item.get("name", ""), integer(item, "weight", where, 0) or 1)
        for item in sequence(tree.get("resources"), f"{where}.resources")
    )
    return replace(
        NodeResourcesFitArgs(), strategy="RequestedToCapacityRatio", shape=shape,
        resources=resources or arguments.CPU_AND_MEMORY,
    )  # fmt: skip


def _extender(tree: Tree) -> dict[str, Any]:
    """An extender as profiles have it; here HTTPS is spelled otherwise, and timeouts are nanoseconds."""
    found = dict(tree)
    if "enableHttps" in found:
        found["enableHTTPS"] = found.pop("enableHttps")
    return found
