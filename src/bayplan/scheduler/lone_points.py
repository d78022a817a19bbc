"""Plugins that are asked at Filter or Score, while a profile leaves out the extension point at which they prepare for it.

Some then work out what they need as they go; the others of Kubernetes fail, in words of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from bayplan.scheduler.framework.extension_points import Plugin, PreFilterPlugin, PreScorePlugin

_READS: Final = '{0} "{1}{2}" from cycleState: not found'
_NOT_FOUND: Final = "not found"

_FILTERS: Final = {
    "NodePorts": _READS.format("reading", "PreFilter", "NodePorts"),
    "NodeResourcesFit": _READS.format("error reading", "PreFilter", "NodeResourcesFit"),
    "VolumeBinding": _NOT_FOUND,
    "PodTopologySpread": _READS.format("reading", "PreFilter", "PodTopologySpread"),
    "InterPodAffinity": _READS.format("error reading", "PreFilter", "InterPodAffinity"),
    "DynamicResources": _NOT_FOUND,
    "NodeDeclaredFeatures": 'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found',
}
"""Filter plugins that fail without PreFilter, and how."""

_NOTICE_IT: Final = frozenset(("VolumeRestrictions",))
"""Filter plugins that can tell something without PreFilter, and fail by themselves where they cannot."""

_SCORES: Final = {
    "TaintToleration": ("preScore", _READS.format("failed to read", "PreScore", "TaintToleration")),
    "PodTopologySpread": ("preScore", _READS.format("error reading", "PreScore", "PodTopologySpread")),
    "InterPodAffinity": ("preScore", _READS.format("failed to read", "PreScore", "InterPodAffinity")),
    "DynamicResources": ("preFilter", _NOT_FOUND),
}
"""Score plugins that fail without the extension point, and how."""


def score_failure(plugin: str) -> str:
    """What Kubernetes puts before a failure of Score."""
    return f'running Score plugins: plugin "{plugin}" failed with: '


def lone_filters(plugins: Iterable[Plugin], prepared: Collection[str]) -> dict[str, str]:
    """The filter plugins that are not asked at PreFilter although they could be, with how they fail; empty if they do not."""
    return {
        plugin.name: _FILTERS.get(plugin.name, "")
        for plugin in plugins
        if isinstance(plugin, PreFilterPlugin) and plugin.name not in prepared and plugin.name not in _NOTICE_IT
    }


def lone_scores(plugins: Iterable[Plugin], prepared: dict[str, Collection[str]]) -> dict[str, str]:
    """The same for score plugins; `prepared`: extension point -> the plugins that are enabled there."""
    found = {}
    for plugin in plugins:
        point, failure = _SCORES.get(plugin.name, ("preScore", ""))
        if plugin.name not in prepared[point] and (failure or isinstance(plugin, PreScorePlugin)):
            found[plugin.name] = score_failure(plugin.name) + failure if failure else ""
    return found
