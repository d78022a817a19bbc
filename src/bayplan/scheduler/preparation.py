"""PreFilter: what the plugins work out about a pod before its nodes are looked at, and where it ends the attempt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bayplan.scheduler.framework.extension_points import FilterPlugin, PreFilterPlugin
from bayplan.scheduler.framework.meter import timed_plugin
from bayplan.scheduler.framework.state import CycleState, PodShape
from bayplan.scheduler.framework.verdicts import Narrow, Reject, Skip, Status
from bayplan.scheduler.profile import Profile


@dataclass(frozen=True, slots=True)
class Prepared:
    """What PreFilter said of a shape."""

    rejection: tuple[str, Reject] | None = None
    """Who rejected it, and how; the name is empty if the node sets of several plugins did not meet."""
    narrowed: frozenset[str] | None = None
    """The nodes that come into question; None if all do."""
    narrowed_by: tuple[str, ...] = ()
    ended_by: str = ""
    """The plugin after which none is asked any more; empty if all are."""


def prepare(profile: Profile, state: CycleState, shape: PodShape, plugins: Iterable[PreFilterPlugin]) -> Prepared:
    """Ask PreFilter plugins in order, until one rejects the pod for good. Raises PluginError."""
    rejection: tuple[str, Reject] | None = None
    narrowed: frozenset[str] | None = None
    ended_by, by = "", list[str]()
    for plugin in plugins:
        answer = plugin.pre_filter(state, shape) if profile.meter is None else _timed(profile, plugin, state, shape)
        if isinstance(answer, Skip):
            state.skip_filter.add(plugin.name)
            continue
        profile.evaluations[plugin.name, "PreFilter"].inc()
        if isinstance(answer, Reject):
            rejection = (plugin.name, answer)
            if answer.status is not Status.UNSCHEDULABLE:
                ended_by = plugin.name
                break
        elif isinstance(answer, Narrow):
            by.append(plugin.name)
            narrowed = answer.nodes if narrowed is None else narrowed & answer.nodes
            if not narrowed:
                which = f"plugin(s) [{' '.join(by)}] simultaneously" if len(by) > 1 else f"plugin {by[0]}"
                rejection = ("", Reject(Status.UNRESOLVABLE, (f"node(s) didn't satisfy {which}",)))
                ended_by = plugin.name
                break
    return Prepared(rejection, narrowed, tuple(by), ended_by)


def _timed(
    profile: Profile, plugin: PreFilterPlugin, state: CycleState, shape: PodShape
) -> Skip | Narrow | Reject | None:
    with timed_plugin(profile.meter, plugin.name, "PreFilter") as timing:
        answer = plugin.pre_filter(state, shape)
        if isinstance(answer, Skip):
            timing.status = "Skip"
        elif isinstance(answer, Reject):
            timing.status = answer.status.value
    return answer


def prepare_missing(profile: Profile, plugin: FilterPlugin, state: CycleState, shape: PodShape) -> int:
    """Filter is asked without PreFilter: the plugin fails, or prepares itself. Returns its verdict on all nodes, 0 if it has none.

    A plugin that would have rejected the pod then refuses every node.
    """
    failure = profile.missing_for_filters[plugin.name]
    if failure:
        return plugin.failed(failure)
    if isinstance(plugin, PreFilterPlugin):
        answer = plugin.pre_filter(state, shape)
        if isinstance(answer, Skip):
            state.skip_filter.add(plugin.name)
        elif isinstance(answer, Reject) and plugin.name not in state.data:
            return profile.reasons.code(answer.status, plugin.name, *answer.reasons)
    return 0


def outside_code(profile: Profile, plugins: Iterable[str]) -> int:
    """The verdict on nodes outside the set to which some plugins narrowed the choice."""
    by = " ".join(sorted(plugins))
    return profile.reasons.code(Status.UNRESOLVABLE, "", f"node(s) didn't satisfy plugin(s) [{by}]")
