"""A profile: the plugins that schedule the pods of one `schedulerName`, in order, per extension point."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import numpy as np

from bayplan.api.feature_gates import TOPOLOGY_AWARE
from bayplan.scheduler import registry
from bayplan.scheduler.configuration.older_names import OLDER_NAMES
from bayplan.scheduler.configuration.settings import PluginChoice, PluginSet, ProfileSettings
from bayplan.scheduler.errors import SettingsError
from bayplan.scheduler.framework import extension_points as points
from bayplan.scheduler.framework.extension_points import Plugin
from bayplan.scheduler.framework.meter import Meter
from bayplan.scheduler.framework.placements import PlacementGeneratePlugin, PlacementScorePlugin
from bayplan.scheduler.framework.verdicts import ReasonTable, Reject
from bayplan.scheduler.framework.waiting import WaitingPods
from bayplan.scheduler.guards import Guards
from bayplan.scheduler.missing_points import missing_for_filters, missing_for_scores
from bayplan.scheduler.scoring.shared_answers import SharedAnswers
from bayplan.scheduler.snapshot.labels import Ints
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.scheduler.snapshot.shape import PodShape
from bayplan.scheduler.snapshot.snapshot import Snapshot
from bayplan.support.memory.memo import Memo
from bayplan.support.metrics.instruments import Counter

P = TypeVar("P", bound=Plugin)

DEFAULT_BINDER: Final = "DefaultBinder"
PLANS_BYTES: Final = 4 << 20
_PLAN_BYTES: Final = 500
_MOST_SCORE: Final = 150
"""What a plugin of Bayplan's gives at most."""


@dataclass(frozen=True, slots=True)
class PluginPlan:
    """The plugins before and after the decision that have something to do for a shape, in order."""

    pre_enqueue: tuple[points.PreEnqueuePlugin, ...]
    reserve: tuple[points.ReservePlugin, ...]
    permit: tuple[points.PermitPlugin, ...]
    pre_bind: tuple[points.PreBindPlugin, ...]
    bind: tuple[points.BindPlugin, ...]
    post_bind: tuple[points.PostBindPlugin, ...]
    binds_plainly: bool
    """Nothing but the Binding itself is to be done once all Permit plugins have approved."""

    @property
    def plain(self) -> bool:
        """Nothing but the Binding itself is to be done."""
        return self.binds_plainly and not self.permit


class Profile:
    """Plugin instances over one snapshot. `weights` is per score plugin."""

    def __init__(self, settings: ProfileSettings, snapshot: Snapshot, waiting: WaitingPods | None = None) -> None:
        self.name = settings.scheduler_name
        self.settings = settings
        self.snapshot = snapshot
        self.reasons = ReasonTable()
        self.waiting = waiting if waiting is not None else WaitingPods()
        self.meter: Meter | None = None
        """Takes the plugins' times; None if nobody wants to know."""
        self.plugins: dict[str, Plugin] = {}
        self.guards = Guards(snapshot)
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
        self.placement_weights: dict[str, int] = {}
        self.placement_generate = self._at("placementGenerate", PlacementGeneratePlugin)
        self.placement_score = self._at("placementScore", PlacementScorePlugin)
        self.feature_gates = settings.feature_gates | ({TOPOLOGY_AWARE} if self.placement_generate else set())
        self._check()
        snapshot.images_are_structure |= any(not registry.is_built_in(plugin) for plugin in self.plugins.values())

        self.evaluations = {(plugin.name, point): Counter() for point, plugins in self._counted() for plugin in plugins}
        """(plugin, extension point) -> how often it was asked: in PreFilter and PreScore about a pod, in Filter and Score
        about a node. What is known of an equal pod is not asked again; a Skip does not count."""
        self.missing_for_filters = missing_for_filters(self.filter, self._enabled("preFilter"))
        self.missing_for_scores = missing_for_scores(
            self.score, {point: self._enabled(point) for point in ("preFilter", "preScore")}
        )
        """Plugins whose preparation at PreFilter, or PreScore, is disabled -> how they fail for it; empty if they do not."""
        self.only_pre_score = [one for one in self.pre_score if self.score and one.name not in self.weights]
        """Plugins of PreScore that do not score."""
        both: Iterable[Plugin] = (*self.score, *self.pre_score)
        self.pre_scoring = {one.name: one for one in both if isinstance(one, points.PreScorePlugin)}
        """Plugins that prepare themselves at PreScore, by name."""
        self.total_type = self._total_type()
        """Of sums of scores."""
        self.out = int(np.iinfo(self.total_type).min) // 4
        """The total of rows that are not feasible: no score makes up for it."""
        self.shared_answers = SharedAnswers(
            snapshot,
            self.pre_filter,
            self.filter,
            self.score,
            {*self.missing_for_filters, *self.missing_for_scores},
            self.total_type,
        )
        self._binds_plainly = len(self.bind) == 1 and self.bind[0].name == DEFAULT_BINDER and not self.post_bind
        self._concerns: dict[str, Callable[[PodShape], bool]] = {}
        for group in (self.pre_enqueue, self.reserve, self.permit, self.pre_bind):
            self._concerns |= {plugin.name: plugin.concerns for plugin in group}
        self._plans_by_concern: dict[tuple[bool, ...], PluginPlan] = {}
        self._plugin_plans: Memo[int, tuple[PodShape, PluginPlan]] = Memo("plugin_plans", most_bytes=PLANS_BYTES)

    def _total_type(self) -> type[np.signedinteger[Any]]:
        """16 bits where they are enough: arrays of them take the least time and room. Other people's plugins may say anything."""
        built_in = all(registry.is_built_in(plugin) for plugin in self.score)
        return np.int16 if built_in and sum(self.weights.values()) * _MOST_SCORE < 1 << 13 else np.int64

    def weighed(self, scores: Ints, weight: int) -> Ints:
        """Scores times a weight, as sums of them are made of."""
        if scores.dtype != self.total_type:
            scores = scores.astype(self.total_type)
        return scores * weight if weight != 1 else scores

    def _check(self) -> None:
        if len(self.queue_sort) != 1:
            needed = f'only one queue sort plugin required for profile with scheduler name "{self.name}"'
            raise self._wrong(f"{needed}, but got {len(self.queue_sort)}")
        if not self.bind:
            raise self._wrong(f'at least one bind plugin is needed for profile with scheduler name "{self.name}"')
        named = [choice.name for choice in self.settings.points.get("score", PluginSet()).enabled]
        total = 0
        for name in dict.fromkeys((*named, *self.weights)):
            if total < 0:  # kube-scheduler takes it from the largest int64, which then overflows
                raise self._wrong("score plugins: total score of Score plugins could overflow")
            total += self.weights.get(name, 0)

    def _wrong(self, problem: str) -> SettingsError:
        return SettingsError(f"creating profile for scheduler name {self.name}", problem)

    def _enabled(self, point: str) -> frozenset[str]:
        chosen = arrange(self.settings.multi_point, self.settings.points.get(point, PluginSet()))
        return frozenset(choice.name for choice, _ in chosen)

    def _counted(self) -> Iterator[tuple[str, Iterable[Plugin]]]:
        yield "PreFilter", self.pre_filter
        yield "Filter", self.filter
        scoring = (plugin for plugin in self.score if isinstance(plugin, points.PreScorePlugin))
        yield "PreScore", dict.fromkeys((*scoring, *self.pre_score))
        yield "Score", self.score

    def plugin_plan(self, shape: PodShape) -> PluginPlan:
        """The plugins that pods of a shape meet before and after the decision; worked out once per shape."""
        known = self._plugin_plans.get(id(shape))
        if known is not None:
            return known[1]
        answers = tuple([concerns(shape) for concerns in self._concerns.values()])
        plugin_plan = self._plans_by_concern.get(answers)
        if plugin_plan is None:
            concerned = {name for name, answer in zip(self._concerns, answers, strict=True) if answer}
            plugin_plan = self._plans_by_concern[answers] = self._plan_of(concerned)
        self._plugin_plans.put(id(shape), (shape, plugin_plan), _PLAN_BYTES)
        return plugin_plan

    def _plan_of(self, names: set[str]) -> PluginPlan:
        pre_enqueue = tuple(plugin for plugin in self.pre_enqueue if plugin.name in names)
        reserve = tuple(plugin for plugin in self.reserve if plugin.name in names)
        permit = tuple(plugin for plugin in self.permit if plugin.name in names)
        pre_bind = tuple(plugin for plugin in self.pre_bind if plugin.name in names)
        plain = self._binds_plainly and not (reserve or pre_bind)
        return PluginPlan(pre_enqueue, reserve, permit, pre_bind, tuple(self.bind), tuple(self.post_bind), plain)

    def plugin_behind(self, error: BaseException) -> str | None:
        """The plugin in whose code an error came up that no plugin should raise; None if it was none of this profile."""
        found = None
        trace = error.__traceback__
        while trace is not None:
            owner = trace.tb_frame.f_locals.get("self")
            if isinstance(owner, Plugin) and self.plugins.get(owner.name) is owner:
                found = owner.name
            trace = trace.tb_next
        return found

    def gate(self, pod: PodInfo) -> tuple[str, Reject] | None:
        """The plugin that keeps a pod out of the queue, and why; None if none does."""
        for plugin in self.plugin_plan(pod.shape).pre_enqueue:
            rejection = plugin.pre_enqueue(pod)
            if rejection is not None:
                return plugin.name, rejection
        return None

    def _at(self, point: str, base: Callable[..., P]) -> list[P]:
        """The plugins of an extension point; `base` is its class (which is abstract, so not a `type` to mypy).

        Raises SettingsError.
        """
        chosen = arrange(self.settings.multi_point, self.settings.points.get(point, PluginSet()))
        found: list[P] = []
        kind = f"{point[0].upper()}{point[1:]}Plugin"
        names = [choice.name for choice, _ in chosen]
        for choice, explicit in chosen:
            older = OLDER_NAMES.get(choice.name)
            if older is not None and point not in older.points:
                continue
            plugin = self._plugin(choice.name)
            if isinstance(plugin, cast(type, base)):
                if names.count(choice.name) > 1:
                    raise self._wrong(f'plugin "{choice.name}" already registered as "{kind}"')
                found.append(cast(P, plugin))
                if point == "score":
                    self.weights[choice.name] = choice.weight or 1
                elif point == "placementScore":
                    self.placement_weights[choice.name] = choice.weight or 1
            elif explicit and older is None:
                raise self._wrong(f'plugin "{choice.name}" does not extend {kind} plugin')
        return found

    def _plugin(self, name: str) -> Plugin:
        plugin = self.plugins.get(name)
        if plugin is None:
            cls: Any = registry.plugin_class(name)
            older = OLDER_NAMES.get(name)
            args = self.settings.arguments.get(name)
            if older is not None and args is None:
                args = older.arguments or self.settings.arguments.get(older.plugin)
            plugin = self.plugins[name] = cls(args, self)
            if older is not None:
                # Its own memory and weight, beside those of the plugin that it stands for.
                plugin.name = name
            elif not registry.is_built_in(plugin):
                self.guards.watch(plugin)
        return plugin


def arrange(multi_point: tuple[PluginChoice, ...], own: PluginSet) -> list[tuple[PluginChoice, bool]]:
    """The order at one extension point, and whether a plugin was named for it in particular.

    First those named both here and for all points (as here), then the rest of those for all points, then those named
    only here, or disabled here for all points and named again.
    """
    everywhere = {choice.name for choice in multi_point if "*" not in own.disabled} - own.disabled
    here = {choice.name for choice in own.enabled}
    overriding = [(choice, True) for choice in own.enabled if choice.name in everywhere]
    general = [(choice, False) for choice in multi_point if choice.name in everywhere and choice.name not in here]
    only_here = [(choice, True) for choice in own.enabled if choice.name not in everywhere]
    return [*overriding, *general, *only_here]
