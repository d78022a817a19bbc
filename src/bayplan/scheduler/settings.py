"""KubeSchedulerConfiguration v1: the scheduler's configuration file, typed.

`load` takes a file or what was read from one and gives `SchedulerSettings` with Kubernetes' defaults filled in. Every
error is a `SettingsError` that starts with the path of the field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import yaml

from bayplan.api import codec
from bayplan.api.types.core_v1 import NodeAffinity, TopologySpreadConstraint
from bayplan.scheduler import registry
from bayplan.scheduler.errors import SettingsError
from bayplan.scheduler.framework import arguments
from bayplan.scheduler.framework.arguments import ResourceWeight, ShapePoint

DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"
API_VERSION: Final = "kubescheduler.config.k8s.io/v1"

EXTENSION_POINTS: Final = (
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
)

Tree = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PluginChoice:
    """A plugin and its weight for scoring; 0 means not given."""

    name: str
    weight: int = 0


@dataclass(frozen=True, slots=True)
class PluginSet:
    """What a profile enables and disables at one extension point; `*` in `disabled` stands for all."""

    enabled: tuple[PluginChoice, ...] = ()
    disabled: frozenset[str] = frozenset()


DEFAULT_MULTI_POINT: Final = tuple(PluginChoice(entry.name, entry.weight) for entry in registry.DEFAULT_PLUGINS)


@dataclass(frozen=True, slots=True)
class ProfileSettings:
    """One profile: the plugins that schedule the pods with this `schedulerName`.

    `multi_point` is already merged with the default plugins; `points` is per extension point as configured.
    """

    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    percentage_of_nodes_to_score: int | None = None
    multi_point: tuple[PluginChoice, ...] = DEFAULT_MULTI_POINT
    points: Mapping[str, PluginSet] = field(default_factory=dict)
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """The whole configuration.

    `parallelism` and `percentage_of_nodes_to_score` are accepted and have no effect: every node is looked at, in
    columns. Back-offs are in seconds.
    """

    profiles: tuple[ProfileSettings, ...] = (ProfileSettings(),)
    parallelism: int = 16
    percentage_of_nodes_to_score: int | None = None
    pod_initial_backoff_seconds: float = 1
    pod_max_backoff_seconds: float = 10
    leader_election: Tree = field(default_factory=dict)
    client_connection: Tree = field(default_factory=dict)
    extenders: tuple[Tree, ...] = ()


def load(source: SchedulerSettings | Tree | str | Path | None) -> SchedulerSettings:
    """Settings from a dict, a YAML file, or nothing (the defaults). Raises SettingsError, OSError."""
    if source is None:
        return SchedulerSettings()
    if isinstance(source, SchedulerSettings):
        return source
    if isinstance(source, (str, Path)):
        try:
            source = yaml.safe_load(Path(source).read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise SettingsError(str(source), f"not YAML: {error}") from error
    return parse(_mapping(source, "configuration"))


def parse(tree: Tree) -> SchedulerSettings:
    """Settings from a KubeSchedulerConfiguration as plain dicts. Raises SettingsError."""
    version, kind = tree.get("apiVersion", API_VERSION), tree.get("kind", "KubeSchedulerConfiguration")
    if version != API_VERSION:
        raise SettingsError("apiVersion", f"{version!r} is not supported, use {API_VERSION!r}")
    if kind != "KubeSchedulerConfiguration":
        raise SettingsError("kind", f"{kind!r} is not KubeSchedulerConfiguration")
    profiles = tuple(
        _profile(_mapping(item, f"profiles[{index}]"), f"profiles[{index}]")
        for index, item in enumerate(_sequence(tree.get("profiles"), "profiles"))
    )
    names = [profile.scheduler_name for profile in profiles]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise SettingsError(f"profiles[{index}].schedulerName", f"{name!r} is used by another profile")
    defaults = SchedulerSettings()
    return SchedulerSettings(
        profiles or defaults.profiles,
        _integer(tree, "parallelism", "", 16, low=1),
        _optional_integer(tree, "percentageOfNodesToScore", "", high=100),
        _number(tree, "podInitialBackoffSeconds", 1),
        _number(tree, "podMaxBackoffSeconds", 10),
        _mapping(tree.get("leaderElection") or {}, "leaderElection"),
        _mapping(tree.get("clientConnection") or {}, "clientConnection"),
        tuple(_sequence(tree.get("extenders"), "extenders")),
    )


def _profile(tree: Tree, path: str) -> ProfileSettings:
    plugins = _mapping(tree.get("plugins") or {}, f"{path}.plugins")
    points: dict[str, PluginSet] = {}
    multi_point = DEFAULT_MULTI_POINT
    for point, value in plugins.items():
        plugin_set = _plugin_set(_mapping(value or {}, f"{path}.plugins.{point}"), f"{path}.plugins.{point}")
        if point == "multiPoint":
            multi_point = merge(DEFAULT_MULTI_POINT, plugin_set)
        elif point in EXTENSION_POINTS:
            points[point] = plugin_set
        else:
            raise SettingsError(f"{path}.plugins.{point}", "unknown extension point")
    return ProfileSettings(
        tree.get("schedulerName") or DEFAULT_SCHEDULER_NAME,
        _optional_integer(tree, "percentageOfNodesToScore", path, high=100),
        multi_point,
        points,
        _plugin_config(_sequence(tree.get("pluginConfig"), f"{path}.pluginConfig"), f"{path}.pluginConfig"),
    )


def merge(defaults: tuple[PluginChoice, ...], custom: PluginSet) -> tuple[PluginChoice, ...]:
    """The default plugins with a custom set applied: a plugin named again replaces the default in its place."""
    replaced = {choice.name: choice for choice in custom.enabled}
    merged: list[PluginChoice] = []
    if "*" not in custom.disabled:
        kept = (choice for choice in defaults if choice.name not in custom.disabled)
        merged = [replaced.pop(choice.name, choice) for choice in kept]
    return (*merged, *(choice for choice in custom.enabled if choice.name in replaced))


def _plugin_set(tree: Tree, path: str) -> PluginSet:
    enabled = []
    for index, item in enumerate(_sequence(tree.get("enabled"), f"{path}.enabled")):
        where = f"{path}.enabled[{index}]"
        name = _mapping(item, where).get("name", "")
        if not registry.is_known(name):
            raise SettingsError(f"{where}.name", f"no plugin {name!r}; known are {', '.join(registry.known_names())}")
        enabled.append(PluginChoice(name, _integer(item, "weight", where, 0)))
    disabled = [item.get("name", "") for item in _sequence(tree.get("disabled"), f"{path}.disabled")]
    return PluginSet(tuple(enabled), frozenset(disabled))


def _plugin_config(items: list[Any], path: str) -> dict[str, object]:
    configured: dict[str, object] = {}
    for index, item in enumerate(items):
        where = f"{path}[{index}]"
        name = _mapping(item, where).get("name", "")
        if name in configured:
            raise SettingsError(f"{where}.name", f"{name!r} is configured twice")
        args = item.get("args") or {}
        reader = _READERS.get(name)
        configured[name] = reader(_mapping(args, f"{where}.args"), f"{where}.args") if reader else args
    return configured


# Arguments of the built-in plugins


def _fit(tree: Tree, path: str) -> arguments.NodeResourcesFitArgs:
    strategy = _mapping(tree.get("scoringStrategy") or {}, f"{path}.scoringStrategy")
    kind = strategy.get("type") or "LeastAllocated"
    where = f"{path}.scoringStrategy"
    if kind not in ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"):
        raise SettingsError(f"{where}.type", f"unsupported scoring strategy {kind!r}")
    ratio = _mapping(strategy.get("requestedToCapacityRatio") or {}, f"{where}.requestedToCapacityRatio")
    shape = _shape(ratio.get("shape"), f"{where}.requestedToCapacityRatio.shape")
    if kind == "RequestedToCapacityRatio" and not shape:
        raise SettingsError(f"{where}.requestedToCapacityRatio.shape", "at least one point must be specified")
    return arguments.NodeResourcesFitArgs(
        frozenset(tree.get("ignoredResources") or ()),
        frozenset(tree.get("ignoredResourceGroups") or ()),
        kind,
        _resources(strategy.get("resources"), f"{where}.resources"),
        shape,
    )


def _resources(value: Any, path: str) -> tuple[ResourceWeight, ...]:
    items = _sequence(value, path)
    if not items:
        return arguments.CPU_AND_MEMORY
    return tuple(
        ResourceWeight(item.get("name", ""), _integer(item, "weight", f"{path}[{index}]", 0, high=100) or 1)
        for index, item in enumerate(items)
    )


def _shape(value: Any, path: str) -> tuple[ShapePoint, ...]:
    points = [
        ShapePoint(
            _integer(item, "utilization", f"{path}[{index}]", 0, high=100),
            _integer(item, "score", f"{path}[{index}]", 0, high=10),
        )
        for index, item in enumerate(_sequence(value, path))
    ]
    for index in range(1, len(points)):
        if points[index].utilization <= points[index - 1].utilization:
            raise SettingsError(f"{path}[{index}].utilization", "utilization values must be sorted in increasing order")
    return tuple(points)


def _balanced(tree: Tree, path: str) -> arguments.NodeResourcesBalancedAllocationArgs:
    resources = _resources(tree.get("resources"), f"{path}.resources")
    return arguments.NodeResourcesBalancedAllocationArgs(tuple(replace(item, weight=1) for item in resources))


def _node_affinity(tree: Tree, path: str) -> arguments.NodeAffinityArgs:
    added = tree.get("addedAffinity")
    return arguments.NodeAffinityArgs(_object(NodeAffinity, added, f"{path}.addedAffinity") if added else None)


def _inter_pod_affinity(tree: Tree, path: str) -> arguments.InterPodAffinityArgs:
    return arguments.InterPodAffinityArgs(
        _integer(tree, "hardPodAffinityWeight", path, 1, high=100),
        bool(tree.get("ignorePreferredTermsOfExistingPods")),
    )


def _topology_spread(tree: Tree, path: str) -> arguments.PodTopologySpreadArgs:
    kind = tree.get("defaultingType") or "System"
    if kind not in ("System", "List"):
        raise SettingsError(f"{path}.defaultingType", f"{kind!r} is neither 'System' nor 'List'")
    items = _sequence(tree.get("defaultConstraints"), f"{path}.defaultConstraints")
    if kind == "System" and items:
        raise SettingsError(f"{path}.defaultingType", 'when .defaultConstraints are specified, it must be "List"')
    constraints = tuple(
        _object(TopologySpreadConstraint, item, f"{path}.defaultConstraints[{index}]")
        for index, item in enumerate(items)
    )
    return arguments.PodTopologySpreadArgs(kind, constraints)


def _preemption(tree: Tree, path: str) -> arguments.DefaultPreemptionArgs:
    return arguments.DefaultPreemptionArgs(
        _integer(tree, "minCandidateNodesPercentage", path, 10, high=100),
        _integer(tree, "minCandidateNodesAbsolute", path, 100),
    )


def _volume_binding(tree: Tree, path: str) -> arguments.VolumeBindingArgs:
    defaults = arguments.VolumeBindingArgs()
    return arguments.VolumeBindingArgs(
        _integer(tree, "bindTimeoutSeconds", path, defaults.bind_timeout_seconds),
        _shape(tree.get("shape"), f"{path}.shape") or defaults.shape,
    )


_READERS: Final[dict[str, Callable[[Tree, str], object]]] = {
    "NodeResourcesFit": _fit,
    "NodeResourcesBalancedAllocation": _balanced,
    "NodeAffinity": _node_affinity,
    "InterPodAffinity": _inter_pod_affinity,
    "PodTopologySpread": _topology_spread,
    "DefaultPreemption": _preemption,
    "VolumeBinding": _volume_binding,
}


# Reading values


def _object(cls: type[Any], tree: Any, path: str) -> Any:
    try:
        return codec.from_tree(cls, tree)
    except codec.DecodeError as error:
        raise SettingsError(path, str(error)) from error


def _mapping(value: Any, path: str) -> Tree:
    if not isinstance(value, Mapping):
        raise SettingsError(path, f"must be an object, not {type(value).__name__}")
    return value


def _sequence(value: Any, path: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, (list, tuple)):
        raise SettingsError(path, f"must be a list, not {type(value).__name__}")
    return list(value)


def _integer(tree: Tree, key: str, path: str, default: int, *, low: int = 0, high: int = 2**31 - 1) -> int:
    value = tree.get(key)
    if value is None:
        return default
    where = f"{path}.{key}".lstrip(".")
    if isinstance(value, bool) or not isinstance(value, int):
        raise SettingsError(where, f"must be an integer, not {value!r}")
    if not low <= value <= high:
        raise SettingsError(where, f"{value} is not in the range {low}-{high}")
    return value


def _optional_integer(tree: Tree, key: str, path: str, *, high: int) -> int | None:
    return None if tree.get(key) is None else _integer(tree, key, path, 0, high=high)


def _number(tree: Tree, key: str, default: float) -> float:
    value = tree.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise SettingsError(key, f"must be greater than 0, not {value!r}")
    return value
