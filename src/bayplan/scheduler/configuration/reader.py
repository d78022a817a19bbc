"""Reading a KubeSchedulerConfiguration, v1 or v1beta3, with kube-scheduler's checks in its words.

All that is wrong with values is collected and told at once; what has the wrong form ends the reading. Source:
`pkg/scheduler/apis/config/validation` and the versions' defaults.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from bayplan.api.errors import duplicate, invalid, required
from bayplan.scheduler import registry
from bayplan.scheduler.configuration.arguments import (
    FIELDS,
    READERS,
    Errors,
    integer,
    mapping,
    number,
    only_known,
    sequence,
)
from bayplan.scheduler.configuration.extra_arguments import FIELDS as EXTRA_FIELDS
from bayplan.scheduler.configuration.extra_arguments import READERS as EXTRA_READERS
from bayplan.scheduler.configuration.older_names import OLDER_NAMES, REMOVED_IN_V1, near
from bayplan.scheduler.configuration.settings import (
    DEFAULT_SCHEDULER_NAME,
    EXTENSION_POINTS,
    PluginChoice,
    PluginSet,
    ProfileSettings,
    SchedulerSettings,
    Tree,
    default_multi_point,
    merge,
)
from bayplan.scheduler.errors import SettingsError
from bayplan.scheduler.extenders import settings as extender_settings
from bayplan.scheduler.framework import arguments

V1: Final = "kubescheduler.config.k8s.io/v1"
V1BETA3: Final = "kubescheduler.config.k8s.io/v1beta3"

_TOP: Final = frozenset(
    {
        "apiVersion",
        "kind",
        "parallelism",
        "leaderElection",
        "clientConnection",
        "enableProfiling",
        "enableContentionProfiling",
        "percentageOfNodesToScore",
        "podInitialBackoffSeconds",
        "podMaxBackoffSeconds",
        "profiles",
        "extenders",
    }
)
_PROFILE: Final = frozenset({"schedulerName", "plugins", "pluginConfig"})


class _ShownPlugin(msgspec.Struct, rename="pascal"):
    """A plugin as messages show it."""

    name: str
    weight: int = 0


class _ShownSet(msgspec.Struct, rename="pascal"):
    """What is enabled and disabled at an extension point, as messages show it."""

    enabled: list[_ShownPlugin] | None
    disabled: list[_ShownPlugin] | None


def parse(tree: Tree, gates: Collection[str] = ()) -> SchedulerSettings:
    """Settings from a configuration as plain dicts, with some feature gates on. Raises SettingsError."""
    version, kind = tree.get("apiVersion", V1), tree.get("kind", "KubeSchedulerConfiguration")
    if version not in (V1, V1BETA3):
        raise SettingsError("apiVersion", f"{version!r} is not supported, use {V1!r}")
    if kind != "KubeSchedulerConfiguration":
        raise SettingsError("kind", f"{kind!r} is not KubeSchedulerConfiguration")
    newer = version == V1
    only_known(tree, _TOP | ({"delayCacheUntilActive"} if newer else set()), "")
    errors: Errors = []
    client, election = mapping(tree.get("clientConnection") or {}, "clientConnection"), _election(tree, errors)
    if not isinstance(client.get("kubeconfig") or "", str):
        raise SettingsError("clientConnection.kubeconfig", f"must be a string, not {client['kubeconfig']!r}")
    if integer(client, "burst", "clientConnection", 0) < 0:
        errors.append(invalid("clientConnection.burst", client["burst"], "must be non-negative"))
    parallelism = integer(tree, "parallelism", "", 16)
    if parallelism <= 0:
        errors.append(invalid("parallelism", parallelism, "should be an integer value greater than zero"))
    profiles = _profiles(tree, newer, gates, errors)
    percentage = _percentage(tree, "percentageOfNodesToScore", errors)
    initial, longest = _backoff(tree, errors)
    extenders = extender_settings.parse(sequence(tree.get("extenders"), "extenders"), "extenders", errors)
    raise_all(errors)
    ignored = frozenset().union(*(item.ignored_resources for item in extenders))
    profiles = tuple(
        replace(one, percentage_of_nodes_to_score=percentage) if one.percentage_of_nodes_to_score is None else one
        for one in profiles
    )
    return SchedulerSettings(
        tuple(_without(profile, ignored) for profile in profiles),
        parallelism,
        percentage,
        initial,
        longest,
        election,
        client,
        extenders,
    )


def raise_all(errors: Errors) -> None:
    """Raise what is wrong as one SettingsError, if anything is."""
    if len(errors) == 1:
        raise SettingsError(errors[0].field, errors[0].body)
    if errors:
        raise SettingsError.several([str(error) for error in errors], [(error.field, error.body) for error in errors])


def _election(tree: Tree, errors: Errors) -> Tree:
    path = "leaderElection"
    election = mapping(tree.get(path) or {}, path)
    if election.get("leaderElect", True) is not True:
        return election
    seconds = {
        key: extender_settings.duration(election.get(key, default), f"{path}.{key}")
        for key, default in (("leaseDuration", "15s"), ("renewDeadline", "10s"), ("retryPeriod", "2s"))
    }
    for key, value in seconds.items():
        if value <= 0:
            errors.append(invalid(f"{path}.{key}", election.get(key), "must be greater than zero"))
    if seconds["leaseDuration"] <= seconds["renewDeadline"]:
        value = election.get("renewDeadline", "10s")
        errors.append(invalid(f"{path}.leaseDuration", value, "must be greater than `RenewDeadline`"))
    lock = election.get("resourceLock", "leases")
    if lock != "leases":
        errors.append(invalid(f"{path}.resourceLock", lock, 'resourceLock value must be "leases"'))
    return election


def _backoff(tree: Tree, errors: Errors) -> tuple[float, float]:
    initial, longest = number(tree, "podInitialBackoffSeconds", 1), number(tree, "podMaxBackoffSeconds", 10)
    if initial <= 0:
        errors.append(invalid("podInitialBackoffSeconds", initial, "must be greater than 0"))
    if longest < initial:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        errors.append(invalid("podMaxBackoffSeconds", longest, detail))
    return initial, longest


def _percentage(tree: Tree, where: str, errors: Errors) -> int | None:
    """0 means what nothing means in v1beta3 and is told apart from it nowhere."""
    if tree.get("percentageOfNodesToScore") is None:
        return None
    value = integer(tree, "percentageOfNodesToScore", where.rpartition(".")[0], 0)
    if not 0 <= value <= 100:
        errors.append(invalid(where, value, "not in valid range [0-100]"))
    return value


# Profiles


def _profiles(tree: Tree, newer: bool, gates: Collection[str], errors: Errors) -> tuple[ProfileSettings, ...]:
    items = sequence(tree.get("profiles"), "profiles")
    defaults = ProfileSettings(multi_point=default_multi_point(gates), feature_gates=frozenset(gates))
    if not items:
        return (defaults,)
    profiles: list[ProfileSettings] = []
    names: list[str] = []
    for index, item in enumerate(items):
        path = f"profiles[{index}]"
        profile = _profile(mapping(item, path), path, newer, len(items) == 1, defaults, errors)
        if profile.scheduler_name in names:
            place = f"profiles[{names.index(profile.scheduler_name)}].schedulerName"
            errors.append(duplicate(f"{path}.schedulerName", place))
        names.append(profile.scheduler_name)
        profiles.append(profile)
    _common_queue_sort(profiles, errors)
    return tuple(profiles)


def _common_queue_sort(profiles: list[ProfileSettings], errors: Errors) -> None:
    first = profiles[0].points.get("queueSort", PluginSet())
    if len(first.enabled) > 1:
        where = "profiles[0].plugins.queueSort.Enabled"
        errors.append(invalid(where, len(first.enabled), "only one queue sort plugin can be enabled"))
    for index, profile in enumerate(profiles[1:], 1):
        current = profile.points.get("queueSort", PluginSet())
        if current != first:
            shown = _ShownSet(
                [_ShownPlugin(item.name, item.weight) for item in current.enabled] or None,
                [_ShownPlugin(name) for name in sorted(current.disabled)] or None,
            )
            where = f"profiles[{index}].plugins.queueSort"
            errors.append(invalid(where, shown, "must be the same for all profiles"))


def _profile(
    tree: Tree, path: str, newer: bool, alone: bool, defaults: ProfileSettings, errors: Errors
) -> ProfileSettings:
    only_known(tree, _PROFILE | ({"percentageOfNodesToScore"} if newer else set()), path)
    name = tree.get("schedulerName")
    if name is None and alone:
        name = DEFAULT_SCHEDULER_NAME
    if not name:
        errors.append(required(f"{path}.schedulerName"))
    plugins = mapping(tree.get("plugins") or {}, f"{path}.plugins")
    only_known(plugins, {*EXTENSION_POINTS, "multiPoint"}, f"{path}.plugins")
    points: dict[str, PluginSet] = {}
    multi_point = defaults.multi_point
    for point, value in plugins.items():
        where = f"{path}.plugins.{point}"
        plugin_set = _plugin_set(mapping(value or {}, where), where, newer, errors)
        if point == "multiPoint":
            multi_point = merge(multi_point, plugin_set)
        else:
            points[point] = plugin_set
    config = sequence(tree.get("pluginConfig"), f"{path}.pluginConfig")
    return ProfileSettings(
        name or "",
        _percentage(tree, f"{path}.percentageOfNodesToScore", errors),
        multi_point,
        spread_older_names(points),
        _plugin_config(config, f"{path}.pluginConfig", newer, errors),
        defaults.feature_gates,
    )


def spread_older_names(points: Mapping[str, PluginSet]) -> dict[str, PluginSet]:
    """An older name acts at all points that it was about, wherever it is enabled."""
    spread = dict(points)
    for point, plugin_set in points.items():
        for choice in plugin_set.enabled:
            older = OLDER_NAMES.get(choice.name)
            for other in sorted(older.points - {point}) if older is not None else ():
                there = spread.get(other, PluginSet())
                if all(item.name != choice.name for item in there.enabled):
                    spread[other] = replace(there, enabled=(*there.enabled, choice))
    return spread


def _without(profile: ProfileSettings, resources: frozenset[str]) -> ProfileSettings:
    """The profile, not looking at resources that an extender manages alone: these stand in for any that it ignores."""
    if not resources:
        return profile
    fit = profile.arguments.get("NodeResourcesFit")
    known = fit if isinstance(fit, arguments.NodeResourcesFitArgs) else arguments.NodeResourcesFitArgs()
    known = replace(known, ignored_resources=resources)
    return replace(profile, arguments={**profile.arguments, "NodeResourcesFit": known})


def _plugin_set(tree: Tree, path: str, newer: bool, errors: Errors) -> PluginSet:
    only_known(tree, {"enabled", "disabled"}, path)
    enabled = []
    for index, item in enumerate(sequence(tree.get("enabled"), f"{path}.enabled")):
        where = f"{path}.enabled[{index}]"
        name = mapping(item, where).get("name", "")
        if newer and name in REMOVED_IN_V1:
            errors.append(invalid(where, name, _removed()))
        elif not registry.is_known(name):
            known = registry.known_names()
            hint = near(name, (*known, *OLDER_NAMES)) or f"; known are {', '.join(known)}"
            raise SettingsError(f"{where}.name", f"no plugin {name!r}{hint}")
        enabled.append(PluginChoice(name, integer(item, "weight", where, 0)))
    items = sequence(tree.get("disabled"), f"{path}.disabled")
    disabled = [mapping(item, f"{path}.disabled[{index}]").get("name", "") for index, item in enumerate(items)]
    return PluginSet(tuple(enabled), frozenset(disabled))


def _removed() -> str:
    return f'was invalid in version "{V1}" (KubeSchedulerConfiguration is version "{V1}")'


def _plugin_config(items: list[Any], path: str, newer: bool, errors: Errors) -> dict[str, object]:
    configured: dict[str, object] = {}
    for index, item in enumerate(items):
        where = f"{path}[{index}]"
        name = mapping(item, where).get("name", "")
        if name in configured:
            errors.append(duplicate(where, name))
        if newer and name in REMOVED_IN_V1:
            errors.append(invalid(where, name, _removed()))
        args = mapping(item.get("args") or {}, f"{where}.args")
        older = OLDER_NAMES.get(name)
        target = older.plugin if older is not None else name
        reader = READERS.get(target) or EXTRA_READERS.get(target)
        if reader is None:
            configured[name] = args
            continue
        known = (FIELDS.get(target) or EXTRA_FIELDS[target]) - (
            {"ignorePreferredTermsOfExistingPods"} if not newer else set()
        )
        only_known(args, known | {"apiVersion", "kind"}, f"{where}.args")
        configured[name] = reader(args, f"{where}.args", errors)
    return configured
