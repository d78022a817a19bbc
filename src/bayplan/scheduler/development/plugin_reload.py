"""Plugins that are developed while the scheduler runs: a changed file counts from the next decision on.

A file that cannot be loaded, a plugin that cannot be made, and one that fails in its first decision are named in the log; the last good
plugins go on, unless those have failed from their first decision on as well. Pods that wait are tried again with new plugins. The order of
the queue stays that of the start.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bayplan.scheduler import registry
from bayplan.scheduler.configuration import settings as scheduler_settings
from bayplan.scheduler.configuration.settings import PluginChoice, ProfileSettings, SchedulerSettings
from bayplan.scheduler.core import SchedulerCore
from bayplan.scheduler.decision import Decision
from bayplan.scheduler.development.plugin_files import PluginFiles
from bayplan.scheduler.framework.extension_points import Plugin

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""How often files are looked at while no pod is to be decided about."""

Classes = tuple[type[Plugin], ...]


def with_plugins(settings: SchedulerSettings, classes: Iterable[type[Plugin]]) -> SchedulerSettings:
    """The configuration with plugins enabled, weight 1, in the profiles that do not name them."""
    profiles = tuple(_profile_with(profile, tuple(classes)) for profile in settings.profiles)
    return dataclasses.replace(settings, profiles=profiles)


def _profile_with(profile: ProfileSettings, classes: Classes) -> ProfileSettings:
    named = {choice.name for choice in profile.multi_point}
    named.update(choice.name for point in profile.points.values() for choice in point.enabled)
    further = tuple(PluginChoice(plugin.name, 1) for plugin in classes if plugin.name not in named)
    return dataclasses.replace(profile, multi_point=(*profile.multi_point, *further))


class PluginReload:
    """The plugins of some files in one scheduler."""

    def __init__(self, files: PluginFiles, config: Path | None, gates: Collection[str] = ()) -> None:
        self._files = files
        self._config = config
        self._gates = gates
        self._known = ExitStack()
        self._last_good: Classes = ()
        """Those before the latest change, until a decision has been made with it; none if they never were good."""
        self._has_failed_at_once = False
        """Whether the plugins in force failed in their first decision, and no decision has gone well since."""
        self._in_force: Classes = files.classes
        self._is_tried = False
        """Whether a decision has been made with the plugins in force."""

    def settings(self) -> SchedulerSettings:
        """The configuration with the plugins of the files, which profiles may name from now on. Raises SettingsError."""
        self._use(self._in_force)
        return with_plugins(scheduler_settings.load(self._config, self._gates), self._in_force)

    def close(self) -> None:
        """Profiles may name the plugins no more."""
        self._known.close()

    def look(self, core: SchedulerCore) -> bool:
        """Take in files that changed. Returns whether the scheduler has new plugins."""
        changed, problems = self._files.look()
        for problem in problems:
            logger.error("the plugin stays as it was: %s", problem)
        if not changed:
            return False
        before, names = self._in_force, ", ".join(map(str, changed))
        if not self._put_in_force(core, self._files.classes, names):
            return False
        self._last_good = () if self._has_failed_at_once else before
        self._has_failed_at_once, self._is_tried = False, False
        logger.info("plugins taken from %s", names)
        return True

    def decided(self, core: SchedulerCore, decision: Decision) -> bool:
        """A decision was made: if a new plugin failed in it, go back to the last good ones. Returns whether that was so."""
        if decision.gate is not None:
            return False
        before, self._last_good = self._last_good, ()
        is_first, self._is_tried = not self._is_tried, True
        if not decision.error or decision.error_plugin not in {plugin.name for plugin in self._in_force}:
            self._has_failed_at_once = False
            return False
        if before:
            logger.error("plugin %s failed, and is as it was before: %s", decision.error_plugin, decision.error)
            return self._put_in_force(core, before, "the last good version")
        if is_first:
            self._has_failed_at_once = True
            logger.error("plugin %s failed in its first decision: %s", decision.error_plugin, decision.error)
        return False

    def _put_in_force(self, core: SchedulerCore, classes: Classes, source: str) -> bool:
        before = self._in_force
        self._in_force = classes
        try:
            core.use(self.settings())
        except Exception as error:  # plugins under development fail in any way when they are made
            logger.error("the plugins of %s stay as they were: %s: %s", source, type(error).__name__, error)
            self._in_force = before
            self._use(before)
            return False
        return True

    def _use(self, classes: Classes) -> None:
        self._known.close()
        for plugin in classes:
            self._known.enter_context(registry.known(plugin))
