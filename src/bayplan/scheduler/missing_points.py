"""Plugins that are asked at Filter or Score, while a profile leaves out the extension point at which they prepare for it.

Some then work out what they need as they go; the others of Kubernetes fail, in words that each plugin gives.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from bayplan.scheduler.framework.extension_points import FilterPlugin, PreFilterPlugin, PreScorePlugin, ScorePlugin


def score_failure(plugin: str) -> str:
    """What Kubernetes puts before a failure of Score."""
    return f'running Score plugins: plugin "{plugin}" failed with: '


def missing_for_filters(plugins: Iterable[FilterPlugin], prepared: Collection[str]) -> dict[str, str]:
    """The filter plugins that are not asked at PreFilter although they could be, with how they fail; empty if they do not."""
    return {
        plugin.name: plugin.filter_alone
        for plugin in plugins
        if isinstance(plugin, PreFilterPlugin) and plugin.name not in prepared and plugin.filter_alone is not None
    }


def missing_for_scores(plugins: Iterable[ScorePlugin], prepared: dict[str, Collection[str]]) -> dict[str, str]:
    """The same for score plugins; `prepared`: extension point -> the plugins that are enabled there."""
    found = {}
    for plugin in plugins:
        failure = plugin.score_alone
        if plugin.name not in prepared[plugin.score_prepared_at] and (failure or isinstance(plugin, PreScorePlugin)):
            found[plugin.name] = score_failure(plugin.name) + failure if failure else ""
    return found
