"""A profile: the plugins that schedule the pods of one `schedulerName`, in order, per extension point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from bayplan.scheduler import registry
from bayplan.scheduler.framework import extension_points as points
from bayplan.scheduler.framework.extension_points import Plugin
from bayplan.scheduler.framework.verdicts import ReasonTable, Reject
from bayplan.scheduler.settings import PluginChoice, PluginSet, ProfileSettings
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.scheduler.snapshot.snapshot import Snapshot

P = TypeVar("P", bound=Plugin)


class Profile:
    """Plugin instances over one snapshot. `weights` is per score plugin."""

    def __init__(self, settings: ProfileSettings, snapshot: Snapshot) -> None:
        self.name = settings.scheduler_name
        self.settings = settings
        self.snapshot = snapshot
        self.reasons = ReasonTable()
        self.plugins: dict[str, Plugin] = {}
        self.weights: dict[str, int] = {}
        self.pre_enqueue = self._at("preEnqueue", points.PreEnqueuePlugin)
        self.queue_sort = self._at("queueSort", points.QueueSortPlugin)
        self.pre_filter = self._at("preFilter", points.PreFilterPlugin)
        self.filter = self._at("filter", points.FilterPlugin)
        self.post_filter = self._at("postFilter", points.PostFilterPlugin)
        self.pre_score = self._at("preScore", points.PreScorePlugin)
        self.score = self._at("score", points.ScorePlugin)
        self.reserve = self._at("reserve", points.ReservePlugin)
        self.permit = self._at("permit", points.PermitPlugin)
        self.pre_bind = self._at("preBind", points.PreBindPlugin)
        self.bind = self._at("bind", points.BindPlugin)
        self.post_bind = self._at("postBind", points.PostBindPlugin)

    def gate(self, pod: PodInfo) -> tuple[str, Reject] | None:
        """The plugin that keeps a pod out of the queue, and why; None if none does."""
        for plugin in self.pre_enqueue:
            rejection = plugin.pre_enqueue(pod)
            if rejection is not None:
                return plugin.name, rejection
        return None

    def _at(self, point: str, base: Callable[..., P]) -> list[P]:
        """The plugins of an extension point; `base` is its class (which is abstract, so not a `type` to mypy)."""
        chosen = arrange(self.settings.multi_point, self.settings.points.get(point, PluginSet()))
        found: list[P] = []
        for choice, explicit in chosen:
            plugin = self._plugin(choice.name)
            if isinstance(plugin, cast(type, base)):
                found.append(cast(P, plugin))
                if point == "score":
                    self.weights[choice.name] = choice.weight or 1
            elif explicit:
                raise TypeError(f"plugin {choice.name} does not extend {point}")
        return found

    def _plugin(self, name: str) -> Plugin:
        plugin = self.plugins.get(name)
        if plugin is None:
            cls: Any = registry.plugin_class(name)
            plugin = self.plugins[name] = cls(self.settings.arguments.get(name), self)
        return plugin


def arrange(multi_point: tuple[PluginChoice, ...], own: PluginSet) -> list[tuple[PluginChoice, bool]]:
    """The order at one extension point, and whether a plugin was named for it in particular.

    First those named both here and for all points (as here), then the rest of those for all points, then those named
    only here.
    """
    everywhere = {choice.name for choice in multi_point} if "*" not in own.disabled else set()
    here = {choice.name for choice in own.enabled}
    overriding = [(choice, True) for choice in own.enabled if choice.name in everywhere]
    general = [
        (choice, False)
        for choice in multi_point
        if choice.name in everywhere and choice.name not in here and choice.name not in own.disabled
    ]
    only_here = [(choice, True) for choice in own.enabled if choice.name not in everywhere]
    return [*overriding, *general, *only_here]
