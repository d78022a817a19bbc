"""The scheduler's configuration, typed: what a KubeSchedulerConfiguration (or an old `Policy`) says.

`load` takes a file or what was read from one and gives `SchedulerSettings` with Kubernetes' defaults filled in. Every
error is a `SettingsError` that starts with the path of the field. `reader` and `policy` do the reading.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bayplan.api.feature_gates import TOPOLOGY_AWARE
from bayplan.scheduler import registry
from bayplan.scheduler.errors import SettingsError
from bayplan.scheduler.extenders.protocol import Extender

DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"

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
    "placementGenerate",
    "placementScore",
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


def default_multi_point(gates: Collection[str]) -> tuple[PluginChoice, ...]:
    """The plugins of the default profile with some feature gates on."""
    if TOPOLOGY_AWARE not in gates:
        return DEFAULT_MULTI_POINT
    more = (PluginChoice(entry.name, entry.weight) for entry in registry.TOPOLOGY_PLUGINS)
    return (*DEFAULT_MULTI_POINT, *more)


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
    feature_gates: frozenset[str] = frozenset()
    """Those of `WORKLOAD_GATES` that are on."""


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """The whole configuration.

    `parallelism` is accepted and has no effect: every node is looked at, in columns. Back-offs are in seconds.
    """

    profiles: tuple[ProfileSettings, ...] = (ProfileSettings(),)
    parallelism: int = 16
    percentage_of_nodes_to_score: int | None = None
    pod_initial_backoff_seconds: float = 1
    pod_max_backoff_seconds: float = 10
    leader_election: Tree = field(default_factory=dict)
    client_connection: Tree = field(default_factory=dict)
    extenders: tuple[Extender, ...] = ()
    """Ignorable ones last."""


def load(source: SchedulerSettings | Tree | str | Path | None, gates: Collection[str] = ()) -> SchedulerSettings:
    """Settings from a dict, a YAML file (a configuration or an old `Policy`), or nothing (the defaults).

    `gates`: the feature gates that are on; settings that were loaded already keep theirs. Raises SettingsError, OSError.
    """
    if source is None:
        profile = ProfileSettings(multi_point=default_multi_point(gates), feature_gates=frozenset(gates))
        return SchedulerSettings((profile,))
    if isinstance(source, SchedulerSettings):
        return source
    if isinstance(source, (str, Path)):
        return parse_text(Path(source).read_text(encoding="utf-8"), str(source), gates)
    return _parse(source, gates)


def parse_text(text: str, name: str = "configuration", gates: Collection[str] = ()) -> SchedulerSettings:
    """Settings from the text of a YAML file. name: what it is called in errors. Raises SettingsError."""
    import yaml  # slow to import, and seldom needed

    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SettingsError(name, f"not YAML: {error}") from error
    return _parse(tree, gates)


def _parse(source: Any, gates: Collection[str]) -> SchedulerSettings:
    from bayplan.scheduler.configuration import policy
    from bayplan.scheduler.configuration import reader as settings_reader

    if not isinstance(source, Mapping):
        raise SettingsError("configuration", f"must be an object, not {type(source).__name__}")
    return policy.parse(source) if source.get("kind") == "Policy" else settings_reader.parse(source, gates)


def merge(defaults: tuple[PluginChoice, ...], custom: PluginSet) -> tuple[PluginChoice, ...]:
    """The default plugins with a custom set applied: a plugin named again replaces the default in its place."""
    replaced = {choice.name: choice for choice in custom.enabled}
    merged: list[PluginChoice] = []
    if "*" not in custom.disabled:
        kept = (choice for choice in defaults if choice.name not in custom.disabled)
        merged = [replaced.pop(choice.name, choice) for choice in kept]
    return (*merged, *(choice for choice in custom.enabled if choice.name in replaced))
